"""The checkpoints file beside a ledger, note by note while the ledger is walked (spec section 5).

Invariant: the first bad note decides; a note is judged when the walk reaches its size.
"""

from __future__ import annotations

from collections.abc import Iterable

from docket.verify.lines import Lines
from docket.verify.notes import LINES, MAX_NOTE, Note, parse, split
from docket.verify.report import Violation
from docket.verify.walk import Walk

CHECKS = (
    "checkpoints.form",
    "checkpoints.order",
    "checkpoints.size",
    "checkpoints.root",
    "checkpoints.signature",
    "checkpoints.lost",
    "checkpoints.last",
)


class Checkpoints:
    """The notes so far. ``due`` is the size at which the next one is judged, -1 when none is left to judge."""

    def __init__(self, chunks: Iterable[bytes], docket: str | None, limit: int | None) -> None:
        """``docket`` and ``limit``: the receipt's number and its size, which no note to judge passes."""
        self.failure: Violation | None = None
        self.count = 0
        self.last: Note | None = None
        """The last note that is not beyond the limit."""
        self.beyond = False
        """Whether a whole note stands beyond the limit."""
        self.due = -1
        self._docket = docket
        self._limit = limit
        self._lines = Lines(chunks, MAX_NOTE)
        self._left = 0
        self._notes = split(self._counted())
        self._pending: Note | None = None
        self._advance()

    @property
    def torn(self) -> bool:
        """Whether the file ends inside a note. Known once every note was read."""
        return bool(self._left % LINES or self._lines.rest)

    def reach(self, walk: Walk) -> None:
        """Judge the notes that are due at the size which ``walk`` now has."""
        while self.due == walk.size:
            self._judge(walk)

    def _judge(self, walk: Walk) -> None:
        note = self._pending
        assert note is not None
        docket = self._docket or walk.sessions[0].data["docket"]
        session = walk.sessions[-1]
        if note.origin != f"docket/{docket}":
            self._fail("checkpoints.order", f"origin {note.origin[:80]!r} is not this docket")
        elif note.root != walk.tree.root():
            self._fail("checkpoints.root", f"size {note.size}: another root than the ledger's at that size")
        elif not note.signed_by(bytes.fromhex(session.data["run_key"])):
            self._fail("checkpoints.signature", f"size {note.size}: not signed by the run key of its session")
        elif note.lost < max(self.last.lost if self.last else 0, walk.figures.lost):
            self._fail("checkpoints.lost", f"size {note.size}: fewer events lost than were told of before")
        else:
            session.note = self.last = note
            self.count += 1
            self._advance()

    def finish(self, size: int) -> None:
        """The ledger ended, or was read up to the limit, at ``size`` events."""
        if self._pending is not None and self.failure is None:
            missing = f"{size}" if self._pending.size == size + 1 else f"{size} to {self._pending.size - 1}"
            self._fail(
                "checkpoints.size",
                f"a checkpoint over {self._pending.size} events, the ledger has {size}: {missing} missing at the end",
            )

    def _advance(self) -> None:
        self._pending, self.due = None, -1
        try:
            text = next(self._notes, None)
            if text is None:
                return
            note = parse(text)
        except Violation as violation:
            self._fail("checkpoints.form", f"note {self.count}: {violation.detail}")
            return
        before = (self.last.size, self.last.lost) if self.last else (0, 2**53)
        if (note.size, note.lost) <= before:
            self._fail("checkpoints.order", f"note {self.count}: neither size {note.size} nor its losses grow")
        elif self._limit is not None and note.size > self._limit:
            self.beyond = True
        else:
            self._pending, self.due = note, note.size

    def _fail(self, check: str, detail: str) -> None:
        self.failure = Violation(detail, check)
        self._pending, self.due = None, -1

    def _counted(self) -> Iterable[bytes]:
        for line in self._lines:
            if len(line) >= MAX_NOTE:
                break
            self._left += 1
            yield line
        else:
            if not self._lines.oversize:
                return
        raise Violation(f"a line of {MAX_NOTE} bytes or more")
