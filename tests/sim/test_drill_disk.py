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


def test_a_volume_takes_what_fits_then_nothing_whichever_file_it_is(directory: int) -> None:
    drill = Drill(directory, "enospc=100B")
    assert drill.disk.write(drill.ledger, bytes(90), 0) == 90
    assert drill.disk.free_bytes(drill.ledger) == 10
    assert drill.disk.write(drill.ledger, bytes(90), 90) == 10, "a short write first, as a real volume does"
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        drill.disk.write(drill.ledger, b"x", 100)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        drill.disk.write(drill.other, bytes(500), 0)
    assert drill.disk.write(drill.ledger, b"y", 99) == 1, "bytes that are there can be written over"
    drill.disk.truncate(drill.ledger, 70)
    assert drill.disk.free_bytes(drill.ledger) == 30
    assert drill.disk.write(drill.other, bytes(40), 0) == 30, "room that is given back is room for all"
    drill.disk.unlink("other", directory)
    assert drill.disk.write(drill.ledger, bytes(30), 70) == 30
    assert drill.notes == [("enospc", 90)], "told once"


def test_syncs_fail_dawdle_and_lie(directory: int) -> None:
    failing = Drill(directory, "eio,slow_sync=7ms")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        failing.disk.sync(failing.ledger)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        failing.disk.sync(failing.other)
    assert failing.notes == [("eio", 1)]


def test_slow_and_lying_syncs_are_told_once(directory: int) -> None:
    slow = Drill(directory, "slow_sync=7ms,lying_sync")
    for _ in range(3):
        slow.disk.sync(slow.ledger)
    assert slow.waits == [0.007] * 3
    assert slow.notes == [("slow_sync", 1), ("lying_sync", 1)]


def test_a_volume_that_turns_read_only_can_still_be_read(directory: int) -> None:
    drill = Drill(directory, "readonly=3")
    assert drill.disk.write(drill.ledger, b"abc", 0) == 3
    for change in (
        lambda: drill.disk.write(drill.other, b"x", 0),
        lambda: drill.disk.sync(drill.ledger),
        lambda: drill.disk.truncate(drill.ledger, 0),
        lambda: drill.disk.open("new", CREATE, directory),
        lambda: drill.disk.rename("other", "third", directory),
        lambda: drill.disk.unlink("other", directory),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            change()
    assert drill.disk.read(drill.ledger, 9, 0) == b"abc"
    assert drill.notes == [("readonly", 4)]


def test_a_volume_that_is_gone_answers_nothing(directory: int) -> None:
    drill = Drill(directory, "vanish=3")
    assert drill.disk.write(drill.ledger, b"abc", 0) == 3
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        drill.disk.write(drill.ledger, b"def", 3)
    for look in (
        lambda: drill.disk.read(drill.ledger, 9, 0),
        lambda: drill.disk.stat(LEDGER, directory),
        lambda: drill.disk.fstat(drill.ledger),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            look()
    assert drill.notes == [("vanish", 4)]


@pytest.mark.parametrize(("fault", "code"), [("eio_at=4", errno.EIO), ("enospc_at=4", errno.ENOSPC)])
def test_one_operation_of_whatever_kind_fails_and_those_around_it_do_not(directory: int, fault: str, code: int) -> None:
    drill = Drill(directory, fault)
    drill.disk.write(drill.ledger, b"abc", 0)
    with pytest.raises(OSError, match=os.strerror(code)):
        drill.disk.truncate(drill.ledger, 1)
    drill.disk.sync(drill.ledger)
    assert drill.disk.read(drill.ledger, 9, 0) == b"abc"
    assert drill.notes == [(fault.partition("=")[0], 4)]
