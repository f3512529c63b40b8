"""The client's half of a stream: bytes to events however they are cut, cursors kept, waits that grow and shrink."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.client.sse import FIRST_SECONDS, MAX_EVENT, MOST_SECONDS, Follower, Message, Parser, StreamError

STREAM = (
    "retry: 1500\n\nid: 3\n\n: heartbeat\nid: 4\n\nid: 5\nevent: ledger\ndata: {\"a\":\ndata:  1}\n\n"
    "event: gone\n\ndata: é\r\n\r\nid: 6\rdata: x\r\r"
).encode()  # fmt: skip
SAID = [Message("5", "ledger", '{"a":\n 1}'), Message("5", "message", "é"), Message("6", "message", "x")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_any_cuts_give_the_same_messages(cuts: list[int]) -> None:
    parser, found = Parser(), []
    edges = [0, *sorted(cuts), len(STREAM)]
    for begin, end in pairwise(edges):
        found += parser.feed(STREAM[begin:end])
    found += parser.feed(b"\n")  # the last line ended in CR: whether LF follows was open
    assert found == SAID
    assert (parser.last_id, parser.retry_seconds) == ("6", 1.5)


def test_an_event_without_an_end_is_not_kept_for_ever() -> None:
    parser = Parser()
    for _ in range(MAX_EVENT // 65536):
        assert list(parser.feed(b"data: " + b"x" * 65530 + b"\n")) == []
    with pytest.raises(StreamError, match="longer than"):
        list(parser.feed(b"data: " + b"x" * 65536 + b"\n"))


def test_waits_double_to_a_minute_with_a_fifth_of_jitter_and_success_or_sleep_begins_anew() -> None:
    follower = Follower()
    waits = [follower.wait_seconds(0.5) for _ in range(8)]
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert follower.wait_seconds(0.0) == pytest.approx(MOST_SECONDS * 0.8)
    assert follower.wait_seconds(1.0) == pytest.approx(MOST_SECONDS * 1.2)
    follower.woke()
    assert follower.wait_seconds(0.5) == FIRST_SECONDS
    follower.take(Message("1", "stream.open", "{}"))
    assert follower.wait_seconds(0.5) == FIRST_SECONDS


def test_what_was_seen_is_no_news_and_a_reset_moves_the_cursor_back() -> None:
    follower = Follower()
    event = Message("4", "ledger", '{"hash":"h4"}')
    assert follower.take(event)
    assert not follower.take(event)
    assert not follower.take(Message("3", "ledger", '{"hash":"h3"}'))
    assert not follower.take(Message("nonsense", "ledger", "{}"))
    assert follower.query() == {"since": "4", "head": "h4"}
    assert follower.take(Message("-1", "stream.reset", "{}"))
    assert follower.query() == {"since": "-1"}


def test_a_later_process_goes_on_where_this_one_stopped() -> None:
    assert Follower.from_json(Follower("7", "h").to_json()) == Follower("7", "h")


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"cursor": 7, "head": ""}', '{"cursor": "x", "head": ""}'])
def test_what_is_no_saved_cursor_begins_at_the_start(text: str) -> None:
    assert Follower.from_json(text) == Follower()
