"""The open ledger file: appended in whole batches, compared with what was written.

Invariant: ``size`` bytes of the file are durable and are exactly what was appended. After a failed write the file is
cut back to them; after a failed sync it is never written again, since the kernel may have dropped the pages and a
second sync would lie.
"""

from __future__ import annotations

import hashlib

from docket.errors import LedgerWriteError
from docket.storage.durable import READ_BYTES, WRITE, create, write_all
from docket.storage.paths import RunDirectory


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
            write_all(self._disk, self._fd, data, self.size)
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
        held = self._disk.fstat(self._fd)
        try:
            named = self._disk.stat(self.name, self._run.fd)
        except FileNotFoundError:
            return "removed"
        if (named.device, named.inode) != (held.device, held.inode):
            return "replaced"
        if held.links != 1:
            return "linked"
        if held.size != self.size and not self.failed:
            return "resized"
        return None

    def content_difference(self) -> str | None:
        """As ``difference``, and whether the bytes are those that were written: reads the whole file."""
        found, offset = hashlib.sha256(), 0
        while offset < self.size:
            part = self._disk.read(self._fd, min(READ_BYTES, self.size - offset), offset)
            if not part:
                break
            found.update(part)
            offset += len(part)
        return self.difference() or ("edited" if found.digest() != self._digest.digest() else None)

    def close(self) -> None:
        self._disk.close(self._fd)

    @property
    def _where(self) -> str:
        return str(self._run.path / self.name)

    def cut_back(self) -> None:
        """Leave the durable bytes only, if the disk lets it; otherwise the file is given up."""
        try:
            self._disk.truncate(self._fd, self.size)
        except OSError:
            self.failed = True  # a torn line may stand there: nothing may be written behind it
