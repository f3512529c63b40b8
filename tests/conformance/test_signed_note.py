"""Checkpoints are C2SP signed notes: Go's own reader of them (golang.org/x/mod/sumdb/note) opens every one."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docket.ledger import checkpoint
from docket.primitives.signature import SigningKey

NOTE = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/note/note.go")
"""Where Debian's golang-golang-x-mod-dev puts it."""
PROGRAM = """
package main

import (
	"fmt"
	"io"
	"os"

	"reader/note"
)

func main() {
	message, _ := io.ReadAll(os.Stdin)
	verifier, err := note.NewVerifier(os.Args[1])
	if err != nil {
		fmt.Println("key:", err)
		os.Exit(2)
	}
	opened, err := note.Open(message, note.VerifierList(verifier))
	if err != nil {
		fmt.Println("note:", err)
		os.Exit(1)
	}
	fmt.Print(opened.Text)
}
"""
DOCKET = "DKT-20261130-0123456789"
KEY = SigningKey(b"\x05" * 32)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader, built from Debian's source of the package without network."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    go = shutil.which("go", path=path)
    if go is None or not NOTE.exists():
        pytest.skip("no Go, or no golang-golang-x-mod-dev")
    module = tmp_path_factory.mktemp("reader")
    (module / "note").mkdir()
    shutil.copy(NOTE, module / "note/note.go")
    (module / "main.go").write_text(PROGRAM)
    (module / "go.mod").write_text("module reader\n\ngo 1.19\n")
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    subprocess.run([go, "build", "-o", "reader", "."], cwd=module, check=True, env=environment)
    return module / "reader"


def _read(reader: Path, note: bytes, public: bytes, name: str = f"docket/{DOCKET}") -> tuple[int, bytes]:
    identity = hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4].hex()
    key = f"{name}+{identity}+{base64.b64encode(bytes([1]) + public).decode()}"
    done = subprocess.run([str(reader), key], input=note, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout


@pytest.mark.parametrize("size", [1, 2, 256, 2**53 - 1])
def test_it_opens_what_docket_signs(reader: Path, size: int) -> None:
    root = hashlib.sha256(str(size).encode()).digest()
    status, text = _read(reader, checkpoint.sign(DOCKET, size, root, KEY), KEY.public)
    assert status == 0, text
    assert text.decode().splitlines() == [f"docket/{DOCKET}", str(size), base64.b64encode(root).decode()]


def test_it_refuses_another_key_another_name_and_a_changed_size(reader: Path) -> None:
    note = checkpoint.sign(DOCKET, 7, b"\x01" * 32, KEY)
    other = SigningKey(b"\x06" * 32).public
    assert _read(reader, note, other)[0] == 1
    assert _read(reader, note, KEY.public, name="docket/DKT-20261130-AAAAAAAAAA")[0] == 1
    assert _read(reader, note.replace(b"\n7\n", b"\n8\n"), KEY.public)[0] == 1
