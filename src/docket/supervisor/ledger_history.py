"""What the ledger of an earlier session holds: one fold, for whoever closes or continues the run.

Invariant: built only from entries that hold the chain; keeps the starts, the ends and the open calls, and nothing else
that grows with the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docket.control.evidence import Before
from docket.control.rebooking import Rebooking
from docket.errors import FormatError
from docket.ledger import checkpoint
from docket.ledger.chain import Entry
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
    rebooking: Rebooking = field(default_factory=Rebooking)
    sessions: list[Session] = field(default_factory=list)
    open_requests: dict[int, Entry] = field(default_factory=dict)
    """``model.request`` events without an end, by call."""
    policy: JsonObject | None = None
    """The policy document of the last session, private members disclosed."""
    tables: list[JsonObject] = field(default_factory=list)
    """``{digest, source, date}`` of the price table of each session."""
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
        self.rebooking.add(entry)
        data: Mapping[str, Any] = entry.data
        match entry.type:
            case "session.start":
                self.sessions.append(Session(entry))
                self.exit = {}
                self.policy = None
                self.tables.append({"digest": data["prices"], "source": "unknown", "date": "unknown"})
            case "session.end" if self.sessions:
                self.sessions[-1].end = entry
            case "policy.applied":
                self._apply(entry)
            case "proc.exit":
                self.exit = {name: data[name] for name in ("code", "signal") if name in data}
            case "model.request":
                self.open_requests[data["call"]] = entry
            case "model.response" | "model.error":
                self.open_requests.pop(data["call"], None)
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

    def _apply(self, entry: Entry) -> None:
        document, table = _value(entry, "document"), _value(entry, "prices")
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
    ops: Any = end.data["ops"] if end is not None else {}
    said = ops.get("evidence", {}).get("ledger_complete")
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


def _value(entry: Entry, name: str) -> object:
    member = (entry.private or {}).get(name)
    return member.get("value") if isinstance(member, dict) else None
