"""The event stream by cursor: where a reader begins, what it is told, and that nothing is missed or sent twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.client.sse import Follower, Message, Parser
from docket.sim.clock import ManualClock
from docket.storage.paths import CHECKPOINTS, LEDGER
from docket.watch.stream import HEARTBEAT_US, Place, Reader, opening, place
from docket.watch.tail import START, LedgerTail
from kit.growing import GrowingRun


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path)
    run.grow(9)
    return run


def messages(*pieces: bytes) -> list[Message]:
    return list(Parser().feed(b"".join(pieces)))


@pytest.mark.parametrize("since", [None, "", "-1"])
def test_a_reader_without_a_cursor_begins_at_the_first_event(run: GrowingRun, since: str | None) -> None:
    assert place(LedgerTail(run.path, ManualClock()), since) == Place(START)


def test_latest_is_made_a_number_by_the_server(run: GrowingRun) -> None:
    tail = LedgerTail(run.path, ManualClock())
    assert place(tail, "latest") == Place(9)
    assert opening(tail, place(tail, "latest")).startswith(b"retry: 2000\n\nid: 9\n\n")


@pytest.mark.parametrize(
    ("since", "why"),
    [
        ("10", "ahead of the last event, 9"),
        ("9007199254740992", "ahead of the last event"),
        ("-2", "is negative"),
        ("x", "is no number"),
        ("1e3", "is no number"),
        ("٣", "is no number"),
        ("1" * 40, "is no number"),
    ],
)
def test_a_cursor_that_this_run_cannot_have_given_is_reset_to_the_start(run: GrowingRun, since: str, why: str) -> None:
    tail = LedgerTail(run.path, ManualClock())
    begun = place(tail, since)
    assert begun.after == START
    assert begun.reset is not None
    assert why in begun.reset
    told = messages(opening(tail, begun))
    assert [(message.event, message.id) for message in told] == [("stream.open", "-1"), ("stream.reset", "-1")]
    assert told[1].json() == {"reason": begun.reset, "follow": -1}


def test_a_cursor_of_another_run_is_found_out_by_the_hash_at_it(run: GrowingRun, tmp_path: Path) -> None:
    other = GrowingRun(tmp_path / "other")
    other.grow(9)
    ours, theirs = (LedgerTail(path, ManualClock()) for path in (run.path, other.path))
    line, foreign = ours.line(5), theirs.line(5)
    assert line is not None
    assert foreign is not None
    assert place(ours, "5", line.hash) == Place(5)
    assert place(ours, "5", foreign.hash).reset == "event 5 of this run is another one than the reader has"
    assert place(ours, "5", "nonsense").reset is not None


def test_the_stream_says_of_which_run_it_is_and_what_stands_at_its_cursor(run: GrowingRun) -> None:
    tail = LedgerTail(run.path, ManualClock())
    line = tail.line(4)
    assert line is not None
    (told,) = messages(opening(tail, place(tail, "4")))
    assert told.json() == {"docket": run.directory.name, "after": 4, "last": 9, "live": True, "head": line.hash}


def test_the_data_of_an_event_is_its_line(run: GrowingRun) -> None:
    reader = Reader(LedgerTail(run.path, ManualClock()), Place(START), ManualClock())
    lines = (run.path / LEDGER).read_text().splitlines()
    assert [message.data for message in messages(*reader.due())] == lines


def test_a_silent_stream_beats_with_its_cursor_every_fifteen_seconds(run: GrowingRun) -> None:
    clock = ManualClock()
    reader = Reader(LedgerTail(run.path, clock), Place(9), clock)
    assert list(reader.due()) == []
    clock.advance(HEARTBEAT_US - 1)
    assert list(reader.due()) == []
    clock.advance(1)
    assert list(reader.due()) == [b": heartbeat\nid: 9\n\n"]
    assert list(reader.due()) == []


def test_a_ledger_that_becomes_shorter_resets_its_readers(run: GrowingRun) -> None:
    tail = LedgerTail(run.path, ManualClock())
    reader = Reader(tail, Place(9), ManualClock())
    lines = (run.path / LEDGER).read_bytes().splitlines(keepends=True)
    with (run.path / LEDGER).open("r+b") as stream:
        stream.truncate(len(lines[0]))
    with (run.path / CHECKPOINTS).open("r+b") as stream:
        stream.truncate(len((run.path / CHECKPOINTS).read_bytes()) // 2)
    tail.refresh()
    told = messages(*reader.due())
    assert [message.event for message in told] == ["stream.open", "stream.reset", "ledger"]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_two_readers_with_any_drops_get_every_event_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The run grows while connections break anywhere in the bytes; foreign, negative and future cursors are tried."""
    run = GrowingRun(tmp_path_factory.mktemp("run"))
    clock = ManualClock()
    tail = LedgerTail(run.path, clock)
    watchers = [(Follower(), []), (Follower(data.draw(st.sampled_from(["-1", "-7", "99999", "3"])), "f" * 64), [])]
    for _ in range(data.draw(st.integers(1, 12))):
        run.grow(data.draw(st.integers(0, 20)))
        tail.refresh()
        for follower, seen in watchers:
            asked = follower.query()
            begun = place(tail, asked["since"], asked.get("head"))
            sent = opening(tail, begun) + b"".join(Reader(tail, begun, clock).due())
            parser, cut = Parser(), data.draw(st.integers(0, len(sent)))
            middle = data.draw(st.integers(0, cut))
            for piece in (sent[:middle], sent[middle:cut]):
                for message in parser.feed(piece):
                    if follower.take(message):
                        if message.event == "stream.reset":
                            seen.clear()
                        else:
                            seen.append(json.loads(message.data)["seq"])
    for follower, seen in watchers:
        asked = follower.query()
        begun = place(tail, asked["since"], asked.get("head"))
        for message in Parser().feed(opening(tail, begun) + b"".join(Reader(tail, begun, clock).due())):
            if follower.take(message):
                seen.clear() if message.event == "stream.reset" else seen.append(json.loads(message.data)["seq"])
        assert seen == list(range(run.chain.size))
    run.release()
