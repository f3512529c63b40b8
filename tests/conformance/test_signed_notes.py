"""Checkpoints as another program reads them: Go's ``sumdb/note``, from Debian's golang-golang-x-mod-dev."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.scene import short
from conformance.verifiers import tool

SOURCE = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/note/note.go")
MAIN = """package main

import (
	"fmt"
	"io"
	"os"

	"reader/note"
)

func main() {
	text, _ := io.ReadAll(os.Stdin)
	verifier, err := note.NewVerifier(os.Args[1])
	if err == nil {
		var read *note.Note
		read, err = note.Open(text, note.VerifierList(verifier))
		if err == nil {
			fmt.Print(read.Text)
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that opens a note with sumdb/note and prints its text."""
    compiler = tool("go")
    if compiler is None or not SOURCE.exists():
        pytest.skip("SKIP: no Go, or no golang-golang-x-mod-dev")
    module = tmp_path_factory.mktemp("reader")
    (module / "note").mkdir()
    shutil.copy(SOURCE, module / "note" / "note.go")
    (module / "go.mod").write_text("module reader\n\ngo 1.21\n")
    (module / "main.go").write_text(MAIN)
    environment = os.environ | {"GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    subprocess.run([compiler, "build", "-o", "reader", "."], cwd=module, check=True, env=environment)
    return module / "reader"


def opened(reader: Path, note: bytes, public: bytes, name: str) -> subprocess.CompletedProcess[bytes]:
    key_id = hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4].hex()
    verifier = f"{name}+{key_id}+" + base64.b64encode(b"\x01" + public).decode()
    return subprocess.run([str(reader), verifier], input=note, capture_output=True, check=False)


def test_sumdb_note_opens_every_checkpoint_of_a_run(reader: Path) -> None:
    run = short(calls=3)
    name = f"docket/{run.docket}"
    for note in run.notes:
        answer = opened(reader, note, run.sessions[0].key.public, name)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout == note[: note.index(b"\n\n") + 1]


def test_sumdb_note_refuses_an_altered_one(reader: Path) -> None:
    run = short()
    name = f"docket/{run.docket}"
    altered = run.notes[-1].replace(b"\n4\n", b"\n5\n", 1)
    assert altered != run.notes[-1]
    assert opened(reader, altered, run.sessions[0].key.public, name).returncode == 1
