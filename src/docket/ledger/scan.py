"""Bytes of a ledger to entries, plus what is wrong with the rest.

Invariant: everything before ``Scan.offset`` is entries that hold the chain; nothing after the first bad line is ever
taken. Memory is constant, whatever the length. ``recovery`` decides what a fault means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from docket.errors import FormatError
from docket.ledger.chain import MAX_LINE, BrokenChainError, Chain, Entry, read_entry
from docket.ledger.checkpoint import Checkpoint
from docket.ledger.events import SessionEnd, SessionStart
from docket.primitives.merkle import ProofBuilder

FaultKind = Literal["cut", "zeroed", "garbled", "broken"]
"""Last and unterminated; holds NUL bytes; terminated but no entry; an entry that is not the next one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first line that is not the next entry. ``detail`` of a broken chain is ``BrokenChainError.kind``."""

    kind: FaultKind
    detail: str
    message: str


@dataclass(slots=True)
class Scan:
    """What a ledger's bytes came to."""

    chain: Chain = field(default_factory=Chain)
    """Over the whole lines that hold."""
    offset: int = 0
    """Bytes of those lines: where the first bad line starts, if there is one."""
    length: int = 0
    """Bytes of the whole file."""
    fault: Fault | None = None
    attested: int = 0
    """Size of the last checkpoint that fits these lines."""
    signed: int = 0
    """Size of the last checkpoint at all that is signed by a run key of this ledger."""
    note_fault: str | None = None
    """Why a checkpoint does not fit, if one does not: ``size N: ...``."""
    watched: dict[int, ProofBuilder] = field(default_factory=dict)
    """Growing proofs of every ``session.start`` and of the last ``session.end`` of each session, by ``seq``."""
    sessions: int = 0
    """Number of ``session.start`` events."""
    last_type: str = ""
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    """Running SHA-256 of the lines that hold."""
    run_key: bytes = b""
    """Of the last ``session.start``, if it could be read."""
    lost: int = 0
    """Events that the run had lost by the last checkpoint that is signed."""

    @property
    def rest(self) -> int:
        """Bytes from the first bad line to the end of the file."""
        return self.length - self.offset


class Scanner:
    """Takes a ledger's bytes in any pieces."""

    def __init__(self, notes: Iterable[Checkpoint] = ()) -> None:
        """``notes``: the checkpoints, in the order of their file; they are taken as the scan gets to their sizes."""
        self.scan = Scan()
        self._notes = iter(notes)
        self._note = next(self._notes, None)
        self._last_end: int | None = None
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Entry]:
        """The entries that ``data`` completes, lazily; must be exhausted before the next piece."""
        scan = self.scan
        scan.length += len(data)
        if scan.fault is not None:
            return
        lines = (self._buffer + data).split(b"\n")
        self._buffer = lines.pop()
        for line in lines:
            entry = self._take(line)
            if entry is None:
                self._buffer = b""
                return
            yield entry
        if len(self._buffer) >= MAX_LINE:
            self._fail(_fault_of(self._buffer, FormatError(f"line longer than {MAX_LINE} bytes")))
            self._buffer = b""

    def finish(self) -> Scan:
        """The verdict on the whole file."""
        scan = self.scan
        if self._buffer and scan.fault is None:
            self._fail(Fault("cut", "unterminated", "the last line does not end in a line feed"))
        while self._note is not None:
            self._check_note(self._note)
        return scan

    def take_kept(self, note: Checkpoint) -> bool:
        """Take a note that was found beside the others, after ``finish``; whether it is right and says more.

        One that is not, whoever put it there, changes nothing.
        """
        scan = self.scan
        size = scan.chain.size
        right = note.is_signed_by(scan.run_key) and (note.size > size or note.root == scan.chain.root())
        if not right or note.size < size or note.lost < scan.lost:
            return False
        if (note.size, note.lost) <= (scan.signed, scan.lost):
            return False
        scan.signed, scan.lost = note.size, note.lost
        if note.size == size:
            scan.attested = size
        return True

    def _take(self, line: bytes) -> Entry | None:
        scan = self.scan
        try:
            entry = read_entry(line)
            self._follow(entry)
        except FormatError as error:
            self._fail(_fault_of(line, error))
            return None
        scan.offset += len(line) + 1
        scan.digest.update(line)
        scan.digest.update(b"\n")
        scan.last_type = entry.type
        while self._note is not None and self._note.size <= scan.chain.size:
            self._check_note(self._note)
        return entry

    def _follow(self, entry: Entry) -> None:
        scan = self.scan
        watch = entry.type in (SessionStart.type, SessionEnd.type)
        proof = scan.chain.follow(entry, watch=watch)
        if proof is None:
            return
        scan.watched[entry.seq] = proof
        if entry.type == SessionEnd.type:
            if self._last_end is not None:
                scan.chain.frontier.unwatch(scan.watched.pop(self._last_end))
            self._last_end = entry.seq
            return
        self._last_end = None
        scan.sessions += 1
        scan.run_key = _key_of(entry)

    def _check_note(self, note: Checkpoint) -> None:
        """Hold one note against the chain, which has just reached its size, or has ended before it."""
        scan = self.scan
        problem = None
        if (note.size, note.lost) <= (scan.signed, scan.lost) or note.lost < scan.lost:
            problem = "does not grow"
        elif not note.is_signed_by(scan.run_key):
            problem = "is not signed by the run key of its session"
        elif note.size <= scan.chain.size and note.root != scan.chain.root():
            problem = "has another root than these events"
        if problem is None:
            scan.signed, scan.lost = note.size, note.lost
            if note.size <= scan.chain.size:
                scan.attested = note.size
        elif scan.note_fault is None:
            scan.note_fault = f"the checkpoint of size {note.size} {problem}"
        self._note = next(self._notes, None)

    def _fail(self, fault: Fault) -> None:
        self.scan.fault = fault


def _fault_of(line: bytes, error: FormatError) -> Fault:
    if isinstance(error, BrokenChainError):
        return Fault("broken", error.kind, str(error))
    if b"\0" in line:
        return Fault("zeroed", "nul", "the line holds NUL bytes")
    return Fault("garbled", "not-an-entry", str(error))


def _key_of(start: Entry) -> bytes:
    key = start.data.get("run_key")
    try:
        return bytes.fromhex(key) if isinstance(key, str) else b""
    except ValueError:
        return b""
