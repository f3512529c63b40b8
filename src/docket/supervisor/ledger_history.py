"""What the ledger of an earlier session holds: one fold, for whoever closes or continues the run.

Invariant: built only from entries that hold the chain; keeps the starts, the ends and the open calls, and nothing else
that grows with the run.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from docket.control.asserted import AssertedKeys
from docket.control.evidence import Before
from docket.control.rebooking import Rebooking
from docket.errors import FormatError
from docket.findings.fold import Findings
from docket.ledger import checkpoint
from docket.ledger.chain import Entry
from docket.ledger.events import (
    BudgetLeased,
    BudgetReturned,
    ModelError,
    ModelRequest,
    ModelResponse,
    PolicyApplied,
    ProcExit,
    SessionEnd,
    SessionStart,
)
from docket.ledger.recovery import RecoveryDecision, decide
from docket.primitives.canonical import JsonObject
from docket.receipt.model import Known, Proven, Start
from docket.receipt.totals import Totals
from docket.storage.paths import CHECKPOINTS, RunDirectory
from docket.storage.reader import LedgerRead, read_ledger
from docket.storage.record import Position


@dataclass(slots=True)
class Session:
    """One session of the ledger: its start, its last end, and the last checkpoint under its key."""

    start: Entry
    end: Entry | None = None
    note: str | None = None


@dataclass(slots=True)
class Past:
    """The fold of a whole ledger."""

    totals: Totals = field(default_factory=Totals)
    findings: Findings = field(default_factory=Findings)
    rebooking: Rebooking = field(default_factory=Rebooking)
    asserted: AssertedKeys = field(default_factory=AssertedKeys)
    sessions: list[Session] = field(default_factory=list)
    open_requests: dict[int, ModelRequest] = field(default_factory=dict)
    """``model.request`` events without an end, by call."""
    policy: JsonObject | None = None
    """The policy document of the last session, private members disclosed."""
    tables: list[JsonObject] = field(default_factory=list)
    """``{digest, source, date}`` of the price table of each session."""
    leased: bool = False
    """Whether the run took something of shared budgets that was not settled."""
    exit: JsonObject = field(default_factory=dict)
    """How the agent of the last session ended, where that was recorded."""
    read: LedgerRead = field(init=False)
    decision: RecoveryDecision = field(init=False)

    @property
    def lost(self) -> int:
        """Events that the run is known to have lost: by the last checkpoint, or by the gaps behind it."""
        return max(self.read.scan.lost, self.totals.lost)

    @property
    def before(self) -> Before:
        """What a further session is told of those before it."""
        scan, end = self.read.scan, self.sessions[-1].end if self.sessions else None
        closed = end is not None and end.seq == scan.chain.size - 1 and scan.attested == scan.chain.size
        if self.lost:
            return Before(lost=self.lost, complete=False)
        return Before(complete=_said_complete(end) if closed else "unknown")

    def add(self, entry: Entry) -> None:
        """Take the next entry of the ledger."""
        self.totals.add(entry)
        self.findings.add(entry)
        self.rebooking.add(entry)
        self.asserted.add(entry)
        match entry.event:
            case SessionStart(prices=digest):
                self.sessions.append(Session(entry))
                self.exit = {}
                self.policy = None
                self.tables.append({"digest": digest, "source": "unknown", "date": "unknown"})
            case BudgetLeased():
                self.leased = True
            case BudgetReturned(settled=settled):
                self.leased = not settled
            case SessionEnd() if self.sessions:
                self.sessions[-1].end = entry
            case PolicyApplied() as applied:
                self._apply(applied)
            case ProcExit(code=code, signal=signal):
                ways = (("code", code), ("signal", signal))
                self.exit = {name: number for name, number in ways if number is not None}
            case ModelRequest() as request:
                self.open_requests[request.call] = request
            case ModelResponse(call=call) | ModelError(call=call):
                self.open_requests.pop(call, None)
            case _:
                pass

    def starts(self, position: Position) -> tuple[Start, ...]:
        """Every session as a receipt shows it; of earlier ones also what closed them."""
        last = len(self.sessions) - 1
        return tuple(
            Start(
                start=proven(session.start, position),
                checkpoint=session.note if number < last else None,
                end=proven(session.end, position) if session.end is not None and number < last else None,
            )
            for number, session in enumerate(self.sessions)
        )

    def _apply(self, applied: PolicyApplied) -> None:
        document, table = applied.private.get("document"), applied.private.get("prices")
        if isinstance(document, dict):
            self.policy = document
        if isinstance(table, dict) and self.tables:
            self.tables[-1] = table


def read_past(run: RunDirectory) -> Past:
    """Fold the ledger of ``run`` as it stands. Raises LedgerError where there is none or it cannot be read."""
    past = Past()
    past.read = read_ledger(run, past.add)
    past.decision = decide(past.read.scan)
    _assign_notes(run, past)
    return past


def proven(entry: Entry, position: Position) -> Proven:
    """``entry`` with its proof in the tree of ``position``."""
    proof = position.proofs[entry.seq]
    return Proven(event=entry.to_json(), index=proof.index, size=proof.size, hashes=proof.hashes)


def _said_complete(end: Entry | None) -> Known:
    evidence = end.event.ops.get("evidence") if end is not None and isinstance(end.event, SessionEnd) else None
    said = evidence.get("ledger_complete") if isinstance(evidence, dict) else None
    return said if isinstance(said, bool) else "unknown"


def _assign_notes(run: RunDirectory, past: Past) -> None:
    """Give every session its last checkpoint: that of the last ``session.start`` with ``seq`` < size."""
    firsts = [session.start.seq for session in past.sessions]
    notes, _ = checkpoint.split((run.read(CHECKPOINTS) or b"")[: past.read.notes.offset])
    for note in notes:
        try:
            number = bisect_left(firsts, checkpoint.parse(note).size) - 1
        except FormatError:
            return
        if number >= 0:
            past.sessions[number].note = note.decode()
