"""Reading a ledger that somebody else writes: only what is durable, by cursor, whatever became of the writer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.errors import LedgerError, UsageError
from docket.sim.clock import ManualClock
from docket.storage.lock import Lock
from docket.storage.paths import LEDGER
from docket.watch.tail import CHUNK, START, LedgerTail
from kit.growing import GrowingRun


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    return GrowingRun(tmp_path)


def all_of(tail: LedgerTail, after: int = START) -> list[int]:
    seen: list[int] = []
    while lines := tail.read(seen[-1] if seen else after):
        seen += [line.seq for line in lines]
    return seen


def test_what_no_checkpoint_covers_yet_is_not_read_while_the_run_goes_on(run: GrowingRun) -> None:
    tail = LedgerTail(run.path, ManualClock())
    run.grow(3)
    run.append([run.note("not yet durable")])
    assert tail.refresh()
    assert all_of(tail) == [0, 1, 2, 3]
    run.attest()
    assert tail.refresh()
    assert all_of(tail, 3) == [4]
    assert not tail.refresh()


def test_of_a_run_that_nobody_holds_every_whole_line_is_read_and_a_torn_one_is_not(run: GrowingRun) -> None:
    run.append([run.note("whole, behind the last checkpoint")])
    with (run.path / LEDGER).open("ab") as stream:
        stream.write(b'{"by":"supervisor","data":{},"seq":2,"ts":"2026')
    run.release()
    tail = LedgerTail(run.path, ManualClock())
    assert not tail.live
    assert all_of(tail) == [0, 1]


def test_the_end_of_a_run_and_its_resumption_are_seen(run: GrowingRun) -> None:
    clock = ManualClock()
    tail = LedgerTail(run.path, clock)
    assert tail.live
    run.end()
    clock.advance(1_000_000)
    tail.refresh()
    assert (tail.live, all_of(tail)) == (False, [0, 1])
    run.lock = Lock(run.directory)
    run.grow(2)
    clock.advance(1_000_000)
    tail.refresh()
    assert (tail.live, all_of(tail)) == (True, [0, 1, 2, 3])


def test_a_cursor_anywhere_in_a_long_ledger_with_lines_of_any_length_is_found(run: GrowingRun) -> None:
    sizes = [10, 400_000, 1, 900_000, 90_000] * 3
    run.append(run.note("x" * size) for size in sizes)
    run.attest()
    for after in range(-1, len(sizes)):
        assert all_of(LedgerTail(run.path, ManualClock()), after) == list(range(after + 1, len(sizes) + 1))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3 * CHUNK), min_size=1, max_size=12), st.data())
def test_every_event_is_read_once_and_in_order_from_any_cursor(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    run = GrowingRun(tmp_path_factory.mktemp("run"))
    run.append(run.note("y" * size) for size in sizes)
    run.attest()
    after = data.draw(st.integers(-1, len(sizes)))
    tail = LedgerTail(run.path, ManualClock())
    assert all_of(tail, after) == list(range(after + 1, len(sizes) + 1))
    run.release()


def test_a_member_that_looks_like_a_place_in_the_chain_does_not_mislead(run: GrowingRun) -> None:
    run.append([run.note('","seq":7,"ts":"x'), run.note("after")])
    run.attest()
    assert all_of(LedgerTail(run.path, ManualClock())) == [0, 1, 2]


def test_a_ledger_that_was_replaced_or_removed_is_told_and_not_read_on(run: GrowingRun) -> None:
    tail = LedgerTail(run.path, ManualClock())
    (run.path / LEDGER).rename(run.path / "aside")
    with pytest.raises(LedgerError, match="is gone"):
        tail.refresh()
    (run.path / LEDGER).write_bytes(b"")
    with pytest.raises(LedgerError, match="is another file now"):
        tail.refresh()


def test_an_event_that_does_not_stand_where_it_should_is_an_error_not_a_gap(run: GrowingRun) -> None:
    run.grow(2)
    tail = LedgerTail(run.path, ManualClock())
    lines = (run.path / LEDGER).read_bytes().splitlines(keepends=True)
    (run.path / LEDGER).write_bytes(lines[0] + lines[2])
    with pytest.raises(LedgerError, match="does not hold event 1 where it should stand"):
        all_of(tail)


@pytest.mark.parametrize("what", ["absent", "empty", "fifo", "link"])
def test_what_is_no_ledger_is_refused_by_name(what: str, tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    (run.path / LEDGER).unlink()
    if what == "fifo":
        os.mkfifo(run.path / LEDGER)
    elif what == "link":
        (run.path / LEDGER).symlink_to(tmp_path / "elsewhere")
    elif what == "empty":
        (run.path / LEDGER).touch()
        (run.path / "checkpoints").write_bytes(b"")
        tail = LedgerTail(run.path, ManualClock())
        assert (tail.last, tail.read(START)) == (START, ())
        return
    with pytest.raises((LedgerError, UsageError), match="ledger"):
        LedgerTail(run.path, ManualClock())
