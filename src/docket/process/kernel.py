"""The three prctl(2) switches that supervision rests on, through ctypes (the standard library has none), and a trial.

Invariant: a refusal is an OSError, never silence. Only called where ``host`` says the facility exists.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"prctl({option}, {value})")


def become_subreaper() -> None:
    """Make this process the parent of every descendant that loses its own (PR_SET_CHILD_SUBREAPER)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal: int) -> None:
    """Have the kernel send ``signal`` to this process when the thread that made it ends (PR_SET_PDEATHSIG)."""
    _prctl(_PR_SET_PDEATHSIG, signal)


def forbid_inspection() -> None:
    """No core dumps, no ptrace and no reading of this process's memory by its own user (PR_SET_DUMPABLE 0)."""
    _prctl(_PR_SET_DUMPABLE, 0)


def adopts_orphans() -> bool:
    """Try whether a process that loses its parent is handed to this one: make such a process, and ask it.

    Only where this process has one thread. Raises OSError where no process can be made.
    """
    waiting, going = os.pipe()
    answering, answer = os.pipe()
    here = os.getpid()
    parent = os.fork()
    if not parent:
        try:
            if not os.fork():
                os.close(going)
                os.read(waiting, 1)
                os.write(answer, b"y" if os.getppid() == here else b"n")
        finally:
            os._exit(0)
    for end in (waiting, answer):
        os.close(end)
    os.waitpid(parent, 0)
    os.close(going)
    adopted = os.read(answering, 1) == b"y"
    os.close(answering)
    if adopted:
        os.waitpid(-1, 0)
    return adopted
