"""Putting entries in their place, and finding those that are not in it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import FormatError
from docket.ledger.chain import GENESIS, MAX_LINE, BrokenChainError, Chain, Entry, read_entry, weight_of
from docket.ledger.codec import draft
from docket.ledger.events import Event, Note, Other
from docket.primitives.canonical import decode_object
from docket.primitives.merkle import root_of
from kit.strategies import events

TS = "2026-11-30T12:00:00.000000Z"


def salts(count: int) -> bytes:
    return b"\x05" * count


def extend(chain: Chain, event: Event, elapsed_us: int = 0) -> tuple[Entry, bytes]:
    entry, line, _ = chain.extend(draft(event), ts=TS, elapsed_us=elapsed_us, entropy=salts)
    return entry, line


@given(st.lists(events, max_size=5))
def test_every_line_is_canonical_and_reads_back_as_the_next_entry(facts: list[Event]) -> None:
    writing, reading = Chain(), Chain()
    for fact in facts:
        entry, line = extend(writing, fact)
        assert line[:-1] == rfc8785.dumps(entry.to_json())
        assert entry.to_line() == line
        read = read_entry(line[:-1])
        assert read == entry
        reading.follow(read)
        assert len(line) <= weight_of(draft(fact))
    assert (reading.size, reading.head, reading.root()) == (writing.size, writing.head, writing.root())


@given(st.lists(events, min_size=1, max_size=4))
def test_hash_is_the_leaf_hash_over_the_sealed_event(facts: list[Event]) -> None:
    chain, leaves, prev = Chain(), [], GENESIS
    for fact in facts:
        entry, line = extend(chain, fact)
        document: Any = decode_object(line[:-1])
        del document["hash"]
        for name, member in document.get("private", {}).items():
            spelled = rfc8785.dumps([name, member["salt"], member["value"]])
            document["private"][name] = hashlib.sha256(b"\x02" + spelled).hexdigest()
        leaf = hashlib.sha256(b"\x00" + rfc8785.dumps(document)).digest()
        assert entry.hash == leaf.hex()
        assert entry.prev == prev
        prev = entry.hash
        leaves.append(leaf)
    assert chain.root() == root_of(leaves)


@given(st.lists(events, min_size=1, max_size=3), st.lists(events, max_size=3))
def test_going_back_to_a_mark_leaves_no_trace(kept: list[Event], lost: list[Event]) -> None:
    chain = Chain()
    for fact in kept:
        extend(chain, fact)
    before, mark = (chain.size, chain.head, chain.root(), chain.elapsed_us), chain.mark()
    for fact in lost:
        extend(chain, fact, elapsed_us=9)
    chain.reset(mark)
    assert (chain.size, chain.head, chain.root(), chain.elapsed_us) == before


def test_elapsed_time_never_decreases() -> None:
    chain = Chain()
    assert extend(chain, Note(), 5)[0].elapsed_us == 5
    assert extend(chain, Note(), 3)[0].elapsed_us == 5


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"seq": 0}, "duplicate-seq"),
        ({"seq": 2}, "missing-seq"),
        ({"prev": "0" * 64}, "prev"),
        ({"hash": "0" * 64}, "hash"),
        ({"data": {"a": 1}}, "hash"),
        ({"by": "agent"}, "hash"),
        ({"unknown": {"more": 1}}, "hash"),
    ],
)
def test_an_entry_out_of_place_is_refused_by_kind(change: dict[str, Any], kind: str) -> None:
    chain, reading = Chain(), Chain()
    reading.follow(extend(chain, Note())[0])
    entry = replace(extend(chain, Note())[0], **change)
    with pytest.raises(BrokenChainError) as caught:
        reading.follow(entry)
    assert caught.value.kind == kind
    assert reading.size == 1


def test_time_that_runs_backwards_is_refused() -> None:
    first, second = Chain(), Chain()
    entry, _ = extend(first, Note(), 5)
    second.follow(entry)
    second.elapsed_us = 6
    again, _ = extend(first, Note(), 5)
    with pytest.raises(BrokenChainError, match="lies before"):
        second.follow(again)


@pytest.mark.parametrize("short", [False, True])
def test_the_longest_line_is_counted_with_private_members_in_their_longer_form(short: bool) -> None:
    chain = Chain()
    size = len(extend(Chain(), Note(unknown={"a": ""}, private={"b": 1} if short else {}))[1])
    longer = 29 - 1 if short else 0
    private: dict[str, Any] = {"b": 1} if short else {}
    room = MAX_LINE - size - longer
    with pytest.raises(FormatError, match="limit"):
        extend(chain, Note(unknown={"a": "x" * (room + 1)}, private=private))
    assert chain.size == 0
    _, line = extend(chain, Note(unknown={"a": "x" * room}, private=private))
    assert len(line) == MAX_LINE - longer
    assert read_entry(line[:-1]).data == {"a": "x" * room}


def test_members_of_a_newer_version_are_kept_and_hashed() -> None:
    _, line = extend(Chain(), Other(name="x-new", data={}))
    document: Any = decode_object(line[:-1])
    document["zzz"] = {"more": 1}
    entry = read_entry(rfc8785.dumps(document))
    assert entry.unknown == {"zzz": {"more": 1}}
    assert decode_object(entry.to_line()[:-1]) == document


@pytest.mark.parametrize(
    ("member", "value"),
    [
        (member, value)
        for member in ("seq", "ts", "elapsed_us", "type", "by", "data", "prev", "hash")
        for value in (None, "", -1, [], True, "2026-11-30")
        if not (member == "type" and isinstance(value, str))  # any string names a type
    ],
)
def test_an_entry_with_a_wrong_member_is_no_entry(member: str, value: Any) -> None:
    _, line = extend(Chain(), Note())
    document: Any = decode_object(line[:-1])
    document[member] = value
    with pytest.raises(FormatError):
        read_entry(rfc8785.dumps(document))
    del document[member]
    with pytest.raises(FormatError, match=member):
        read_entry(rfc8785.dumps(document))


@pytest.mark.parametrize("private", [{}, None, {"a": 1}])
def test_a_misshapen_private_member_is_no_entry(private: Any) -> None:
    _, line = extend(Chain(), Note())
    document: Any = decode_object(line[:-1])
    document["private"] = private
    with pytest.raises(FormatError):
        Chain().follow(read_entry(rfc8785.dumps(document)))


def test_a_line_beyond_the_limit_is_not_even_parsed() -> None:
    with pytest.raises(FormatError, match="longer than"):
        read_entry(b"x" * MAX_LINE)
