from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from docket.sim.drill_disk import DrillDisk
from docket.sim.faults import Fault, Plan, parse
from docket.storage.durable import CREATE, SystemDisk
from docket.storage.paths import LEDGER


class Drill:
    def __init__(self, directory: int, faults: str) -> None:
        self.waits: list[float] = []
        self.notes: list[tuple[str, int]] = []
        self.disk = DrillDisk(SystemDisk(), Plan(parse(faults), 3), sleep=self.waits.append, note=self.note)
        self.ledger = self.disk.open(LEDGER, CREATE, directory)
        self.other = self.disk.open("other", CREATE, directory)

    def note(self, fault: Fault, number: int) -> None:
        self.notes.append((fault.name, number))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_volume_takes_what_fits_then_nothing_and_only_the_ledger_suffers(directory: int) -> None:
    drill = Drill(directory, "enospc=100B")
    assert drill.disk.write(drill.ledger, bytes(90), 0) == 90
    assert drill.disk.free_bytes(drill.ledger) == 10
    assert drill.disk.write(drill.ledger, bytes(90), 90) == 10, "a short write first, as a real volume does"
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        drill.disk.write(drill.ledger, b"x", 100)
    assert drill.disk.write(drill.other, bytes(500), 0) == 500
    drill.disk.truncate(drill.ledger, 90)
    assert drill.disk.write(drill.ledger, bytes(10), 90) == 10
    assert drill.notes == [("enospc", 90)], "told once"


def test_syncs_fail_dawdle_and_lie(directory: int) -> None:
    failing = Drill(directory, "eio,slow_sync=7ms")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        failing.disk.sync(failing.ledger)
    failing.disk.sync(failing.other)
    assert failing.notes == [("eio", 1)]


def test_slow_and_lying_syncs_are_told_once(directory: int) -> None:
    slow = Drill(directory, "slow_sync=7ms,lying_sync")
    for _ in range(3):
        slow.disk.sync(slow.ledger)
    assert slow.waits == [0.007] * 3
    assert slow.notes == [("slow_sync", 1), ("lying_sync", 1)]
