"""The verifiers of the matrix, called alike: ``verify --batch`` reads paths and answers one line of JSON each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import ROOT

Answer = tuple[str, tuple[tuple[str, str], ...]]
"""Verdict, and id and status of every check in order."""


@dataclass(frozen=True)
class Verifier:
    """One program."""

    name: str
    command: tuple[str, ...]

    def batch(self, paths: Sequence[Path], args: Sequence[str] = ()) -> list[Answer]:
        """The answers on ``paths``, in order."""
        asked = "".join(f"{path}\n" for path in paths)
        done = subprocess.run(
            [*self.command, "--batch", *args], input=asked, capture_output=True, text=True, check=False, timeout=600
        )
        lines = done.stdout.splitlines()
        assert len(lines) == len(paths), f"{self.name}: {done.stderr[-2000:]}"
        return [answer_of(json.loads(line)) for line in lines]

    def once(self, path: Path, args: Sequence[str] = ()) -> tuple[Answer, int]:
        """The answer on ``path`` by itself, and the exit status."""
        done = subprocess.run([*self.command, "--json", *args, str(path)], capture_output=True, text=True, check=False)
        return answer_of(json.loads(done.stdout)), done.returncode


def answer_of(document: Any) -> Answer:
    """What is compared of an answer."""
    return document["verdict"], tuple((check["id"], check["status"]) for check in document["checks"])


PYTHON = Verifier("python", (sys.executable, "-m", "docket", "verify"))


def tool(name: str) -> str | None:
    """The program ``name``, from this environment or from the machine."""
    here = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join((here, os.environ.get("PATH", ""))))


@cache
def javascript() -> Verifier | None:
    """The ES module under Node, where both are there."""
    module = ROOT / "verify-js" / "verify.mjs"
    node = tool("node")
    return Verifier("js", (node, str(module))) if node and module.exists() else None


@cache
def go() -> Verifier | None:
    """The Go program, built once, where it and Go are there."""
    source = ROOT / "verify-go"
    compiler = tool("go")
    if not compiler or not (source / "go.mod").exists():
        return None
    binary = ROOT / ".build" / "verify-go"
    binary.parent.mkdir(exist_ok=True)
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    subprocess.run([compiler, "build", "-o", str(binary), "."], cwd=source, check=True, env=environment)
    return Verifier("go", (str(binary),))


def verifier(name: str) -> Verifier:
    """The verifier ``name``; skips the test, visibly, where its tools are missing."""
    found = {"python": lambda: PYTHON, "js": javascript, "go": go}[name]()
    if found is None:
        pytest.skip(f"SKIP: no verifier or no toolchain for {name}")
    return found
