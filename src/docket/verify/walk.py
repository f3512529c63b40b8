"""A ledger event by event: chain, sessions, calls and usage, in memory that does not grow with its length.

Invariant: the first bad event decides, and within an event the order of ``CHECKS``; after it nothing is read.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from docket.verify import events, fast_path, ledger_totals, usage
from docket.verify.calls import Calls
from docket.verify.canonical import Object, encode, longer_form, read, seal, seal_any, seal_private
from docket.verify.fast_path import LONGEST
from docket.verify.ledger_totals import Figures
from docket.verify.lines import MAX_LINE
from docket.verify.notes import Note
from docket.verify.receipt_shape import MAX_SESSIONS
from docket.verify.report import Violation
from docket.verify.tree import Tree

GENESIS = hashlib.sha256(b"docket-ledger/1").hexdigest()
CHECKS = (
    "ledger.form",
    "ledger.seq",
    "ledger.prev",
    "ledger.hash",
    "ledger.time",
    "ledger.sessions",
    "ledger.calls",
    "ledger.usage",
    "ledger.end",
)
"""The checks of one event, in order."""
MAX_UNKNOWN_TYPES = 100
_KEPT = frozenset({"docket", "session", "run_key", "policy", "prices", "endorsement", "continues"})
"""Members of a start that later checks read."""
_PRIVATE = b'"private":'


@dataclass(slots=True)
class Session:
    """A ``session.start`` and what followed it so far."""

    seq: int
    hash: str
    data: Object
    end_hash: str = ""
    """Of its last ``session.end``, "" if it has none."""
    end_seq: int = -1
    note: Note | None = None
    """Its last checkpoint."""
    size: int = 0
    """Events before the next start."""

    @property
    def closed(self) -> bool:
        """Whether the event before the next start is its end, and its own key attests exactly that size."""
        return self.end_seq == self.size - 1 and self.note is not None and self.note.size == self.size


class Walk:
    """The state after the events so far."""

    def __init__(self) -> None:
        self.size = 0
        self.head = GENESIS
        self.elapsed_us = 0
        self.tree = Tree()
        self.usage_tree = Tree()
        self.calls = Calls()
        self.figures = Figures()
        self.sessions: list[Session] = []
        self.last_type = ""
        self.last_data: Object = {}
        self.withheld: dict[str, int] = {}
        self.unknown_types: dict[str, int] = {}

    def take(self, line: bytes) -> None:
        """Take the next line, without its LF. Raises Violation naming check and event."""
        check = "ledger.form"
        try:
            known = fast_path.read(line, self.size, self.head, self.withheld)
            if known is not None:
                event, leaf = known
                events.check_data(event)
            else:
                event = self._read(line)
                check = "ledger.seq"
                self._check_seq(event["seq"])
                check = "ledger.prev"
                if event["prev"] != self.head:
                    raise Violation("prev is not the hash of the event before")
                check = "ledger.hash"
                leaf = self._leaf(event)
            check = "ledger.time"
            if event["elapsed_us"] < self.elapsed_us:
                raise Violation("elapsed_us lies before that of the event before")
            kind, data = event["type"], event["data"]
            check = "ledger.sessions"
            if kind == "session.start" or not self.size:
                self._start(event)
            check = "ledger.calls"
            ends = kind == "model.response" or kind == "model.error"
            if ends:
                self.calls.end(data["call"])
            elif kind == "model.request":
                self.calls.request(data["call"])
            elif kind == "model.cache_hit":
                self.calls.cache_hit(data["call"])
            check = "ledger.usage"
            self.figures.add(event)
            if ends and "usage" in data:
                self._add_row(event)
            check = "ledger.end"
            if kind == "session.end":
                self._check_end(event)
            elif kind not in events.VOCABULARY:
                self._note_unknown(kind)
        except Violation as violation:
            raise Violation(f"event {self.size}: {violation.detail}", check) from None
        self.tree.add(leaf)
        self.head = event["hash"]
        self.elapsed_us = event["elapsed_us"]
        self.last_type, self.last_data = kind, data
        self.size += 1
        self.sessions[-1].size = self.size

    def next_session(self, line: bytes) -> Object | None:
        """The data of the right ``session.start`` that ``line`` takes up this ledger with, or None if it does not."""
        try:
            event = self._read(line)
            self._check_seq(event["seq"])
            self._leaf(event)
            if event["type"] != "session.start" or event["prev"] != self.head or event["elapsed_us"] < self.elapsed_us:
                return None
            self._check_start(event)
        except Violation:
            return None
        data: Object = event["data"]
        return data

    def _read(self, line: bytes) -> Object:
        if len(line) > LONGEST and len(line) >= MAX_LINE:
            raise Violation(f"longer than {MAX_LINE} bytes")
        event = read(line)
        if len(line) > LONGEST and len(line) + longer_form(event) >= MAX_LINE:
            raise Violation(f"longer than {MAX_LINE} bytes with its private members withheld")
        events.check_envelope(event)
        private = line.count(_PRIVATE)
        if private and "private" in event:
            event["private"] = seal_private(event["private"], self.withheld)
            private -= 1
        if private:  # a member further down is, or only reads like, a private one
            event["data"] = seal(event["data"], self.withheld)
            for name in event.keys() - events.ENVELOPE - {"private"}:
                event[name] = seal_any(event[name], self.withheld)
        events.check_data(event)
        return event

    def _check_seq(self, seq: int) -> None:
        if seq < self.size:
            raise Violation(f"seq {seq} where {self.size} belongs: a duplicate, as two writers or a swap leave it")
        if seq > self.size:
            gap = str(self.size) if seq == self.size + 1 else f"{self.size} to {seq - 1}"
            raise Violation(f"seq {seq} where {self.size} belongs: {gap} missing")

    def _leaf(self, event: Object) -> bytes:
        claimed = event["hash"]
        del event["hash"]
        leaf = hashlib.sha256(b"\x00" + encode(event)).digest()
        event["hash"] = claimed
        if leaf.hex() != claimed:
            raise Violation("the event does not give its hash")
        return leaf

    def _start(self, event: Object) -> None:
        if event["type"] != "session.start":
            raise Violation("a ledger begins with session.start")
        self._check_start(event)
        kept = {name: member for name, member in event["data"].items() if name in _KEPT}
        self.sessions.append(Session(seq=self.size, hash=event["hash"], data=kept))

    def _check_start(self, event: Object) -> None:
        data, number = event["data"], len(self.sessions)
        if data["session"] != number:
            raise Violation(f"session {data['session']} where {number} belongs")
        if number >= MAX_SESSIONS:
            raise Violation(f"more than {MAX_SESSIONS} sessions")
        continues = data.get("continues")
        if not number:
            if "continues" in data:
                raise Violation("session 0 continues nothing")
            return
        if data["docket"] != self.sessions[0].data["docket"]:
            raise Violation("another docket number than session 0")
        if any(data["run_key"] == session.data["run_key"] for session in self.sessions):
            raise Violation("the run key of an earlier session")
        if continues is None:
            raise Violation("a later session without continues")
        if continues["size"] != self.size or continues["head"] != self.head:
            raise Violation("continues another size or head than the ledger has here")
        if continues["root"] != self.tree.root().hex():
            raise Violation("continues another root than the ledger has here")

    def _add_row(self, event: Object) -> None:
        cost = usage.check(event["data"]["usage"])
        row = usage.row_of(event)
        self.usage_tree.add(hashlib.sha256(b"\x00" + encode(row)).digest())
        self.figures.bill.add(row, cost)

    def _note_unknown(self, kind: str) -> None:
        if kind in self.unknown_types or len(self.unknown_types) < MAX_UNKNOWN_TYPES:
            self.unknown_types[kind] = self.unknown_types.get(kind, 0) + 1

    def _check_end(self, event: Object) -> None:
        data = event["data"]
        expected = self.figures.totals(data["ops"].get("evidence"))
        wrong = ledger_totals.difference(data["totals"], expected, "totals") or ledger_totals.difference(
            data["usage_tree"],
            {"size": self.usage_tree.size, "root": self.usage_tree.root().hex()},
            "usage_tree",
        )
        if wrong:
            raise Violation(wrong)
        self.sessions[-1].end_seq, self.sessions[-1].end_hash = self.size, event["hash"]
