"""What may be lost, what must not be, and what is refused while the record cannot be written: decisions, no file.

Invariants: nothing is lost without being counted; after a failed sync nothing is ever written again (``final``); after
a failed write the next thing written tells of the gap. Storage reports what it wrote and lost, and asks here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from docket.control.decision import Refused
from docket.ledger.chain import Entry
from docket.ledger.codec import Draft
from docket.ledger.events import (
    CapExceeded,
    LedgerGap,
    ModelError,
    ModelRequest,
    ModelResponse,
    PolicyApplied,
    PolicyViolation,
    ProcExit,
    ProcOrphan,
    ProcSpawn,
    SessionEnd,
    SessionStart,
)
from docket.policy.resilience import WriteFailure
from docket.primitives.canonical import JsonObject
from docket.primitives.money import ZERO, Usd
from docket.receipt.model import Evidence, Known
from docket.receipt.usage_rows import MAX_ROWS

RETRY_SECONDS = 1
"""When a call refused for want of space may come again: its own denial is the next attempt to write."""
RESERVE = 256 * 1024
"""Bytes of the ledger's ceiling kept for the end of a run: cap events, ends of processes, ``session.end``, whose
totals hold at most 257 lines of models. A ceiling too small for it keeps a quarter."""
END_ROOM = 64 * 1024
"""Bytes that the end of a run without calls takes on its volume: gap event, ``session.end``, checkpoint, receipt with
a hundred changed paths; the policy, which the receipt repeats, comes on top."""
ROW_ROOM = 1024
"""Bytes that one more call adds to receipt and ``session.end`` beside its own bill: a row, a model, a price."""
CALL_ROOM = 4096
"""Bytes kept for the end event of each open call."""
_ENDS = frozenset({ModelResponse.type, ModelError.type})
_ESSENTIAL = frozenset(
    {
        SessionStart.type,
        SessionEnd.type,
        PolicyApplied.type,
        PolicyViolation.type,
        CapExceeded.type,
        ModelResponse.type,
        ModelError.type,
        ProcSpawn.type,
        ProcExit.type,
        ProcOrphan.type,
        LedgerGap.type,
    }
)
"""Events that may use the reserve: without them totals, ``session.end`` and receipt could not agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What the policy grants a ledger: bytes and events, None for no limit."""

    max_bytes: int | None = None
    max_events: int | None = None

    @property
    def reserve(self) -> int:
        return min(RESERVE, (self.max_bytes or 0) // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of the sessions before this one: how many events they lost, and whether those are all."""

    lost: int = 0
    complete: Known = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How the record of a run is at this moment."""

    evidence: Evidence = field(default_factory=Evidence)
    writable: bool = True
    final: bool = False
    """Whether a sync failed, so that nothing will ever be written again."""


class Placed(Protocol):
    """An event that was to be written; ``entry`` is None where it was not."""

    @property
    def draft(self) -> Draft: ...

    @property
    def entry(self) -> Entry | None: ...


class Guard:
    """Decides what of a run's ledger may be lost, and counts what was. Owned by the writer's thread."""

    def __init__(self, mode: WriteFailure, ceilings: Ceilings | None = None, before: Before | None = None) -> None:
        """``mode`` says whether a failure to write ends the run; ``ceilings`` is what the policy grants the ledger.

        ``before`` is what is known of the run's earlier sessions.
        """
        self._before = before or Before()
        self.mode = mode
        self.final = False
        self._ceilings = ceilings or Ceilings()
        self.limited = self._ceilings.max_bytes is not None
        """Whether a byte ceiling is set."""
        self._rows = self._rows_room = 0
        self.pending: Counter[str] = Counter()
        """By type, what was lost and no gap event tells of yet."""
        self._known: tuple[bool, Condition] | None = None
        """What ``condition`` said last, while nothing has changed since."""
        self._tokens = 0
        self._cost = ZERO
        self._unwritten = 0
        self._failures = 0
        self._first: int | None = None
        self._notes_missing = False
        self._unseen = False

    @property
    def lost_in_all(self) -> int:
        """Events that the run is known to have lost, over all its sessions."""
        return self._before.lost + self._unwritten

    @property
    def gap(self) -> LedgerGap | None:
        """The event that tells of what was lost and of no gap event yet, if anything was."""
        if not self.pending:
            return None
        lost: JsonObject = {
            "count": self.pending.total(),
            "types": dict(sorted(self.pending.items())),
            "tokens": self._tokens,
            "cost_usd": str(self._cost),
        }
        return LedgerGap(lost=lost)

    def disclosed(self) -> None:
        """The gap event is durable."""
        self._known = None
        self.pending.clear()
        self._tokens, self._cost = 0, ZERO

    def failed(self, *, final: bool) -> None:
        """A write failed, or (``final``) a sync."""
        self._known = None
        self._failures += 1
        self.final = self.final or final

    def lost(self, drafts: Iterable[Draft], seq: int) -> None:
        """``drafts`` were not written; the first of them would have had ``seq``."""
        self._known = None
        for draft in drafts:
            if self._first is None:
                self._first = seq
            self.pending[draft.type] += 1
            self._unwritten += 1
            tokens, cost = _usage_of(draft)
            self._tokens += tokens
            self._cost += cost

    def noted(self, *, written: bool) -> None:
        """Whether the last checkpoint that was due could be written."""
        self._known, self._notes_missing = None, not written

    def not_seen(self) -> None:
        """The files could not be read back: whether they are what was written is not known."""
        self._known, self._unseen = None, True

    def end_room(self, drafts: Iterable[Draft]) -> int:
        """Return the bytes beside ``END_ROOM`` that the end of the run takes once ``drafts`` are recorded.

        A request counts as an end, so that the end of an admitted call has its room already.
        """
        if self._rows >= MAX_ROWS:
            return self._rows_room
        return self._rows_room + sum(_row_room(draft) for draft in drafts)

    def recorded(self, items: Iterable[Placed]) -> None:
        """Those of ``items`` that have an entry are durable."""
        for item in items:
            if item.entry is None or self._rows >= MAX_ROWS:
                continue
            kind = item.draft.type
            if kind == ModelRequest.type:
                self._rows_room += 2 * ROW_ROOM
            elif kind in _ENDS:
                self._rows_room += max(0, item.draft.weight - ROW_ROOM)
                self._rows += 1

    def has_room(self, used: int) -> bool:
        """Whether ``used`` bytes are within the byte ceiling, its reserve left alone."""
        limit = self._ceilings.max_bytes
        return limit is None or used <= limit - self._ceilings.reserve

    def fits(self, draft: Draft, weight: int, used: int) -> bool:
        """Whether an event of ``weight`` bytes may follow ``used`` ones under the byte ceiling.

        The ceiling is met where the reserve begins; what still comes while the run is being stopped (refusals, the
        last look at the files) has the first half of it.
        """
        limit = self._ceilings.max_bytes
        if limit is None:
            return True
        return used + weight <= (limit if draft.type in _ESSENTIAL else limit - self._ceilings.reserve // 2)

    def condition(self, differences: bool) -> Condition:
        """The state of the record, ``differences`` saying whether another hand was found in it."""
        if self._known is not None and self._known[0] == differences:
            return self._known[1]
        failed = self._unwritten or self.final or self._notes_missing
        evidence = Evidence(
            ledger_complete=False if failed else "unknown" if self._unseen else self._before.complete,
            intact=not differences,
            unwritten_events=self.lost_in_all,
            write_failures=self._failures,
            first_failing_seq=self._first,
            gaps=dict(sorted(self.pending.items())),
        )
        condition = Condition(evidence=evidence, writable=not (self.pending or self.final), final=self.final)
        self._known = differences, condition
        return condition


def ceiling_met(ceilings: Ceilings, *, used: int, events: int, open_calls: int) -> CapExceeded | None:
    """The ceiling that a ledger of ``used`` bytes and ``events`` events has met, the ends of its open calls counted."""
    if ceilings.max_bytes is not None and used + open_calls * CALL_ROOM > ceilings.max_bytes - ceilings.reserve:
        return CapExceeded(cap="max_ledger_bytes", limit=str(ceilings.max_bytes), observed=str(used))
    if ceilings.max_events is not None and events + open_calls >= ceilings.max_events:
        return CapExceeded(cap="max_events", limit=str(ceilings.max_events), observed=str(events))
    return None


def refusal_of(
    mode: WriteFailure, condition: Condition, met: CapExceeded | None, *, lost: bool = False
) -> Refused | None:
    """Return why no model call may be forwarded now, if none may; ``lost``: its own request could not be recorded."""
    if met is not None:
        message = f"the ledger is full: {met.cap} is {met.limit}"
        return Refused(code=met.cap, message=message, limit=met.limit, observed=met.observed)
    if mode == "continue":
        return None
    if mode == "stop" and (lost or condition.evidence.write_failures):
        return Refused(code="evidence_broken", message="an event could not be recorded: this run is being stopped")
    if condition.writable and not lost:
        return None
    if condition.final:
        return Refused(code="evidence_broken", message="a sync of the ledger failed: this run records nothing more")
    message = "the ledger cannot be written: its volume may be full"
    return Refused(code="evidence_broken", message=message, retry_after=RETRY_SECONDS)


def _row_room(draft: Draft) -> int:
    """Return by how many bytes ``draft`` makes the end of the run longer: a request, by a usual end of its call."""
    if draft.type == ModelRequest.type:
        return 2 * ROW_ROOM
    return max(0, draft.weight - ROW_ROOM) if draft.type in _ENDS else 0


def _usage_of(draft: Draft) -> tuple[int, Usd]:
    """Tokens and cost of the bill that ``draft`` carries, if it does."""
    usage = cast("Mapping[str, list[dict[str, int]]]", draft.data.get("usage") or {})
    tokens = sum(item["quantity"] for item in usage.get("items", ()) if item.get("per") != 1)
    return tokens, Usd.parse(str(usage.get("cost_usd", "0")))
