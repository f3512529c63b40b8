"""The one exclusive lock of a run: an flock, taken before the head is read, held as long as anything is appended.

The kernel drops it when the holder dies, however it dies. Its file says who holds it, so that the second opener is
refused by name.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass

from docket.errors import LedgerError, LedgerLockedError
from docket.storage.paths import LOCK, RunDirectory
from docket.storage.regular import open_regular

MAX_HOLDER = 512
"""Bytes read of what a lock file says."""
_HOLDER = re.compile(r"pid (\d+), docket (\S+), host (\S+)\n")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a run's lock."""

    pid: int
    docket: str
    host: str

    def __str__(self) -> str:
        return f"pid {self.pid}, docket {self.docket}, host {self.host}"


class Lock:
    """Held from the constructor until ``release`` or the death of the process."""

    def __init__(self, run: RunDirectory) -> None:
        """Take the lock of ``run``. Raises LedgerLockedError, naming the holder, if another process has it."""
        while True:
            fd = _open(run, os.O_CREAT | os.O_RDWR)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                who = _read_holder(fd)
                os.close(fd)
                raise LedgerLockedError(
                    f"{run.path} is in use by {who or 'a process that has not said its name yet'}",
                    hint="a run has one writer: wait for that process, or end it",
                ) from error
            if _is_still_named(fd, run):
                break
            os.close(fd)
        self._fd = fd
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{Holder(os.getpid(), run.name, socket.gethostname())}\n".encode(), 0)

    def release(self) -> None:
        """Let go. A volume that is gone keeps the file as it is; the kernel drops the lock all the same."""
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
        with suppress(OSError):
            os.close(self._fd)


def holder_of(run: RunDirectory) -> Holder | None:
    """The live process that holds the lock of ``run``, or None if nobody does."""
    try:
        fd = _open(run, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(fd) or Holder(0, run.name, "unknown")
    finally:
        os.close(fd)
    return None


def restore_alone(run: RunDirectory) -> bool:
    """Whether no other process restores ``run``; as long as it is open, none will.

    The lock is one of the directory, beside that of the ledger: who restores writes no ledger. Where a file system
    locks no directories, nobody is kept out.
    """
    try:
        fcntl.flock(run.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _open(run: RunDirectory, flags: int) -> int:
    try:
        return open_regular(LOCK, flags, directory=run.fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LedgerError(f"cannot open {run.path / LOCK}: {error.strerror}") from error


def _read_holder(fd: int) -> Holder | None:
    match = _HOLDER.fullmatch(os.pread(fd, MAX_HOLDER, 0).decode(errors="replace"))
    return Holder(int(match[1]), match[2], match[3]) if match else None


def _is_still_named(fd: int, run: RunDirectory) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(LOCK, dir_fd=run.fd, follow_symlinks=False))
    except FileNotFoundError:
        return False
