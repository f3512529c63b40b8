from __future__ import annotations

import errno
from pathlib import Path

import pytest

from docket.errors import LedgerWriteError
from docket.ledger.checkpoint import sign
from docket.sim.disk import Fail, FaultyDisk, Operation
from docket.storage.durable import SystemDisk
from docket.storage.paths import RESERVE
from docket.storage.reserve import Reserve, kept_note
from kit.runs import KEY, new_run

NOTE = sign("DKT-20261201-AAAAAAAAAA", 7, b"\x05" * 32, KEY, 3)


def test_what_is_reserved_is_there_in_blocks_and_given_back(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    reserve = Reserve.make(run, 100_000)
    path = run.path / RESERVE
    assert (reserve.size, path.stat().st_size) == (100_000, 100_000)
    assert path.stat().st_blocks * 512 >= 100_000
    reserve.grow(150_000)
    assert (reserve.size, path.stat().st_size) == (150_000, 150_000)
    assert len(set(path.read_bytes()[2048:])) > 200, "bytes that a file system could compress are no reserve"
    reserve.release()
    reserve.release()
    assert not path.exists()


def full_from(limit: int) -> FaultyDisk:
    """A volume that has ``limit`` bytes for the reserve."""

    class Full(FaultyDisk):
        def write(self, fd: int, data: bytes, offset: int) -> int:
            if offset + len(data) > limit:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(fd, data, offset)

    return Full(SystemDisk(), lambda operation: None)


def test_room_that_is_not_there_is_named_and_nothing_stays(tmp_path: Path) -> None:
    run = new_run(tmp_path, full_from(1024))
    with pytest.raises(LedgerWriteError, match=r"cannot reserve 60,000 bytes .* 58,976 bytes are missing"):
        Reserve.make(run, 60_000)
    assert not (run.path / RESERVE).exists()


def test_a_reserve_that_cannot_grow_keeps_what_it_has(tmp_path: Path) -> None:
    run = new_run(tmp_path, full_from(60_000))
    reserve = Reserve.make(run, 50_000)
    with pytest.raises(LedgerWriteError):
        reserve.grow(90_000)
    assert (reserve.size, (run.path / RESERVE).stat().st_size) == (50_000, 50_000)


def test_a_note_is_kept_in_bytes_that_are_there(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    reserve = Reserve.make(run, 50_000)
    assert kept_note(run) is None
    reserve.keep_note(NOTE)
    assert kept_note(run) == NOTE
    assert (run.path / RESERVE).stat().st_size == 50_000
    reserve.close()
    assert kept_note(run) == NOTE, "what a dead session leaves"


@pytest.mark.parametrize("found", [b"", b"\0" * 2000, b"garbage\n" * 40, NOTE[:-9], b"x" + NOTE])
def test_anything_else_at_the_head_is_no_note(tmp_path: Path, found: bytes) -> None:
    run = new_run(tmp_path)
    (run.path / RESERVE).write_bytes(found)
    assert kept_note(run) is None


def test_a_disk_that_refuses_the_note_changes_nothing_else(tmp_path: Path) -> None:
    moody: dict[str, Fail] = {}

    def plan(operation: Operation) -> Fail | None:
        return moody.get(operation.kind)

    run = new_run(tmp_path, FaultyDisk(SystemDisk(), plan))
    reserve = Reserve.make(run, 50_000)
    moody["write"] = moody["sync"] = Fail(errno.EIO)
    reserve.keep_note(NOTE)
    assert kept_note(run) is None
    assert reserve.size == 50_000
