"""Room that is kept on the ledger's volume for the end of a run: real bytes, given back when the end is written.

Invariants: what is reserved was written and synced, byte for byte, so that no file system could merely promise it (a
compressing one cannot shrink it either); its head holds the newest note that could be written nowhere else. Knows
nothing of events: how much an end takes is decided by ``control.evidence``.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from docket.errors import FormatError, LedgerWriteError
from docket.ledger import checkpoint
from docket.ledger.checkpoint import MAX_NOTE
from docket.storage.durable import CREATE, READ_BYTES, write_all
from docket.storage.paths import RESERVE, RunDirectory

HINT = "make room on that volume, or choose another one with --docket-dir"


class Reserve:
    """The reserved room of one run. Owned by the writer's thread from its making on."""

    def __init__(self, run: RunDirectory, fd: int) -> None:
        self._run = run
        self._fd = fd
        self.size = 0
        """Bytes that are kept."""

    @classmethod
    def make(cls, run: RunDirectory, size: int) -> Reserve:
        """Keep ``size`` bytes for ``run``. Raises LedgerWriteError, naming how much is missing, where that fails."""
        with suppress(OSError):
            run.disk.unlink(RESERVE, run.fd)  # of a session that died
        try:
            reserve = cls(run, run.disk.open(RESERVE, CREATE, run.fd))
        except OSError as error:
            raise LedgerWriteError(f"cannot reserve room in {run.path}: {error.strerror}", hint=HINT) from error
        try:
            reserve.grow(size)
        except LedgerWriteError:
            reserve.release()
            raise
        return reserve

    def grow(self, size: int) -> None:
        """Keep ``size`` bytes in all. Raises LedgerWriteError where the volume has no room for them."""
        disk, at = self._run.disk, self.size
        try:
            while at < size:
                part = bytes(MAX_NOTE) if at == 0 else os.urandom(min(READ_BYTES, size - at))
                write_all(disk, self._fd, part, at)
                at += len(part)
            disk.sync(self._fd)
        except OSError as error:
            with suppress(OSError):
                at = disk.fstat(self._fd).size
                disk.truncate(self._fd, self.size)
            raise LedgerWriteError(_missing(self._run, error, size, max(0, size - at)), hint=HINT) from error
        self.size = at

    def keep_note(self, note: bytes) -> None:
        """Write ``note`` over the head, in bytes that are there already; a disk that refuses is not asked again."""
        with suppress(OSError):
            write_all(self._run.disk, self._fd, note, 0)
            self._run.disk.sync(self._fd)

    def close(self) -> None:
        """Let go of the file and leave it where it is."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._run.disk.close(fd)

    def release(self) -> None:
        """Give the room back. Harmless when called twice; a disk that refuses keeps it."""
        if self._fd < 0:
            return
        disk, fd, self._fd, self.size = self._run.disk, self._fd, -1, 0
        with suppress(OSError):
            disk.truncate(fd, 0)
        with suppress(OSError):
            disk.close(fd)
        with suppress(OSError):
            disk.unlink(RESERVE, self._run.fd)


def kept_note(run: RunDirectory) -> bytes | None:
    """Return the note at the head of the reserve of ``run``; None where there is none. Raises LedgerError."""
    notes, _ = checkpoint.split((run.read(RESERVE) or b"")[:MAX_NOTE])
    try:
        return notes[0] if notes and checkpoint.parse(notes[0]) else None
    except FormatError:
        return None


def drop(run: RunDirectory) -> None:
    """Give back the room that a dead session of ``run`` had kept."""
    with suppress(OSError):
        run.disk.unlink(RESERVE, run.fd)


def _missing(run: RunDirectory, error: OSError, size: int, missing: int) -> str:
    short = f": {missing:,} bytes are missing" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return f"cannot reserve {size:,} bytes in {run.path} for the end of the run: {error.strerror}{short}"
