"""Bytes to entries: any pieces, any cut, any change."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.ledger.chain import MAX_LINE, Chain, Entry
from docket.ledger.checkpoint import Checkpoint, parse, sign
from docket.ledger.codec import draft
from docket.ledger.scan import Scan, Scanner
from docket.primitives.merkle import root_of
from docket.primitives.signature import SigningKey
from kit.runs import KEY, NUMBER, request, response, session_end, session_start

OTHER = SigningKey(b"\x02" * 32)


def lines_of_a_run() -> tuple[list[bytes], list[Checkpoint]]:
    """Six lines and a checkpoint after each."""
    chain, lines, notes = Chain(), [], []
    facts = [session_start(NUMBER), request(1), response(1), request(2), response(2), session_end()]
    for fact in facts:
        _, line, _ = chain.extend(
            draft(fact), ts="2026-11-30T12:00:00.000000Z", elapsed_us=chain.size, entropy=lambda n: b"\3" * n
        )
        lines.append(line)
        notes.append(parse(sign(NUMBER, chain.size, chain.root(), KEY)))
    return lines, notes


LINES, NOTES = lines_of_a_run()
LEDGER = b"".join(LINES)


def scan(pieces: Iterable[bytes], notes: Iterable[Checkpoint] = ()) -> tuple[list[Entry], Scan]:
    scanner, entries = Scanner(notes), []
    for piece in pieces:
        entries += scanner.feed(piece)
    return entries, scanner.finish()


@given(st.lists(st.integers(0, len(LEDGER)), max_size=8).map(sorted))
def test_any_pieces_give_the_same_entries(cuts: list[int]) -> None:
    bounds = [0, *cuts, len(LEDGER)]
    entries, result = scan([LEDGER[a:b] for a, b in itertools.pairwise(bounds)], NOTES)
    assert [entry.to_line() for entry in entries] == LINES
    assert result.fault is None
    assert (result.offset, result.length, result.rest) == (len(LEDGER), len(LEDGER), 0)
    assert (result.attested, result.signed, result.note_fault) == (6, 6, None)
    assert result.chain.root() == root_of([bytes.fromhex(entry.hash) for entry in entries])


@given(st.integers(0, len(LEDGER)))
def test_any_cut_is_diagnosed_with_its_place(cut: int) -> None:
    entries, result = scan([LEDGER[:cut]])
    whole = b"".join(LINES[: len(entries)])
    assert LEDGER[:cut].startswith(whole)
    assert result.offset == len(whole)
    assert result.rest == cut - len(whole) < len([*LINES, b"x"][len(entries)])
    assert (result.fault is None) == (result.rest == 0)
    if result.fault is not None:
        assert result.fault.kind == "cut"


@given(st.integers(0, len(LEDGER) - 1), st.sampled_from([1, 0x20, 0x80]))
def test_any_changed_byte_is_found_no_later_than_its_line(place: int, change: int) -> None:
    changed = bytearray(LEDGER)
    changed[place] ^= change
    entries, result = scan([bytes(changed)])
    assert result.fault is not None
    assert result.offset <= place
    assert LEDGER.startswith(b"".join(entry.to_line() for entry in entries))


@given(st.integers(0, len(LEDGER) - 1), st.integers(1, 600))
def test_zeroed_bytes_are_told_from_edits(start: int, length: int) -> None:
    end = min(start + length, len(LEDGER))
    zeroed = LEDGER[:start] + b"\0" * (end - start) + LEDGER[end:]
    _, result = scan([zeroed])
    assert result.fault is not None
    assert result.fault.kind == ("cut" if b"\n" not in zeroed[result.offset :] else "zeroed")


@pytest.mark.parametrize(
    ("order", "detail"),
    [
        ([0, 1, 1, 2], "duplicate-seq"),
        ([0, 2], "missing-seq"),
        ([1], "missing-seq"),
        ([0, 1, 2, 0], "duplicate-seq"),
    ],
)
def test_lines_out_of_order_are_named(order: list[int], detail: str) -> None:
    _, result = scan([b"".join(LINES[number] for number in order)])
    assert result.fault is not None
    assert (result.fault.kind, result.fault.detail) == ("broken", detail)


def test_a_line_without_end_is_bounded() -> None:
    _, result = scan([LINES[0], b"x" * (MAX_LINE - 1), b"x", b"y" * 100, b"\n"])
    assert result.fault is not None
    assert result.fault.kind == "garbled"
    assert result.rest == MAX_LINE + 101


def test_start_and_last_end_are_watched() -> None:
    _, result = scan([LEDGER])
    assert set(result.watched) == {0, 5}
    assert (result.sessions, result.run_key, result.last_type) == (1, KEY.public, "session.end")


@pytest.mark.parametrize(
    ("notes", "problem"),
    [
        ([NOTES[2], NOTES[2]], "does not grow"),
        ([NOTES[2], NOTES[1]], "does not grow"),
        ([parse(sign(NUMBER, 3, b"\0" * 32, KEY))], "has another root"),
        ([parse(sign(NUMBER, 3, NOTES[2].root, OTHER))], "is not signed by the run key"),
        ([parse(sign(NUMBER, 9, b"\0" * 32, OTHER))], "is not signed by the run key"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_reported(notes: list[Checkpoint], problem: str) -> None:
    _, result = scan([LEDGER], notes)
    assert result.note_fault is not None
    assert problem in result.note_fault


@given(st.integers(0, 5), st.integers(0, 6))
def test_a_checkpoint_beyond_the_lines_says_what_is_missing(kept: int, noted: int) -> None:
    _, result = scan(LINES[:kept], NOTES[:noted])
    if kept == 0 and noted:
        assert result.note_fault is not None  # no key is known to hold it against
        return
    assert result.signed == noted
    assert result.attested == min(kept, noted)


def test_only_the_last_end_of_a_session_is_watched_and_a_key_that_is_none_signs_nothing() -> None:
    chain = Chain()
    start = replace(session_start(NUMBER), run_key="no key")
    lines = [
        chain.extend(draft(fact), ts="2026-11-30T12:00:00.000000Z", elapsed_us=0, entropy=lambda n: b"\3" * n)[1]
        for fact in (start, session_end(), session_end(), start, session_end())
    ]
    _, result = scan(lines, [parse(sign(NUMBER, 2, b"\0" * 32, KEY))])
    assert set(result.watched) == {0, 2, 3, 4}
    assert (result.sessions, result.run_key) == (2, b"")
    assert result.note_fault is not None
