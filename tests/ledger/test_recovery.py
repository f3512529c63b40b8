"""The recovery table: one test a row, and that the rows are disjoint and complete."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from docket.ledger.chain import Chain
from docket.ledger.recovery import MAX_TEAR, TABLE, Action, State, decide
from docket.ledger.scan import Fault, FaultKind, Scan

KINDS = (None, *get_args(FaultKind))


def scanned(kind: FaultKind | None, *, signed: int = 0, rest: int = 10, note_fault: str | None = None) -> Scan:
    fault = Fault(kind, "detail", "why") if kind else None
    return Scan(Chain(), 100, 100 + (rest if kind else 0), fault, 0, signed, note_fault)


def test_exactly_one_row_fits_whatever_is_found() -> None:
    for kind, beyond, small in itertools.product(KINDS, (False, True), (False, True)):
        fitting = [
            row
            for row in TABLE
            if kind in row.faults and row.signed_beyond in (None, beyond) and row.small in (None, small)
        ]
        assert len(fitting) == 1, (kind, beyond, small)


@pytest.mark.parametrize(
    ("scan", "state", "action"),
    [
        (scanned(None), "intact", "append"),
        (scanned("cut"), "torn", "quarantine"),
        (scanned("zeroed"), "torn", "quarantine"),
        (scanned("zeroed", rest=MAX_TEAR), "torn", "quarantine"),
        (scanned("cut", rest=MAX_TEAR + 1), "garbled", "refuse"),
        (scanned("zeroed", rest=MAX_TEAR + 1), "garbled", "refuse"),
        (scanned("garbled"), "garbled", "refuse"),
        (scanned(None, signed=1), "rolled-back", "refuse"),
        (scanned("cut", signed=1), "rolled-back", "refuse"),
        (scanned("zeroed", signed=1), "rolled-back", "refuse"),
        (scanned("garbled", signed=1), "rolled-back", "refuse"),
        (scanned("broken"), "damaged", "refuse"),
        (scanned("broken", signed=1), "damaged", "refuse"),
        (scanned(None, note_fault="size 3"), "damaged", "refuse"),
        (scanned("cut", note_fault="size 3"), "damaged", "refuse"),
    ],
)
def test_row(scan: Scan, state: State, action: Action) -> None:
    decision = decide(scan)
    assert (decision.state, decision.action) == (state, action)
    assert decision.message


def test_only_a_torn_tail_is_ever_moved() -> None:
    assert [row.state for row in TABLE if row.action == "quarantine"] == ["torn"]
    assert [row.state for row in TABLE if row.action == "append"] == ["intact"]


def test_the_missing_range_is_named() -> None:
    scan = scanned(None, signed=12)
    assert "events 0 to 11 are missing" in decide(scan).message
