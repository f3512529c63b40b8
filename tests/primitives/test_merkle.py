"""The growing tree against the definitions of RFC 9162 section 2.1."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.primitives.digest import leaf_hash
from docket.primitives.merkle import EMPTY_ROOT, Frontier, root_of

leaves = st.integers(0, 70).map(lambda count: [leaf_hash(str(number).encode()) for number in range(count)])


def defined_root(hashes: list[bytes]) -> bytes:
    """MTH of RFC 9162 section 2.1.1, as it is written there."""
    if not hashes:
        return hashlib.sha256().digest()
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + defined_root(hashes[:split]) + defined_root(hashes[split:])).digest()


def defined_path(index: int, hashes: list[bytes]) -> list[bytes]:
    """PATH of RFC 9162 section 2.1.3.1, as it is written there."""
    if len(hashes) == 1:
        return []
    split = 1 << (len(hashes) - 1).bit_length() - 1
    if index < split:
        return [*defined_path(index, hashes[:split]), defined_root(hashes[split:])]
    return [*defined_path(index - split, hashes[split:]), defined_root(hashes[:split])]


@given(leaves)
def test_root_is_the_defined_one_at_every_size(hashes: list[bytes]) -> None:
    frontier = Frontier()
    assert frontier.root() == defined_root([]) == EMPTY_ROOT
    for size, leaf in enumerate(hashes, 1):
        frontier.append(leaf)
        assert frontier.root() == defined_root(hashes[:size])
        assert frontier.size == size
    assert root_of(hashes) == defined_root(hashes)


@given(leaves, st.data())
def test_growing_proofs_are_the_defined_ones_at_every_size(hashes: list[bytes], data: st.DataObject) -> None:
    watched = data.draw(st.sets(st.integers(0, max(0, len(hashes) - 1))))
    frontier, builders = Frontier(), {}
    for index, leaf in enumerate(hashes):
        if index in watched:
            builders[index] = frontier.append_watched(leaf)
        else:
            frontier.append(leaf)
        for known, builder in builders.items():
            assert frontier.proof(builder) == defined_path(known, hashes[: index + 1])


@given(leaves, leaves, st.data())
def test_going_back_to_a_mark_forgets_everything_since(
    before: list[bytes], lost: list[bytes], data: st.DataObject
) -> None:
    frontier, plain = Frontier(), Frontier()
    watched = data.draw(st.sets(st.integers(0, max(0, len(before) - 1))))
    builders = {}
    for index, leaf in enumerate(before):
        plain.append(leaf)
        if index in watched:
            builders[index] = frontier.append_watched(leaf)
        else:
            frontier.append(leaf)
    mark = frontier.mark()
    for leaf in lost:
        frontier.append_watched(leaf)
    frontier.reset(mark)
    for leaf in reversed(before):
        plain.append(leaf)
        frontier.append(leaf)
    assert frontier.root() == plain.root()
    for index, builder in builders.items():
        assert frontier.proof(builder) == defined_path(index, [*before, *reversed(before)])


def test_a_leaf_that_is_not_there_has_no_proof() -> None:
    frontier = Frontier()
    builder = frontier.append_watched(leaf_hash(b"x"))
    frontier.reset(Frontier().mark())
    with pytest.raises(IndexError):
        frontier.proof(builder)


def test_a_frontier_of_131071_leaves_holds_seventeen_hashes() -> None:
    frontier = Frontier()
    for _ in range(2**17 - 1):
        frontier.append(b"\0" * 32)
    assert len(frontier.mark().stack) == 17


def test_a_leaf_that_is_no_longer_watched_grows_no_proof() -> None:
    frontier = Frontier()
    builder = frontier.append_watched(leaf_hash(b"x"))
    frontier.unwatch(builder)
    frontier.append(leaf_hash(b"y"))
    assert builder.hashes == []
