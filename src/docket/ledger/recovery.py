"""What is wrong with a ledger, and what to do: a table, never a guess.

Only a torn tail is repaired, by moving it aside; everything else is refused and reported. An entry never holds NUL, so
a zero-filled sector tells a tear from an edit; one batched write bounds how far back a tear can reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from docket.ledger.chain import MAX_LINE
from docket.ledger.scan import FaultKind, Scan

State = Literal["intact", "torn", "rolled-back", "damaged", "garbled"]
Action = Literal["append", "quarantine", "refuse"]
MAX_TEAR = MAX_LINE
"""Bytes that one torn batched write can leave at most (``storage.writer.MAX_BATCH``)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the recovery table."""

    state: State
    action: Action
    faults: frozenset[FaultKind | None]
    """Kinds of the first bad line; None is no bad line."""
    signed_beyond: bool | None
    """Whether a checkpoint covers more than the whole lines; None is either."""
    small: bool | None
    """Whether at most one batch remains from the bad line on; None is either."""


TABLE = (
    Row("damaged", "refuse", frozenset({"broken"}), None, None),
    Row("rolled-back", "refuse", frozenset({None, "cut", "zeroed", "garbled"}), True, None),
    Row("intact", "append", frozenset({None}), False, None),
    Row("torn", "quarantine", frozenset({"cut", "zeroed"}), False, True),
    Row("garbled", "refuse", frozenset({"cut", "zeroed"}), False, False),
    Row("garbled", "refuse", frozenset({"garbled"}), False, None),
)
"""In order; exactly one row fits any scan."""


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    """What a ledger is, what may be done with it, and why."""

    state: State
    action: Action
    message: str


def decide(scan: Scan) -> RecoveryDecision:
    """The row of the table that fits ``scan``; a checkpoint that contradicts the events is damage."""
    if scan.note_fault is not None and (scan.fault is None or scan.fault.kind != "broken"):
        return RecoveryDecision("damaged", "refuse", scan.note_fault)
    kind = scan.fault.kind if scan.fault else None
    beyond = scan.signed > scan.chain.size
    small = scan.rest <= MAX_TEAR
    row = next(
        row
        for row in TABLE
        if kind in row.faults and row.signed_beyond in (None, beyond) and row.small in (None, small)
    )
    return RecoveryDecision(row.state, row.action, _describe(row.state, scan))


def _describe(state: State, scan: Scan) -> str:
    size = scan.chain.size
    rest = f"{scan.rest} bytes from byte {scan.offset} on"
    last = f"the last whole event is {size - 1}" if size else "there is no whole event"
    why = scan.fault.message if scan.fault else ""
    match state:
        case "intact":
            return f"{size} events, the chain holds"
        case "torn":
            return f"{rest} are a torn write ({why}); {last}"
        case "rolled-back":
            return f"events {size} to {scan.signed - 1} are missing: a signed checkpoint covers {scan.signed} events"
        case "damaged":
            return f"the chain is broken at event {size}, byte {scan.offset}: {why}"
        case "garbled":
            return f"{rest} are no torn write ({why}); {last}"
        case _:
            assert_never(state)
