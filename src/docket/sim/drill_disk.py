"""The disk of a drill: a volume on which every file of the run suffers, as a fault specification says.

``enospc`` is a volume of so many bytes, in which room that is given back can be used again; ``eio``, ``slow_sync`` and
``lying_sync`` befall syncs; ``enospc_at`` and ``eio_at`` befall one operation of any kind, ``readonly`` and ``vanish``
everything from some operation on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from docket.sim.faults import Fault, Plan
from docket.storage.durable import Disk, FileState

_ONCE = {"enospc_at": errno.ENOSPC, "eio_at": errno.EIO}


class DrillDisk:
    """A disk that misbehaves by plan. ``note`` is told each kind of fault the first time it strikes."""

    def __init__(
        self, inner: Disk, plan: Plan, *, sleep: Callable[[float], None], note: Callable[[Fault, int], None]
    ) -> None:
        """``note`` gets the fault and the number of the operation (of ``enospc``: the byte) that it struck first."""
        self._inner = inner
        self._plan = plan
        self._sleep = sleep
        self._note = note
        self._names: dict[int, str] = {}
        self._sizes: dict[str, int] = {}
        self._syncs = 0
        self._operations = 0
        self._noted: set[Fault] = set()
        self._room = self._least("enospc")
        self._readonly = self._least("readonly")
        self._gone = self._least("vanish")

    def open(self, name: str, flags: int, directory: int) -> int:
        if flags & os.O_CREAT:
            self._change()
        self._look()
        fd = self._inner.open(name, flags, directory)
        self._names[fd] = name
        if flags & os.O_CREAT:
            self._sizes[name] = 0
        return fd

    def close(self, fd: int) -> None:
        self._names.pop(fd, None)
        self._inner.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._look()
        return self._inner.read(fd, size, offset)

    def write(self, fd: int, data: bytes, offset: int) -> int:
        self._change()
        name = self._names.get(fd, "")
        left = self._left()
        if left is not None and self._room is not None:
            growth = offset + len(data) - self._sizes.get(name, 0)
            if growth > left:
                self._tell(self._room, offset)
                fits = len(data) - (growth - left)
                if fits <= 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                data = data[:fits]
        written = self._inner.write(fd, data, offset)
        self._sizes[name] = max(self._sizes.get(name, 0), offset + written)
        return written

    def sync(self, fd: int) -> None:
        self._change()
        self._syncs += 1
        lies = False
        for draw in self._plan.draw("disk", self._syncs):
            match draw.fault.name:
                case "slow_sync":
                    self._tell(draw.fault, self._syncs)
                    self._sleep(draw.fault.magnitude / 1_000_000)
                case "lying_sync":
                    self._tell(draw.fault, self._syncs)
                    lies = True
                case "eio":
                    self._tell(draw.fault, self._syncs)
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not lies:
            self._inner.sync(fd)

    def sync_directory(self, directory: int) -> None:
        self._change()
        self._inner.sync_directory(directory)

    def truncate(self, fd: int, size: int) -> None:
        self._change()
        self._inner.truncate(fd, size)
        self._sizes[self._names.get(fd, "")] = size

    def rename(self, source: str, target: str, directory: int) -> None:
        self._change()
        self._inner.rename(source, target, directory)
        self._sizes[target] = self._sizes.pop(source, 0)
        for fd, name in self._names.items():
            if name == source:
                self._names[fd] = target

    def link(self, source: str, target: str, directory: int) -> None:
        self._change()
        self._inner.link(source, target, directory)

    def unlink(self, name: str, directory: int) -> None:
        self._change()
        self._inner.unlink(name, directory)
        self._sizes.pop(name, None)

    def stat(self, name: str, directory: int) -> FileState:
        self._look()
        return self._inner.stat(name, directory)

    def fstat(self, fd: int) -> FileState:
        self._look()
        return self._inner.fstat(fd)

    def free_bytes(self, fd: int) -> int:
        free, left = self._inner.free_bytes(fd), self._left()
        return free if left is None else max(0, min(free, left))

    def _least(self, name: str) -> Fault | None:
        return min((fault for fault in self._plan.of("disk") if fault.name == name), key=_magnitude, default=None)

    def _left(self) -> int | None:
        """Bytes that the volume still has; None for no limit."""
        return None if self._room is None else self._room.magnitude - sum(self._sizes.values())

    def _change(self) -> None:
        """An operation that changes something is about to be made."""
        self._operations += 1
        self._look()
        for fault in self._plan.of("disk"):
            if fault.name in _ONCE and fault.magnitude == self._operations:
                self._tell(fault, self._operations)
                raise OSError(_ONCE[fault.name], os.strerror(_ONCE[fault.name]))
        if self._readonly is not None and self._operations > self._readonly.magnitude:
            self._tell(self._readonly, self._operations)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def _look(self) -> None:
        """Any operation at all is about to be made."""
        if self._gone is not None and self._operations > self._gone.magnitude:
            self._tell(self._gone, self._operations)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _tell(self, fault: Fault, number: int) -> None:
        if fault not in self._noted:
            self._noted.add(fault)
            self._note(fault, number)


def _magnitude(fault: Fault) -> int:
    return fault.magnitude
