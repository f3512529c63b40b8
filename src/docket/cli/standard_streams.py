"""Standard input, output and error as a program may rely on them: open, whatever docket was started with.

A program that is started without them (cron, init scripts) gets the lowest free number for the next file that it
opens: a ledger or a socket would be 0, 1 or 2, and whatever anybody prints would land there.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def open_missing() -> None:
    """Open the null device in the place of every standard descriptor that is closed; the agent inherits it."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            os.set_inheritable(opened, True)
            assert opened == descriptor, "lower descriptors are open by now"
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(opened, "r" if descriptor == 0 else "w", encoding="utf-8", closefd=False))


def take_any_text() -> None:
    """Let stdout and stderr take every text whatever their encoding: what it lacks is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not is_utf8(stream):
            stream.reconfigure(errors="backslashreplace")


def is_utf8(stream: TextIO) -> bool:
    """Return whether ``stream`` can take every text as it is."""
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


def settle() -> None:
    """Let what stdout and stderr do not take go nowhere: the interpreter's last flush would change the exit status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
