"""Bodies kept beside a ledger, each under the SHA-256 of its bytes; a file that exists is never written again."""

from __future__ import annotations

import os
from dataclasses import dataclass

from docket.errors import LedgerError, LedgerWriteError
from docket.primitives.canonical import JsonObject
from docket.primitives.digest import sha256_hex
from docket.storage.durable import DIRECTORY_MODE, READ, read_all, write_new
from docket.storage.paths import BLOBS, RunDirectory


@dataclass(frozen=True, slots=True)
class Blob:
    """A reference to a kept body, for a private member: its digest in hex and its length in bytes."""

    sha256: str
    bytes: int

    def to_json(self) -> JsonObject:
        return {"sha256": self.sha256, "bytes": self.bytes}


class Blobs:
    """The bodies of one run. Not for the event loop: ``put`` waits for the disk."""

    def __init__(self, run: RunDirectory, max_bytes: int | None = None) -> None:
        """``max_bytes`` bounds all bodies of the run together; bodies kept by earlier sessions count."""
        self._run = run
        self._max_bytes = max_bytes
        try:
            os.mkdir(BLOBS, DIRECTORY_MODE, dir_fd=run.fd)
            run.disk.sync_directory(run.fd)
        except FileExistsError:
            pass
        except OSError as error:
            raise LedgerWriteError(f"cannot make {run.path / BLOBS}: {error.strerror}") from error
        self._directory = os.open(BLOBS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=run.fd)
        with os.scandir(self._directory) as kept:
            self._bytes = sum(blob.stat(follow_symlinks=False).st_size for blob in kept)

    def put(self, data: bytes) -> Blob:
        """Keep ``data``; it is durable on return. Raises LedgerWriteError if it cannot be, or the bound is met."""
        blob = Blob(sha256_hex(data), len(data))
        if self._max_bytes is not None and self._bytes + blob.bytes > self._max_bytes:
            raise LedgerWriteError(f"a body of {blob.bytes} bytes does not fit: max_blob_bytes is {self._max_bytes}")
        try:
            write_new(self._run.disk, blob.sha256, data, self._directory)
            self._bytes += blob.bytes
        except FileExistsError:
            pass
        except OSError as error:
            raise LedgerWriteError(f"cannot keep a body of {blob.bytes} bytes: {error.strerror}") from error
        return blob

    def get(self, sha256: str) -> bytes:
        """The body of that digest. Raises LedgerError if it is not there or is not what its name says."""
        try:
            fd = self._run.disk.open(sha256, READ, self._directory)
        except OSError as error:
            raise LedgerError(f"no body {sha256}: {error.strerror}") from error
        try:
            data = read_all(self._run.disk, fd)
        finally:
            self._run.disk.close(fd)
        if sha256_hex(data) != sha256:
            raise LedgerError(f"the body {sha256} does not hash to its name")
        return data

    def close(self) -> None:
        os.close(self._directory)
