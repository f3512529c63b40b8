"""Contents: what files held, each kept once under its SHA-256, shared by blocks where the filesystem can.

Invariant: a kept content is never a second name of a file that somebody may change; it is a clone (``FICLONE``) or a
copy, hashed from what was kept, so that a file that changes meanwhile cannot make a content that is not its name.
Reading checks the digest again before anything is given out.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import suppress
from typing import Protocol

from docket.errors import FormatError
from docket.storage.regular import open_regular

FICLONE = 0x40049409
"""ioctl_ficlonerange(2): share all blocks of another file."""
READ_BYTES = 1 << 20
"""Bytes of one read: large files stream in constant memory, and hashing releases the interpreter for most of it."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class Digester(Protocol):
    """Reads a file once, from its beginning."""

    def read(self, fd: int) -> tuple[str, int]:
        """SHA-256 in hex and number of bytes. Raises OSError."""
        ...


class HashOnly:
    """Digests without keeping anything."""

    def read(self, fd: int) -> tuple[str, int]:
        return digest(fd)


def digest(fd: int) -> tuple[str, int]:
    """SHA-256 in hex and number of bytes of the rest of the file ``fd``."""
    first = os.read(fd, READ_BYTES)
    if len(first) < READ_BYTES:
        rest = os.read(fd, READ_BYTES) if first else b""
        if not rest:
            return hashlib.sha256(first).hexdigest(), len(first)
        first += rest
    state, size = hashlib.sha256(first), len(first)
    while chunk := os.read(fd, READ_BYTES):
        state.update(chunk)
        size += len(chunk)
    return state.hexdigest(), size


class ContentStore:
    """A flat directory of contents. Many threads may ``read`` into one store at once."""

    def __init__(self, directory: int) -> None:
        """``directory`` is an open descriptor, which stays the caller's."""
        self._directory = directory
        self._clones = True
        self.kept_bytes = 0
        """Bytes written by copying: what the store takes on disk beyond shared blocks."""
        self.cloned_bytes = 0
        """Bytes that share their blocks with the tree."""

    def read(self, fd: int) -> tuple[str, int]:
        """Keep the content of ``fd``; its SHA-256 in hex and its number of bytes. Raises OSError."""
        temporary = f"tmp-{os.urandom(8).hex()}"
        kept = open_regular(temporary, _NEW, directory=self._directory)
        try:
            cloned = self._clone(fd, kept)
            sha256, size = digest(kept) if cloned else _copy(fd, kept)
            if self._place(temporary, sha256):
                if cloned:
                    self.cloned_bytes += size
                else:
                    self.kept_bytes += size
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._directory)
            raise
        finally:
            os.close(kept)
        return sha256, size

    def open(self, sha256: str) -> int:
        """Descriptor of a content, at its beginning, after its digest was checked.

        Raises FormatError where it is not there or is not what its name says.
        """
        try:
            fd = open_regular(sha256, directory=self._directory)
        except OSError as error:
            raise FormatError(f"the stored content {sha256} cannot be read: {error.strerror}") from error
        try:
            if digest(fd)[0] != sha256:
                raise FormatError(f"the stored content {sha256} is not what its name says")
            os.lseek(fd, 0, os.SEEK_SET)
        except OSError as error:
            os.close(fd)
            raise FormatError(f"the stored content {sha256} cannot be read: {error.strerror}") from error
        except FormatError:
            os.close(fd)
            raise
        return fd

    def has(self, sha256: str) -> bool:
        """Whether there is a content of that name; what it holds is checked when it is opened."""
        try:
            os.stat(sha256, dir_fd=self._directory, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _clone(self, source: int, target: int) -> bool:
        if not self._clones:
            return False
        try:
            fcntl.ioctl(target, FICLONE, source)
        except OSError:
            self._clones = False
            return False
        return True

    def _place(self, temporary: str, sha256: str) -> bool:
        """Give the content its name; False where it was there already."""
        if self.has(sha256):
            os.unlink(temporary, dir_fd=self._directory)
            return False
        os.rename(temporary, sha256, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        return True


def _copy(source: int, target: int) -> tuple[str, int]:
    state, size = hashlib.sha256(), 0
    while chunk := os.read(source, READ_BYTES):
        state.update(chunk)
        size += len(chunk)
        view = memoryview(chunk)
        while view:
            view = view[os.write(target, view) :]
    return state.hexdigest(), size


def copy_out(source: int, target: int) -> None:
    """Fill the empty file ``target`` with the content ``source``: shared blocks where possible, else a copy."""
    with suppress(OSError):
        fcntl.ioctl(target, FICLONE, source)
        return
    while chunk := os.read(source, READ_BYTES):
        view = memoryview(chunk)
        while view:
            view = view[os.write(target, view) :]
