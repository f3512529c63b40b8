"""The disk of a drill: what a fault specification says of ``enospc``, ``eio``, ``slow_sync`` and ``lying_sync``.

Only the ledger's file suffers; so a drill can still be sealed, and its receipt tells what was lost.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from docket.sim.faults import Fault, Plan
from docket.storage.durable import Disk, FileState
from docket.storage.paths import LEDGER


class DrillDisk:
    """A disk whose ledger file misbehaves by plan. ``note`` is told each kind of fault the first time it strikes."""

    def __init__(
        self, inner: Disk, plan: Plan, *, sleep: Callable[[float], None], note: Callable[[Fault, int], None]
    ) -> None:
        """``note`` gets the fault and the number of the sync or write that it struck first, in the writer's thread."""
        self._inner = inner
        self._plan = plan
        self._sleep = sleep
        self._note = note
        self._ledgers: set[int] = set()
        self._syncs = 0
        self._noted: set[Fault] = set()
        room = [fault for fault in plan.of("disk") if fault.name == "enospc"]
        self._room = min(room, key=lambda fault: fault.magnitude, default=None)

    def open(self, name: str, flags: int, directory: int) -> int:
        fd = self._inner.open(name, flags, directory)
        if name == LEDGER:
            self._ledgers.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._ledgers.discard(fd)
        self._inner.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return self._inner.read(fd, size, offset)

    def write(self, fd: int, data: bytes, offset: int) -> int:
        if self._room is None or fd not in self._ledgers or offset + len(data) <= self._room.magnitude:
            return self._inner.write(fd, data, offset)
        self._tell(self._room, offset)
        left = self._room.magnitude - offset
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._inner.write(fd, data[:left], offset)

    def sync(self, fd: int) -> None:
        if fd not in self._ledgers:
            self._inner.sync(fd)
            return
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
        self._inner.sync_directory(directory)

    def truncate(self, fd: int, size: int) -> None:
        self._inner.truncate(fd, size)

    def rename(self, source: str, target: str, directory: int) -> None:
        self._inner.rename(source, target, directory)

    def link(self, source: str, target: str, directory: int) -> None:
        self._inner.link(source, target, directory)

    def unlink(self, name: str, directory: int) -> None:
        self._inner.unlink(name, directory)

    def stat(self, name: str, directory: int) -> FileState:
        return self._inner.stat(name, directory)

    def fstat(self, fd: int) -> FileState:
        return self._inner.fstat(fd)

    def free_bytes(self, fd: int) -> int:
        free = self._inner.free_bytes(fd)
        if self._room is None:
            return free
        used = max((self._inner.fstat(ledger).size for ledger in self._ledgers), default=0)
        return max(0, min(free, self._room.magnitude - used))

    def _tell(self, fault: Fault, number: int) -> None:
        if fault not in self._noted:
            self._noted.add(fault)
            self._note(fault, number)
