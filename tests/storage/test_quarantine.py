"""Moving a torn tail aside: a crash at any call of it loses nothing, and doing it again finishes it."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from docket.errors import LedgerDamagedError, LedgerWriteError
from docket.sim.disk import Crash, Fail, FaultyDisk, Operation
from docket.storage.durable import SystemDisk
from docket.storage.paths import LEDGER, RunDirectory
from docket.storage.quarantine import MAX_TORN, quarantine
from kit.runs import new_run

WHOLE, TORN = b'{"whole":"lines"}\n', b'{"half a li\0\0\0'
SIDECAR = f"ledger.torn.{len(WHOLE)}.{hashlib.sha256(TORN).hexdigest()}"


def torn_run(root: Path) -> RunDirectory:
    run = new_run(root)
    (run.path / LEDGER).write_bytes(WHOLE + TORN)
    return run


def test_the_bytes_are_moved_under_their_place_and_digest_and_a_second_time_nothing_happens(tmp_path: Path) -> None:
    run = torn_run(tmp_path)
    moved = quarantine(run, LEDGER, len(WHOLE))
    assert (moved.sidecar, moved.offset, moved.bytes) == (SIDECAR, len(WHOLE), len(TORN))
    for _ in range(2):
        assert (run.path / SIDECAR).read_bytes() == TORN
        assert (run.path / LEDGER).read_bytes() == WHOLE
        assert (run.path / SIDECAR).stat().st_mode & 0o777 == 0o600
        assert quarantine(run, LEDGER, len(WHOLE)).bytes == 0
    assert sorted(path.name for path in run.path.iterdir()) == sorted([LEDGER, SIDECAR])


@pytest.mark.parametrize("outcome", [Crash(), Crash(after=5), Fail(errno.ENOSPC), Fail(errno.EIO, after=5)])
def test_a_failure_at_any_call_loses_no_byte_and_can_be_repeated(tmp_path: Path, outcome: Crash | Fail) -> None:
    number, failed = 0, True
    while failed:
        run = torn_run(tmp_path)

        def plan(operation: Operation, at: int = number) -> Crash | Fail | None:
            return outcome if operation.number == at else None

        run.disk = FaultyDisk(SystemDisk(), plan)
        try:
            quarantine(run, LEDGER, len(WHOLE))
            failed = False
        except LedgerWriteError:
            pass
        ledger = (run.path / LEDGER).read_bytes()
        sidecar = (run.path / SIDECAR).read_bytes() if (run.path / SIDECAR).exists() else None
        assert ledger == WHOLE + TORN or (ledger == WHOLE and sidecar == TORN)
        assert sidecar in (None, TORN)
        run.disk = SystemDisk()
        quarantine(run, LEDGER, len(WHOLE))
        assert ((run.path / LEDGER).read_bytes(), (run.path / SIDECAR).read_bytes()) == (WHOLE, TORN)
        number += 1
    assert number > 7


def test_a_sidecar_that_holds_something_else_is_not_overwritten(tmp_path: Path) -> None:
    run = torn_run(tmp_path)
    (run.path / SIDECAR).write_bytes(b"something else")
    with pytest.raises(LedgerDamagedError, match="does not hold"):
        quarantine(run, LEDGER, len(WHOLE))
    assert (run.path / LEDGER).read_bytes() == WHOLE + TORN


def test_more_than_a_tear_is_never_moved(tmp_path: Path) -> None:
    run = torn_run(tmp_path)
    (run.path / LEDGER).write_bytes(b"x" * (MAX_TORN + 1))
    with pytest.raises(LedgerDamagedError, match="no torn write"):
        quarantine(run, LEDGER, 0)
