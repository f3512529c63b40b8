"""Making bytes durable: the only place that calls fsync, and the port through which storage reaches a disk.

Invariant: what a function here returned from normally is on stable storage, in the file and in its directory. ``Disk``
is the port; ``docket.sim.disk`` has the stand-ins that fail, tear and forget. Names are relative to an open directory,
so that nothing can be redirected by a link that appears later.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from typing import Protocol

from docket.host import host
from docket.primitives.frozen import value
from docket.storage.regular import open_regular

CREATE = os.O_CREAT | os.O_EXCL | os.O_RDWR
READ = os.O_RDONLY
WRITE = os.O_RDWR
F_FULLFSYNC = 51
"""fcntl of macOS that empties the drive's cache, which fsync there does not (fcntl(2))."""
_UNSUPPORTED = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What file systems answer that cannot sync a directory (CIFS before 4.17, some FUSE and virtiofs mounts)."""
DIRECTORY_MODE = 0o700
READ_BYTES = 1 << 18
"""Bytes of one read when a file is streamed: large enough to be cheap, small enough to be constant memory."""


@value
class FileState:
    """What is compared of a file: which inode it is, how many names it has, its size in bytes."""

    device: int
    inode: int
    links: int
    size: int
    mode: int


class Disk(Protocol):
    """The system calls that storage makes. Every method raises OSError as the call does."""

    def open(self, name: str, flags: int, directory: int) -> int:
        """Descriptor of ``name`` in ``directory``, never following a link, closed on exec; created with 0600."""
        ...

    def close(self, fd: int) -> None: ...

    def read(self, fd: int, size: int, offset: int) -> bytes: ...

    def write(self, fd: int, data: bytes, offset: int) -> int:
        """Number of bytes written at ``offset``, which may be fewer than given."""
        ...

    def sync(self, fd: int) -> None:
        """Data and size of the file are on stable storage."""
        ...

    def sync_directory(self, directory: int) -> None:
        """Names in the directory are on stable storage, where its file system can do that at all."""
        ...

    def truncate(self, fd: int, size: int) -> None: ...

    def rename(self, source: str, target: str, directory: int) -> None: ...

    def link(self, source: str, target: str, directory: int) -> None:
        """Give the file a second name; fails where ``target`` exists, so nothing is overwritten."""
        ...

    def unlink(self, name: str, directory: int) -> None: ...

    def stat(self, name: str, directory: int) -> FileState: ...

    def fstat(self, fd: int) -> FileState: ...

    def free_bytes(self, fd: int) -> int:
        """Bytes an unprivileged writer may still use on the volume of ``fd``."""
        ...


class SystemDisk:
    """The machine's own file system."""

    def open(self, name: str, flags: int, directory: int) -> int:
        return open_regular(name, flags, directory=directory)

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def sync(self, fd: int) -> None:
        if host().full_sync:
            fcntl.fcntl(fd, F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def sync_directory(self, directory: int) -> None:
        if not syncs_directories(directory):
            return  # nothing more can be done there; the run says so once (``RunDirectory.names_durable``)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def rename(self, source: str, target: str, directory: int) -> None:
        os.rename(source, target, src_dir_fd=directory, dst_dir_fd=directory)

    def link(self, source: str, target: str, directory: int) -> None:
        os.link(source, target, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)

    def unlink(self, name: str, directory: int) -> None:
        os.unlink(name, dir_fd=directory)

    def stat(self, name: str, directory: int) -> FileState:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return FileState(found.st_dev, found.st_ino, found.st_nlink, found.st_size, found.st_mode)

    def fstat(self, fd: int) -> FileState:
        found = os.fstat(fd)
        return FileState(found.st_dev, found.st_ino, found.st_nlink, found.st_size, found.st_mode)

    def free_bytes(self, fd: int) -> int:
        volume = os.fstatvfs(fd)
        return volume.f_bavail * volume.f_frsize


def syncs_directories(directory: int) -> bool:
    """Make the names in the open ``directory`` durable; False where its file system has no such operation.

    Raises OSError where it has, and the operation failed: an error of the medium is never taken for a missing feature.
    """
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def write_all(disk: Disk, fd: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``, however short the single writes are."""
    written = disk.write(fd, data, offset)
    while written < len(data):
        written += disk.write(fd, data[written:], offset + written)


def create(disk: Disk, name: str, directory: int) -> int:
    """Descriptor of the new, empty, durable file ``name``. Raises FileExistsError if there is one."""
    fd = disk.open(name, CREATE, directory)
    disk.sync_directory(directory)
    return fd


def write_new(disk: Disk, name: str, data: bytes, directory: int) -> None:
    """Write a new durable file ``name`` that is never seen half-written. Raises FileExistsError if there is one."""
    temporary = _write_temporary(disk, name, data, directory)
    try:
        disk.link(temporary, name, directory)
    finally:
        disk.unlink(temporary, directory)
    disk.sync_directory(directory)


def replace(disk: Disk, name: str, data: bytes, directory: int) -> None:
    """Make ``name`` hold exactly ``data``: temporary name, sync, rename, sync of the directory."""
    disk.rename(_write_temporary(disk, name, data, directory), name, directory)
    disk.sync_directory(directory)


def read_all(disk: Disk, fd: int) -> bytes:
    """Everything in the file, from its beginning."""
    parts, offset = [], 0
    while part := disk.read(fd, READ_BYTES, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def temporary_name(name: str) -> str:
    """A name in the same directory that ``doctor`` knows to be stale once no process holds the run."""
    return f".{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"


def foreign_name(name: str) -> str:
    """A name beside ``name`` for a file that another hand put in its place: evidence, never removed."""
    return f"{name}.foreign.{os.urandom(4).hex()}"


def _write_temporary(disk: Disk, name: str, data: bytes, directory: int) -> str:
    temporary = temporary_name(name)
    fd = disk.open(temporary, CREATE, directory)
    try:
        write_all(disk, fd, data, 0)
        disk.sync(fd)
    except OSError:
        disk.unlink(temporary, directory)
        raise
    finally:
        disk.close(fd)
    return temporary


def sync_filesystem(fd: int) -> None:
    """Everything written to the file system of ``fd`` is on stable storage (syncfs(2)). Raises OSError.

    For thousands of new files at once: one sync each would take minutes.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    syncfs = getattr(libc, "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(ctypes.c_int(fd)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
