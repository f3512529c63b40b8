"""The open ledger file: appended in whole batches, compared with what was written.

Invariant: ``size`` bytes of the file are durable and are exactly what was appended. After a failed write the file is
cut back to them; after a failed sync it is never written again, since the kernel may have dropped the pages and a
second sync would lie. What another hand does to the file is noticed, and undone where that is possible.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from docket.errors import LedgerWriteError
from docket.storage.durable import CREATE, READ_BYTES, WRITE, create, foreign_name, temporary_name, write_all
from docket.storage.paths import RunDirectory

UNREADABLE = "unreadable"
"""In place of a difference: the disk did not let anybody look."""


class SyncFailedError(LedgerWriteError):
    """A sync failed: what the file holds beyond its durable prefix is unknown, and it is never written again."""

    code = "ledger-sync"


class LedgerFile:
    """A file of a run that only grows."""

    def __init__(self, run: RunDirectory, name: str, fd: int, size: int, digest: hashlib._Hash) -> None:
        self._run = run
        self._disk = run.disk
        self._fd = fd
        self.name = name
        self.size = size
        """Bytes that are durable."""
        self.failed = False
        """Whether a sync failed."""
        self._digest = digest
        self._resized = False  # by another hand, and seen before a write hid it

    @classmethod
    def create(cls, run: RunDirectory, name: str) -> LedgerFile:
        """The new, empty file ``name`` of ``run``. Raises LedgerWriteError where it cannot be made or exists."""
        try:
            return cls(run, name, create(run.disk, name, run.fd), 0, hashlib.sha256())
        except OSError as error:
            raise LedgerWriteError(f"cannot make {run.path / name}: {error.strerror}") from error

    @classmethod
    def reopen(cls, run: RunDirectory, name: str, size: int, digest: hashlib._Hash) -> LedgerFile:
        """The existing file ``name``, whose ``size`` bytes with the running ``digest`` were read and found good.

        A file that is missing though nothing is known to be in it is made.
        """
        try:
            try:
                fd = run.disk.open(name, WRITE, run.fd)
            except FileNotFoundError:
                if size:
                    raise
                return cls.create(run, name)
            run.disk.sync(fd)  # what was read may still be in memory only: its writer died
        except OSError as error:
            raise LedgerWriteError(f"cannot open {run.path / name}: {error.strerror}") from error
        return cls(run, name, fd, size, digest)

    def append(self, data: bytes) -> None:
        """Make ``data`` durable behind what is there.

        Raises SyncFailedError after a failed sync, LedgerWriteError after a failed write; the file then holds its
        durable bytes only, or is given up.
        """
        if self.failed:
            raise SyncFailedError(f"{self._where} is not written any more: an earlier sync of it failed")
        try:
            found = self._disk.fstat(self._fd).size
            if found != self.size:
                self._resized = True
            if found > self.size:
                self._disk.truncate(self._fd, self.size)
            written = self._disk.write(self._fd, data, self.size)
            if written < len(data):  # nearly never
                write_all(self._disk, self._fd, data[written:], self.size + written)
        except OSError as error:
            self.cut_back()
            raise LedgerWriteError(f"cannot write {self._where}: {error.strerror}") from error
        try:
            self._disk.sync(self._fd)
        except OSError as error:
            self.failed = True
            raise SyncFailedError(f"cannot sync {self._where}: {error.strerror}") from error
        self.size += len(data)
        self._digest.update(data)

    def difference(self) -> str | None:
        """How the file at the path differs from the one that was written, if it does: a short stable word."""
        try:
            held = self._disk.fstat(self._fd)
            named = self._disk.stat(self.name, self._run.fd)
        except FileNotFoundError:
            return "removed"
        except OSError:
            return UNREADABLE
        if (named.device, named.inode) != (held.device, held.inode):
            return "replaced"
        if held.links != 1:
            return "linked"
        if (held.size != self.size or self._resized) and not self.failed:
            return "resized"
        return None

    def restore(self, difference: str) -> None:
        """Undo what another hand did, as far as the open descriptor allows; a change in place cannot be undone.

        A removed or replaced file is put back from the descriptor, and what stood in its place is kept under another
        name; bytes behind ours are cut off. Where the disk refuses, the descriptor goes on holding the true file.
        """
        self._resized = False
        with suppress(OSError):
            if difference in ("removed", "replaced"):
                self._put_back()
            elif difference == "resized" and self._disk.fstat(self._fd).size > self.size:
                self._disk.truncate(self._fd, self.size)

    def content_difference(self) -> str | None:
        """As ``difference``, and whether the bytes are those that were written: reads the whole file."""
        try:
            return self.difference() or ("edited" if self._found() != self._digest.digest() else None)
        except OSError:
            return UNREADABLE

    def _found(self) -> bytes:
        """Return the digest of the bytes that the file holds."""
        found, offset = hashlib.sha256(), 0
        while offset < self.size:
            part = self._disk.read(self._fd, min(READ_BYTES, self.size - offset), offset)
            if not part:
                break
            found.update(part)
            offset += len(part)
        return found.digest()

    def close(self) -> None:
        self._disk.close(self._fd)

    def _put_back(self) -> None:
        temporary, directory = temporary_name(self.name), self._run.fd
        fd = self._disk.open(temporary, CREATE, directory)
        offset = 0
        while offset < self.size and (part := self._disk.read(self._fd, READ_BYTES, offset)):
            write_all(self._disk, fd, part[: self.size - offset], offset)
            offset += len(part)
        self._disk.sync(fd)
        with suppress(FileNotFoundError):
            self._disk.rename(self.name, foreign_name(self.name), directory)
        self._disk.rename(temporary, self.name, directory)
        self._disk.sync_directory(directory)
        self._disk.close(self._fd)
        self._fd = fd

    @property
    def _where(self) -> str:
        return str(self._run.path / self.name)

    def cut_back(self) -> None:
        """Leave the durable bytes only, if the disk lets it; otherwise the file is given up."""
        try:
            self._disk.truncate(self._fd, self.size)
        except OSError:
            self.failed = True  # a torn line may stand there: nothing may be written behind it
