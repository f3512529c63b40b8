"""A tree that cannot be left: every operation names a path below one root, whatever stands there by then.

Invariant: a directory is reached only from the root's descriptor, through directories, never through a link, a mount
or ``..``; the last component is never followed. One ``openat2(2)`` with ``RESOLVE_BENEATH`` does that in the kernel;
where there is none, one ``openat`` a component with ``O_NOFOLLOW``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from docket.errors import SnapshotError
from docket.snapshot.capture import OPEN_DIRECTORY
from docket.snapshot.content import digest
from docket.snapshot.manifest import ROOT, Entry, check_path, kind_of, seen_of
from docket.snapshot.plan import Here

_PATH_ONLY = getattr(os, "O_PATH", 0)
"""Names an object without opening it (open(2)); zero where the system has no such thing, and then no tree is made."""
O_PATH = _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_NODE = _PATH_ONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
PATH_MAX = 4096
"""Bytes of a path that one call takes; a longer one is walked."""
_SYS_OPENAT2 = 437
"""openat2(2) has this number on every architecture (Linux 5.6)."""
_RESOLVE = 0x08 | 0x04 | 0x02 | 0x01
"""RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_XDEV (openat2(2))."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(root: int, path: str) -> int | None:
    """Descriptor (O_PATH) of the directory ``path`` below ``root``, or None where the kernel has no such call.

    Raises OSError as the call does.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    how = _OpenHow(O_PATH, 0, _RESOLVE)
    for _ in range(8):
        fd = int(
            libc.syscall(
                ctypes.c_long(_SYS_OPENAT2),
                ctypes.c_int(root),
                ctypes.c_char_p(os.fsencode(path)),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
        )
        if fd >= 0:
            return fd
        if ctypes.get_errno() != errno.EAGAIN:  # a rename raced with the resolution
            break
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EPERM):  # a seccomp filter answers EPERM for calls that it does not know
        return None
    raise OSError(code, os.strerror(code), path)


class ConfinedTree:
    """The directory ``root`` and what lies below it."""

    def __init__(self, root: int, *, use_openat2: bool = True) -> None:
        """``root`` is an open descriptor, which stays the caller's. Raises SnapshotError off Linux."""
        if not _PATH_ONLY:
            raise SnapshotError(
                "files cannot be put back on this system: it has no O_PATH, by which a name is held but not followed",
                hint="nothing was changed; `docket archive` packs the run, to restore it on Linux",
            )
        self.root = root
        self._device = os.fstat(root).st_dev
        self._openat2 = use_openat2

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """A descriptor (O_PATH) of the directory ``path``. Raises OSError where there is none to be had."""
        fd = self._open(path)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the directory that holds ``path``, and the last component of it."""
        check_path(path)
        above, _, name = path.rpartition("/")
        with self.directory(above or ROOT) as fd:
            yield fd, name

    def _open(self, path: str) -> int:
        check_path(path)
        if path == ROOT:
            return os.open(".", O_PATH, dir_fd=self.root)
        if self._openat2 and len(os.fsencode(path)) < PATH_MAX:
            fd = openat2(self.root, path)
            if fd is not None:
                return fd
            self._openat2 = False
        return self._walk(path)

    def _walk(self, path: str) -> int:
        fd = os.open(".", O_PATH, dir_fd=self.root)
        try:
            for part in path.split("/"):
                below = os.open(part, O_PATH, dir_fd=fd)
                os.close(fd)
                fd = below
                if os.fstat(fd).st_dev != self._device:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def status(self, path: str) -> os.stat_result | None:
        """What stands at ``path``, not followed; None for nothing, or nothing that can be reached."""
        try:
            if path == ROOT:
                return os.fstat(self.root)
            with self.parent(path) as (fd, name):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        return status

    def look(self, path: str, sizes: Collection[int]) -> Here:
        """What stands at ``path`` now; directories with their names, files read where they have one of ``sizes``."""
        try:
            status = self.status(path)
            if status is None:
                return Here()
            if stat.S_ISDIR(status.st_mode):
                return Here(entry=_entry(path, status), names=self._names(path))
            with self.parent(path) as (fd, name):
                if stat.S_ISLNK(status.st_mode):
                    return Here(entry=_entry(path, status, target=os.readlink(name, dir_fd=fd)))
                if stat.S_ISREG(status.st_mode):
                    if status.st_size not in sizes:
                        return Here(entry=_entry(path, status, gap="other-size"))
                    return Here(entry=_read(fd, name, path, status))
            return Here(entry=_entry(path, status))
        except FileNotFoundError:
            return Here()
        except OSError as error:
            return Here(problem=f"cannot be looked at: {error.strerror}")

    def read(self, path: str, limit: int) -> bytes | None:
        """At most ``limit`` + 1 bytes of the regular file ``path``; None where it is none or cannot be read."""
        with suppress(OSError), self.parent(path) as (directory, name):
            fd = os.open(name, _FILE, dir_fd=directory)
            try:
                return os.read(fd, limit + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else None
            finally:
                os.close(fd)
        return None

    def _names(self, path: str) -> frozenset[str]:
        try:
            with self.directory(path) as fd:
                listing = os.open(".", OPEN_DIRECTORY, dir_fd=fd)
                try:
                    return frozenset(os.listdir(listing))
                finally:
                    os.close(listing)
        except PermissionError:
            return frozenset()


@contextmanager
def node(directory: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor (O_PATH) of exactly the object at ``name``, not followed, and what it is."""
    fd = os.open(name, _NODE, dir_fd=directory)
    try:
        yield fd, os.fstat(fd)
    finally:
        os.close(fd)


def set_mode(fd: int, mode: int) -> None:
    """Set the permissions of the object behind an O_PATH descriptor, which fchmod(2) does not take."""
    os.chmod(f"/proc/self/fd/{fd}", mode)


def set_mtime(fd: int, mtime_ns: int) -> None:
    """Set the time of the object behind an O_PATH descriptor, nanoseconds since 1970."""
    os.utime(f"/proc/self/fd/{fd}", ns=(os.fstat(fd).st_atime_ns, mtime_ns))


def _read(directory: int, name: str, path: str, status: os.stat_result) -> Entry:
    try:
        fd = os.open(name, _FILE, dir_fd=directory)
    except PermissionError:
        return _entry(path, status, gap="unreadable")
    try:
        opened = os.fstat(fd)
        if not stat.S_ISREG(opened.st_mode):
            return _entry(path, opened)
        sha256, _ = digest(fd)
        return _entry(path, opened, sha256=sha256)
    finally:
        os.close(fd)


def _entry(
    path: str, status: os.stat_result, *, sha256: str | None = None, target: str | None = None, gap: str | None = None
) -> Entry:
    kind = kind_of(status.st_mode)
    return Entry(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        size=status.st_size if kind == "file" else 0,
        sha256=sha256,
        target=target,
        gap=gap,
        seen=seen_of(status),
    )
