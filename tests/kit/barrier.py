"""docket as a process that waits at a chosen place of its own code until the test lets it go on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

STOPPED_AT = """
import importlib, os, sys
module, _, path = sys.argv[1].partition(":")
*owners, name = path.split(".")
owner = importlib.import_module(module)
for each in owners:
    owner = getattr(owner, each)
real = getattr(owner, name)

def barrier(*given, **named):
    setattr(owner, name, real)
    os.write(1, b"here\\n")
    try:
        os.read(0, 1)
    except OSError:  # the terminal is gone
        pass
    return real(*given, **named)

setattr(owner, name, barrier)
from docket.cli.main import main
main(["run", "--quiet", *sys.argv[2:]])
"""
"""docket, which waits for a byte where it first calls what is named."""


@contextmanager
def docket_at(
    place: str, directory: Path, *agent: str, options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A run of ``agent`` by docket, which has come to ``place`` (``module:name.of.function``) and waits there."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED_AT, place, *options, "--", *(agent or ("sleep", "60"))],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as docket:
        assert docket.stdout is not None
        assert docket.stdout.readline() == b"here\n"
        try:
            yield docket
        finally:
            docket.kill()
