"""Stand-ins for the disk: one that fails on a plan, one that forgets what was not synced. Both wrap a real one.

``FaultyDisk`` fails, shortens or crashes at chosen system calls. ``ForgetfulDisk`` remembers what a power cut would
leave: synced pages, any subset of the others, zero-filled or old, and names as far as their directory was synced.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from docket.storage.durable import Disk, FileState

T = TypeVar("T")

PAGE = 4096
"""Bytes that reach stable storage together."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One system call that is about to be made: the how many-th of all, and of its kind, and on what."""

    number: int
    kind: str
    of_kind: int
    name: str
    """Name of the file, where known."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The call fails with ``errno``; a write may have put ``after`` bytes down before."""

    errno: int
    after: int = 0


@dataclass(frozen=True, slots=True)
class Short:
    """A write takes only ``bytes`` bytes, and says so."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Crash:
    """The machine is gone before the call, or after ``after`` bytes of a write; so is every later call."""

    after: int = 0


Plan = Callable[[Operation], "Fail | Short | Crash | None"]
"""What happens at an operation; None is what usually does."""


class CrashedError(OSError):
    """The simulated machine is gone."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the machine is gone")


class FaultyDisk:
    """A disk on which ``plan`` decides over every call that changes something."""

    def __init__(self, inner: Disk, plan: Plan) -> None:
        self._inner = inner
        self._plan = plan
        self._names: dict[int, str] = {}
        self._counts: dict[str, int] = {}
        self.operations = 0
        self.crashed = False

    def open(self, name: str, flags: int, directory: int) -> int:
        kind = "create" if flags & os.O_CREAT else "open"
        fd = self._do(kind, name, lambda: self._inner.open(name, flags, directory))
        self._names[fd] = name
        return fd

    def close(self, fd: int) -> None:
        self._names.pop(fd, None)
        self._inner.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return self._inner.read(fd, size, offset)

    def write(self, fd: int, data: bytes, offset: int) -> int:
        match self._decide("write", self._names.get(fd, "")):
            case Fail() as fail:
                self._inner.write(fd, data[: fail.after], offset)
                raise OSError(fail.errno, os.strerror(fail.errno))
            case Crash() as crash:
                self._inner.write(fd, data[: crash.after], offset)
                self.crashed = True
                raise CrashedError
            case Short() as short:
                return self._inner.write(fd, data[: short.bytes], offset)
        return self._inner.write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._do("sync", self._names.get(fd, ""), lambda: self._inner.sync(fd))

    def sync_directory(self, directory: int) -> None:
        self._do("sync_directory", "", lambda: self._inner.sync_directory(directory))

    def truncate(self, fd: int, size: int) -> None:
        self._do("truncate", self._names.get(fd, ""), lambda: self._inner.truncate(fd, size))

    def rename(self, source: str, target: str, directory: int) -> None:
        self._do("rename", target, lambda: self._inner.rename(source, target, directory))

    def link(self, source: str, target: str, directory: int) -> None:
        self._do("link", target, lambda: self._inner.link(source, target, directory))

    def unlink(self, name: str, directory: int) -> None:
        self._do("unlink", name, lambda: self._inner.unlink(name, directory))

    def stat(self, name: str, directory: int) -> FileState:
        return self._inner.stat(name, directory)

    def fstat(self, fd: int) -> FileState:
        return self._inner.fstat(fd)

    def free_bytes(self, fd: int) -> int:
        return self._inner.free_bytes(fd)

    def _decide(self, kind: str, name: str) -> Fail | Short | Crash | None:
        if self.crashed:
            raise CrashedError
        operation = Operation(self.operations, kind, self._counts.get(kind, 0), name)
        self.operations += 1
        self._counts[kind] = operation.of_kind + 1
        return self._plan(operation)

    def _do(self, kind: str, name: str, call: Callable[[], T]) -> T:
        match self._decide(kind, name):
            case Fail() as fail:
                raise OSError(fail.errno, os.strerror(fail.errno))
            case Crash():
                self.crashed = True
                raise CrashedError
        return call()


@dataclass(slots=True)
class _Inode:
    """A file as it is on stable storage, and the pages that differ in memory."""

    durable: bytes = b""
    dirty: set[int] = field(default_factory=set)


class ForgetfulDisk:
    """A disk that knows what a power cut would leave of the files made through it."""

    def __init__(self, inner: Disk) -> None:
        self._inner = inner
        self._inodes: dict[int, _Inode] = {}
        self._names: dict[str, int] = {}
        self._durable_names: dict[str, int] = {}
        self._pending: list[dict[str, int]] = []

    def open(self, name: str, flags: int, directory: int) -> int:
        fd = self._inner.open(name, flags, directory)
        inode = self._inner.fstat(fd).inode
        if inode not in self._inodes:
            self._inodes[inode] = _Inode(b"" if flags & os.O_CREAT else self._content(fd))
            if not flags & os.O_CREAT:
                self._durable_names[name] = inode
            self._name(name, inode)
        return fd

    def close(self, fd: int) -> None:
        self._inner.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return self._inner.read(fd, size, offset)

    def write(self, fd: int, data: bytes, offset: int) -> int:
        written = self._inner.write(fd, data, offset)
        pages = range(offset // PAGE, (offset + max(written, 1) - 1) // PAGE + 1)
        self._inodes[self._inner.fstat(fd).inode].dirty.update(pages)
        return written

    def sync(self, fd: int) -> None:
        self._inner.sync(fd)
        inode = self._inodes[self._inner.fstat(fd).inode]
        inode.durable = self._content(fd)
        inode.dirty.clear()

    def sync_directory(self, directory: int) -> None:
        self._inner.sync_directory(directory)
        self._durable_names = dict(self._names)
        self._pending.clear()

    def truncate(self, fd: int, size: int) -> None:
        self._inner.truncate(fd, size)
        self._inodes[self._inner.fstat(fd).inode].dirty.add(size // PAGE)

    def rename(self, source: str, target: str, directory: int) -> None:
        self._inner.rename(source, target, directory)
        inode = self._names.pop(source)
        self._name(target, inode)

    def link(self, source: str, target: str, directory: int) -> None:
        self._inner.link(source, target, directory)
        self._name(target, self._names[source])

    def unlink(self, name: str, directory: int) -> None:
        self._inner.unlink(name, directory)
        self._names.pop(name, None)
        self._pending.append(dict(self._names))

    def stat(self, name: str, directory: int) -> FileState:
        return self._inner.stat(name, directory)

    def fstat(self, fd: int) -> FileState:
        return self._inner.fstat(fd)

    def free_bytes(self, fd: int) -> int:
        return self._inner.free_bytes(fd)

    def after_power_cut(self, source: Path, target: Path, rng: random.Random) -> None:
        """Write to the empty directory ``target`` one state that a power cut now could leave of ``source``.

        Names are those of some moment since the directory was last synced; of a file, its synced pages and any subset
        of the others, each as it was, as it is, or zero-filled, up to some length between the synced and the present.
        """
        names = rng.choice([self._durable_names, *self._pending])
        current = {path.stat().st_ino: path for path in source.iterdir() if path.is_file()}
        for name, number in names.items():
            inode = self._inodes[number]
            volatile = current[number].read_bytes() if number in current else inode.durable
            (target / name).write_bytes(_left(inode, volatile, rng))

    def _name(self, name: str, inode: int) -> None:
        self._names[name] = inode
        self._pending.append(dict(self._names))

    def _content(self, fd: int) -> bytes:
        return self._inner.read(fd, self._inner.fstat(fd).size, 0)


def _left(inode: _Inode, volatile: bytes, rng: random.Random) -> bytes:
    if not inode.dirty:
        return inode.durable
    shorter, longer = sorted((len(inode.durable), len(volatile)))
    length = rng.choice([shorter, longer, rng.randint(shorter, longer)])
    kept = rng.choice((0.0, 0.5, 0.5, 1.0))
    left = bytearray(inode.durable[:length].ljust(length, b"\0"))
    for page in sorted(inode.dirty):
        if rng.random() < kept:
            start, end = page * PAGE, min((page + 1) * PAGE, length)
            left[start:end] = volatile[start:end].ljust(max(0, end - start), b"\0")
    return bytes(left)
