"""Which answers may be given again, how often, and what goes first when there are too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docket.control.response_cache import MAX_ANSWER, Entry, Exhausted, ResponseCache, request_key
from docket.ledger.events import CallNumber
from docket.policy.usage import Cache
from docket.primitives.instant import Duration, Instant
from docket.primitives.money import Usd


def entry(number: int, size: int = 10, at: int = 0) -> Entry[str]:
    return Entry(origin=CallNumber(number), answer=str(number), size=size, stored=Instant(at), cost_usd=Usd(number))


def cache(**keys: object) -> ResponseCache[str]:
    return ResponseCache(Cache(enabled=True, **keys))  # type: ignore[arg-type]


def test_an_answer_is_given_until_its_time_is_over() -> None:
    kept = cache(ttl_seconds=Duration(1_000_000))
    kept.keep(b"k", entry(1))
    assert isinstance(kept.find(b"k", Instant(999_999)), Entry)
    assert kept.find(b"k", Instant(1_000_000)) is None
    assert (kept.hits, kept.saved_usd) == (1, Usd(1))


def test_after_max_hits_calls_go_through_again_and_that_is_noticed_once() -> None:
    kept = cache(max_hits=2)
    kept.keep(b"k", entry(7))
    found = [kept.find(b"k", Instant(0)) for _ in range(4)]
    assert [type(f) for f in found] == [Entry, Entry, Exhausted, Exhausted]
    assert [f.first for f in found[2:]] == [True, False]  # type: ignore[union-attr]
    assert kept.saved_usd == Usd(14)


def test_what_was_used_longest_ago_goes_first() -> None:
    kept = cache(max_entries=2)
    kept.keep(b"a", entry(1))
    kept.keep(b"b", entry(2))
    kept.find(b"a", Instant(0))
    kept.keep(b"c", entry(3))
    assert kept.find(b"b", Instant(0)) is None
    assert isinstance(kept.find(b"a", Instant(0)), Entry)


def test_a_long_answer_is_not_kept() -> None:
    kept = cache()
    kept.keep(b"k", entry(1, size=MAX_ANSWER + 1))
    assert kept.find(b"k", Instant(0)) is None


def test_a_key_is_of_the_meaning_of_a_body_not_of_its_spelling() -> None:
    key = request_key(b'{"a": 1, "b": [2]}', method=b"POST")
    assert key == request_key(b' {"b":[2],"a":1}\n', method=b"POST")
    assert key != request_key(b'{"a": 1, "b": [3]}', method=b"POST")
    assert key != request_key(b'{"a": 1, "b": [2]}', method=b"PUT")
    assert request_key(b"not json") is None


@given(st.binary(max_size=8), st.binary(max_size=8), st.binary(max_size=8), st.binary(max_size=8))
def test_no_two_sets_of_parts_share_a_key(a: bytes, b: bytes, c: bytes, d: bytes) -> None:
    assert (request_key(b"{}", x=a, y=b) == request_key(b"{}", x=c, y=d)) is ((a, b) == (c, d))
