"""The record of a run, written by one thread: chain, ledger file, checkpoints and guard move together.

Invariants: ``chain`` never holds an entry that is not durable when ``commit`` returns; a checkpoint covers only what is
synced; nothing is lost without being counted. Knows no event loop and no queue: ``writer`` has those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from docket.clock import Clock
from docket.control.evidence import Condition, Guard
from docket.errors import FormatError, LedgerDamagedError, LedgerError, LedgerWriteError
from docket.ledger import checkpoint
from docket.ledger.chain import MAX_LINE, Chain, Entry
from docket.ledger.codec import Draft, draft
from docket.ledger.events import Event, PolicyViolation
from docket.primitives.instant import timestamp
from docket.primitives.merkle import ProofBuilder
from docket.primitives.signature import SigningKey
from docket.receipt.model import Evidence
from docket.storage.ledger_file import UNREADABLE, LedgerFile, SyncFailedError
from docket.storage.paths import CHECKPOINTS, LEDGER, RunDirectory
from docket.storage.reader import LedgerRead
from docket.storage.reserve import Reserve

MAX_BATCH = MAX_LINE
"""Bytes of one batched write: bounds how far back a torn write can reach (recovery table)."""
CHECKPOINT_EVENTS = 256
"""A checkpoint is due after this many events ..."""
CHECKPOINT_US = 2_000_000
"""... or this long after the first event that none covers, in microseconds (evidence format section 3)."""


POOL = 4096
"""Bytes fetched at once: the salts of some hundred events."""
RESERVE_STEP = 256 * 1024
"""Bytes by which the reserve grows at once, where the volume has them: some hundred calls."""
MAX_RESTORED = 16
"""Times that a file is put back: each costs a copy of it, and who replaces it for ever has to be stopped elsewhere."""


@dataclass(frozen=True, slots=True)
class Proof:
    """An inclusion proof of one entry (RFC 9162 section 2.1.3); ``hashes`` are hex, the nearest first."""

    index: int
    size: int
    hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """The end of the durable ledger: what a receipt binds."""

    size: int
    head: str
    root: str
    elapsed_us: int
    note: str
    """The last checkpoint that is durable: over exactly this size and root unless the evidence is incomplete."""
    covered: bool
    """Whether the note covers exactly this size."""
    proofs: Mapping[int, Proof]
    """By ``seq``: of every watched entry, in the tree of this size."""
    evidence: Evidence
    """How whole the record is."""


@dataclass(slots=True)
class Item:
    """An event on its way: it gets an ``entry``, or was ``lost``, or has an ``error`` of its own."""

    draft: Draft
    watch: bool = False
    entry: Entry | None = None
    lost: bool = False
    error: LedgerError | FormatError | None = None


class Committed(NamedTuple):
    """What became of one batch, in the order of the ledger; and the state of the record after it."""

    items: list[Item]
    condition: Condition
    used: int
    """Bytes of the ledger."""
    took_us: int


class _Entropy:
    """Random bytes of the system, fetched many at a time: each fetch lets go of the interpreter's lock."""

    def __init__(self) -> None:
        self._pool, self._used = b"", 0

    def __call__(self, count: int) -> bytes:
        start, end = self._used, self._used + count
        if end > len(self._pool):
            self._pool = os.urandom(max(count, POOL))
            start, end = 0, count
        self._used = end
        return self._pool[start:end]


class Record:
    """One run's ledger and checkpoints, open for writing."""

    def __init__(
        self,
        run: RunDirectory,
        ledger: LedgerFile,
        notes: LedgerFile,
        *,
        key: SigningKey | None,
        clock: Clock,
        guard: Guard,
        chain: Chain,
        watched: Mapping[int, ProofBuilder],
        committed: Callable[[Committed], None],
        reserve: Reserve | None = None,
    ) -> None:
        """Go on behind ``chain``; ``committed`` is told of every batch, in order.

        ``key`` is the run key; without one nothing is signed (``doctor`` holds none). ``reserve`` is the room that is
        kept for the end of the run; it grows with the run.
        """
        self.chain = chain
        self.differences: list[str] = []
        """How the files were found to differ from what was written, each once; each is in the ledger too."""
        self.due_us: int | None = None
        """When the next checkpoint is due, on the monotonic clock; None while every event is covered."""
        self.now_us = 0
        """The monotonic clock as it was when the last batch was done."""
        self.note_due = False
        """Whether a checkpoint was due then."""
        self._run = run
        self._ledger = ledger
        self._notes = notes
        self._key = key
        self._clock = clock
        self._guard = guard
        self._watched = dict(watched)
        self._committed = committed
        self._reserve = reserve
        self._base = reserve.size if reserve is not None else 0
        self._started_us = clock.monotonic_us() - chain.elapsed_us
        self._noted, self._noted_lost = chain.size, guard.lost_in_all
        self._may_fail = chain.size > 0
        self._failure: LedgerWriteError | None = None
        self._note = b""
        self._restored = 0
        self._entropy = _Entropy()
        self._second, self._stamp = -1, ""
        """The wall clock's last second, and how it is spelled up to its fraction."""

    def commit(self, batch: list[Item], weight: int | None = None) -> None:
        """Give every event of ``batch`` its place and make them durable by one sync.

        ``weight`` is an upper bound of their bytes, where the caller knows one; they are at most ``MAX_BATCH``. What
        cannot be written is lost and counted. Raises LedgerWriteError only where the first event of all cannot be.
        """
        if not batch:
            self.now_us = self._clock.monotonic_us()
            self.note_due = self.due_us is not None and self.now_us >= self.due_us
            return
        began_us = self._clock.monotonic_us()
        guard = self._guard
        roomy = not guard.limited or (weight is not None and guard.has_room(self._ledger.size + weight))
        fitting = batch if roomy else self._fitting(batch)
        written = not fitting or ((not guard.pending or self.tell()) and self._write(fitting, began_us))
        if not written:
            self._lose(fitting)
        if not written or len(fitting) < len(batch):
            guard.lost((item.draft for item in batch if item.lost), self.chain.size)
            self._keep_note()
        self.now_us = self._clock.monotonic_us()
        self.note_due = self.due_us is not None and (
            self.now_us >= self.due_us or self.chain.frontier.size - self._noted >= CHECKPOINT_EVENTS
        )
        condition = guard.condition(bool(self.differences))
        self._committed(Committed(batch, condition, self._ledger.size, self.now_us - began_us))

    def checkpoint(self) -> None:
        """Sign what is durable. Raises LedgerWriteError where there is no note yet and this one cannot be written."""
        self.compare(whole=False)
        self.due_us, self.note_due = None, False
        size, lost = self.chain.size, self._guard.lost_in_all
        if (size, lost) <= (self._noted, self._noted_lost) or not size or self._notes.failed or self._key is None:
            return
        note = checkpoint.sign(self._run.name, size, self.chain.root(), self._key, lost)
        try:
            self._notes.append(note)
        except LedgerWriteError as error:
            if not self._note:
                raise
            self._notes.cut_back()  # the receipt quotes the last durable note, and the file has to end with it
            self._guard.failed(final=isinstance(error, SyncFailedError))
            self.due_us = self._clock.monotonic_us() + CHECKPOINT_US
            self._keep_note()
        else:
            self._note, self._noted, self._noted_lost = note, size, lost
        self._guard.noted(written=(self._noted, self._noted_lost) == (size, lost))
        self._committed(Committed([], self.condition(), self._ledger.size, 0))

    def position(self) -> Position:
        """The end of what is durable, after a checkpoint over it."""
        self.checkpoint()
        return _position(
            self.chain,
            self._watched,
            self._note.decode(),
            covered=(self._noted, self._noted_lost) == (self.chain.size, self._guard.lost_in_all),
            evidence=self.condition().evidence,
        )

    def compare(self, *, whole: bool) -> None:
        """Compare the files and their place with what was written; a new difference is a violation, once.

        ``whole``, before a run is sealed: byte for byte, and a pending gap is told of.
        """
        for file in (self._ledger, self._notes):
            found = file.content_difference() if whole else file.difference()
            difference = f"{file.name} {found}"
            if found is None:
                continue
            if found == UNREADABLE:  # a disk that fails is no other hand: nothing was seen
                self._guard.not_seen()
                continue
            if self._restored < MAX_RESTORED:
                self._restored += 1
                file.restore(found)
            self._differs(difference)
        try:
            displaced = self._run.displaced()
        except OSError:
            displaced = []
            self._guard.not_seen()
        for difference in displaced:
            self._differs(difference)
        if whole:
            self.tell()

    def _differs(self, difference: str) -> None:
        if difference not in self.differences:
            self.differences.append(difference)
            violation: Event = PolicyViolation(rule="evidence", reason=difference)
            self.commit([Item(draft(violation))])

    def tell(self) -> bool:
        """Write the pending gap event, if there is one; whether what comes next may follow."""
        gap = self._guard.gap
        if gap is None:
            return True
        items = [Item(draft(gap))]
        if self._guard.final or not self._write(items, self._clock.monotonic_us()):
            return False
        self._guard.disclosed()
        self._committed(Committed(items, self.condition(), self._ledger.size, 0))
        return True

    def condition(self) -> Condition:
        """How the record is."""
        return self._guard.condition(bool(self.differences))

    def memory(self) -> Position:
        """The end of what is durable under a note of its own, which stands in no file: for a receipt from memory."""
        assert self._key is not None
        lost = self._guard.lost_in_all
        note = checkpoint.sign(self._run.name, self.chain.size, self.chain.root(), self._key, lost).decode()
        evidence = self.condition().evidence
        if evidence.ledger_complete is True:
            evidence = replace(evidence, ledger_complete="unknown")
        return _position(self.chain, self._watched, note, covered=True, evidence=evidence)

    def release_reserve(self) -> None:
        """Give back the room that was kept for the end: it is written now."""
        if self._reserve is not None:
            self._reserve.release()
            self._reserve = None

    def close(self) -> None:
        """Let go of the files, and of a reserve that was not released: doctor reads it. A lost disk closes nothing."""
        for file in (self._ledger, self._notes, self._reserve):
            if file is not None:
                with suppress(OSError):
                    file.close()

    def _keep_note(self) -> None:
        """Leave a note of the losses in the reserve, whose bytes are there whatever the volume is like now."""
        if self._reserve is not None and self._key is not None and self.chain.size:
            size, lost = self.chain.size, self._guard.lost_in_all
            self._reserve.keep_note(checkpoint.sign(self._run.name, size, self.chain.root(), self._key, lost))

    def _lose(self, items: list[Item]) -> None:
        for item in items:
            item.entry, item.lost = None, item.error is None
            if item.lost and self._guard.mode == "stop":
                item.error = self._failure

    def _fitting(self, batch: list[Item]) -> list[Item]:
        """What of ``batch`` fits under the ceiling; the rest is lost."""
        used = self._ledger.size
        fitting = []
        for item in batch:
            weight = item.draft.weight
            if self._guard.fits(item.draft, weight, used):
                used += weight
                fitting.append(item)
            else:
                item.lost = True
        return fitting

    def _write(self, items: list[Item], now_us: int) -> bool:
        """Make ``items`` durable; whether that succeeded, the record otherwise being as before."""
        before, size = self.chain.mark(), self.chain.frontier.size
        try:
            if self._guard.final:
                raise SyncFailedError("an earlier sync failed")
            if self._reserve is not None:
                self._keep_room(self._reserve, items)
            lines = self._place_all(items, now_us)
            if lines:
                self._ledger.append(b"".join(lines))
        except LedgerWriteError as error:
            if not self._may_fail:
                raise
            self._failure = error
            self.chain.reset(before)
            self._watched = {seq: proof for seq, proof in self._watched.items() if seq < size}
            if not self._guard.final:
                self._guard.failed(final=isinstance(error, SyncFailedError))
            return False
        self._may_fail = True
        self._guard.recorded(items)
        if lines and self.due_us is None:
            self.due_us = now_us + CHECKPOINT_US
        return True

    def _keep_room(self, reserve: Reserve, items: list[Item]) -> None:
        """Let the reserve grow with the run, before what makes it longer is written. Raises LedgerWriteError."""
        need = self._base + self._guard.end_room(item.draft for item in items)
        if need > reserve.size:
            try:
                reserve.grow(need + RESERVE_STEP)
            except LedgerWriteError:
                reserve.grow(need)

    def _place_all(self, items: list[Item], now_us: int) -> list[bytes]:
        unix_us = self._clock.unix_us()
        if unix_us // 1_000_000 != self._second:  # many batches are written within one second
            self._second, self._stamp = unix_us // 1_000_000, timestamp(unix_us)[:-7]
        ts = f"{self._stamp}{unix_us % 1_000_000:06d}Z"
        elapsed_us = now_us - self._started_us
        lines = []
        for item in items:
            try:
                item.entry, line, proof = self.chain.extend(
                    item.draft, ts=ts, elapsed_us=elapsed_us, entropy=self._entropy, watch=item.watch
                )
            except FormatError as error:
                item.error = error
                continue
            if proof is not None:
                self._watched[proof.index] = proof
            lines.append(line)
        return lines


def create_files(run: RunDirectory) -> tuple[LedgerFile, LedgerFile]:
    """The new, empty ledger and checkpoints of ``run``. Raises LedgerWriteError where there are such files already."""
    return LedgerFile.create(run, LEDGER), LedgerFile.create(run, CHECKPOINTS)


def reopen_files(run: RunDirectory, read: LedgerRead) -> tuple[LedgerFile, LedgerFile]:
    """The existing ledger and checkpoints of ``run``, as ``read`` found them: both whole, nothing torn behind.

    Raises LedgerDamagedError where something stands behind what was read, LedgerWriteError where they cannot be opened.
    """
    scan, notes = read.scan, read.notes
    if scan.rest or notes.length > notes.offset:
        raise LedgerDamagedError(
            f"{run.path} ends in a torn write", hint=f"docket doctor --quarantine-torn-tail {run.path}"
        )
    ledger = LedgerFile.reopen(run, LEDGER, scan.offset, scan.digest.copy())
    try:
        return ledger, LedgerFile.reopen(run, CHECKPOINTS, notes.offset, notes.digest.copy())
    except LedgerWriteError:
        ledger.close()
        raise


def position_of(read: LedgerRead) -> Position:
    """The end of a ledger that was read, with the proofs of its starts and ends."""
    scan, note = read.scan, read.notes.last.decode()
    return _position(scan.chain, scan.watched, note, covered=scan.attested == scan.chain.size, evidence=Evidence())


def _position(
    chain: Chain, watched: Mapping[int, ProofBuilder], note: str, *, covered: bool, evidence: Evidence
) -> Position:
    proofs = {
        seq: Proof(seq, chain.size, tuple(node.hex() for node in chain.frontier.proof(builder)))
        for seq, builder in watched.items()
    }
    return Position(
        size=chain.size,
        head=chain.head,
        root=chain.root().hex(),
        elapsed_us=chain.elapsed_us,
        note=note,
        covered=covered,
        proofs=proofs,
        evidence=evidence,
    )
