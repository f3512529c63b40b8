"""The one writer of a ledger: group commit in one thread; ``append`` returns when its event is durable.

Invariants: ``seq``, ``prev``, ``hash``, salts and times are given in the thread, at write time; whatever was handed
over is written even if the caller is cancelled; entries are handed back in order, a batch by one
``call_soon_threadsafe``; a dead writer fails every waiter; a checkpoint covers only what is synced.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from docket.clock import Clock
from docket.errors import FormatError, LedgerError, LedgerWriteError
from docket.ledger import checkpoint
from docket.ledger.chain import MAX_LINE, Chain, Entry, weight_of
from docket.ledger.codec import Draft, draft
from docket.ledger.events import Event, PolicyViolation
from docket.primitives.instant import timestamp
from docket.primitives.merkle import ProofBuilder
from docket.primitives.signature import SigningKey
from docket.storage.ledger_file import LedgerFile
from docket.storage.lock import Lock
from docket.storage.paths import CHECKPOINTS, LEDGER, RunDirectory

T = TypeVar("T")

MAX_BATCH = MAX_LINE
"""Bytes of one batched write: bounds how far back a torn write can reach (recovery table)."""
MAX_BATCH_EVENTS = 4096
"""Events taken at once, so that one batch delays nobody for long."""
MAX_WAITING = 65_536
"""Appends that may wait for the disk; a further one fails. Far above what a boundary has in flight."""
CHECKPOINT_EVENTS = 256
"""A checkpoint is due after this many events ..."""
CHECKPOINT_US = 2_000_000
"""... or this long after the first event that none covers, in microseconds (evidence format section 3)."""


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
    """The last checkpoint, over exactly this size and root; empty for an empty ledger."""
    proofs: Mapping[int, Proof]
    """By ``seq``: of every watched entry, in the tree of this size."""


@dataclass(slots=True)
class _Append:
    draft: Draft
    waiter: asyncio.Future[Entry]
    watch: bool
    entry: Entry | None = None
    error: LedgerError | FormatError | None = None


@dataclass(slots=True)
class _Task:
    """Something else to be done in the thread, after everything that was handed over before it."""

    work: Callable[[], Any]
    waiter: asyncio.Future[Any]
    result: Any = None


class LedgerWriter:
    """Appends to one run's ledger. Made on the event loop, used from it alone."""

    def __init__(
        self,
        run: RunDirectory,
        lock: Lock,
        ledger: LedgerFile,
        notes: LedgerFile,
        *,
        key: SigningKey,
        clock: Clock,
        chain: Chain | None = None,
        watched: Mapping[int, ProofBuilder] | None = None,
    ) -> None:
        """Go on behind ``chain`` (default: nothing), whose ``watched`` entries keep growing their proofs."""
        self.run = run
        self.size = chain.size if chain else 0
        """Entries that are durable and handed back."""
        self.head = (chain or Chain()).head
        """``hash`` of the last of them."""
        self.differences: list[str] = []
        """How the files were found to differ from what was written, each once; each is in the ledger too."""
        self._lock = lock
        self._ledger = ledger
        self._notes = notes
        self._key = key
        self._clock = clock
        self._chain = chain or Chain()
        self._watched = dict(watched or {})
        self._started_us = clock.monotonic_us() - self._chain.elapsed_us
        self._noted = self._chain.size
        self._note = b""
        self._due_us: int | None = None
        self._loop = asyncio.get_running_loop()
        self._observers: list[Callable[[Entry], None]] = []
        self._queue: SimpleQueue[_Append | _Task | None] = SimpleQueue()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._dead: LedgerError | None = None
        self._ended = self._loop.create_future()
        self._thread = threading.Thread(target=self._main, name="docket-ledger", daemon=True)
        self._thread.start()

    @classmethod
    def create(cls, run: RunDirectory, *, key: SigningKey, clock: Clock) -> LedgerWriter:
        """The writer of the new ledger of ``run``; ``key`` is the run key, which signs the checkpoints.

        Raises LedgerLockedError if another process holds the run, LedgerWriteError if it has a ledger already.
        """
        lock = Lock(run)
        try:
            ledger = LedgerFile.create(run, LEDGER)
            notes = LedgerFile.create(run, CHECKPOINTS)
        except LedgerError:
            lock.release()
            raise
        return cls(run, lock, ledger, notes, key=key, clock=clock)

    def observe(self, observer: Callable[[Entry], None]) -> None:
        """Call ``observer`` on the event loop with every entry from now on, in order, once it is durable."""
        self._observers.append(observer)

    async def append(self, event: Event) -> Entry:
        """Record ``event``; returns when it is on stable storage. A cancelled append still counts as written.

        Raises FormatError where the event has no canonical form or its line would be too long, LedgerWriteError where
        it could not be made durable.
        """
        return await self.submit(event)

    def submit(self, event: Event, *, watch: bool = False) -> asyncio.Future[Entry]:
        """Take ``event`` now, in the order of the calls; the future is done when it is on stable storage.

        Raises FormatError where the event has no canonical form, LedgerWriteError where the ledger takes nothing more;
        the future fails as ``append`` does.
        """
        waiter: asyncio.Future[Entry] = self._loop.create_future()
        self._hand_over(_Append(draft(event), waiter, watch))
        return waiter

    async def append_watched(self, event: Event) -> Entry:
        """As ``append``, and keep growing the inclusion proof of the entry (``Position.proofs``)."""
        return await self.submit(event, watch=True)

    async def checkpoint(self) -> Position:
        """Sign what is durable, and say what that is. The first one is awaited before the agent starts.

        Raises LedgerWriteError where the note could not be made durable.
        """
        return await self._do(self._position)

    async def compare(self) -> tuple[str, ...]:
        """Compare all files with what was written, byte for byte; what was ever found different, none if intact."""
        await self._do(lambda: self._compare(whole=True))
        return tuple(self.differences)

    async def close(self) -> None:
        """Write what is waiting, end the thread, release the lock. Harmless when called twice."""
        if not self._ended.done():
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    async def _do(self, work: Callable[[], T]) -> T:
        waiter: asyncio.Future[T] = self._loop.create_future()
        self._hand_over(_Task(work, waiter))
        return await waiter

    def _hand_over(self, item: _Append | _Task) -> None:
        if self._dead is not None:
            raise self._dead
        if len(self._waiting) >= MAX_WAITING:
            raise LedgerWriteError(f"{MAX_WAITING} events wait for the disk")
        self._waiting.add(item.waiter)
        self._queue.put(item)

    # ── on the event loop, called by the thread ──

    def _hand_back(self, batch: list[_Append]) -> None:
        for item in batch:
            if item.entry is not None:
                self.size, self.head = item.entry.seq + 1, item.entry.hash
                for observer in self._observers:
                    self._loop.call_soon(observer, item.entry)
        for item in batch:
            self._resolve(item.waiter, item.entry, item.error)

    def _resolve(self, waiter: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        self._waiting.discard(waiter)
        if waiter.done():
            return
        if error is not None:
            waiter.set_exception(error)
            waiter.exception()  # seen here: whoever does not wait learns it from every later append
        else:
            waiter.set_result(result)

    def _end(self, error: LedgerError | None) -> None:
        self._dead = error or LedgerWriteError("the ledger is closed")
        for waiter in tuple(self._waiting):
            self._resolve(waiter, None, self._dead)
        if not self._ended.done():
            self._ended.set_result(None)

    # ── in the thread ──

    def _main(self) -> None:
        error: LedgerError | None = LedgerWriteError("the ledger's writer ended")
        try:
            self._work()
            error = None
        except LedgerError as failure:
            error = failure
        finally:
            self._ledger.close()
            self._notes.close()
            self._lock.release()
            self._call(self._end, error)

    def _work(self) -> None:
        while True:
            items, last = self._take()
            batch: list[_Append] = []
            weight = 0
            for item in items:
                if isinstance(item, _Task):
                    self._commit(batch)
                    batch, weight = [], 0
                    self._call(self._resolve, item.waiter, item.work(), None)
                    continue
                weight += weight_of(item.draft)
                if weight > MAX_BATCH:
                    self._commit(batch)
                    batch, weight = [], weight_of(item.draft)
                batch.append(item)
            self._commit(batch)
            if last:
                return
            self._checkpoint_if_due()

    def _take(self) -> tuple[list[_Append | _Task], bool]:
        """What waits, and whether the end was asked for; waits for the first, but not past a due checkpoint."""
        timeout = None if self._due_us is None else max(0, self._due_us - self._clock.monotonic_us()) / 1e6
        items: list[_Append | _Task] = []
        with suppress(Empty):
            item = self._queue.get(timeout=timeout)
            while item is not None:
                items.append(item)
                if len(items) == MAX_BATCH_EVENTS:
                    return items, False
                item = self._queue.get_nowait()
            return items, True
        return items, False

    def _commit(self, batch: list[_Append]) -> None:
        """Give every event of ``batch`` its place, make them durable by one sync, and hand them back."""
        if not batch:
            return
        ts = timestamp(self._clock.unix_us())
        elapsed_us = self._clock.monotonic_us() - self._started_us
        lines = [line for item in batch if (line := self._place(item, ts, elapsed_us)) is not None]
        if lines:
            self._ledger.append(b"".join(lines))
            if self._due_us is None:
                self._due_us = self._clock.monotonic_us() + CHECKPOINT_US
        self._call(self._hand_back, batch)

    def _place(self, item: _Append, ts: str, elapsed_us: int) -> bytes | None:
        try:
            item.entry, line, proof = self._chain.extend(
                item.draft, ts=ts, elapsed_us=elapsed_us, entropy=os.urandom, watch=item.watch
            )
        except FormatError as error:
            item.error = error
            return None
        if proof is not None:
            self._watched[proof.index] = proof
        return line

    def _checkpoint_if_due(self) -> None:
        if self._due_us is None:
            return
        if self._chain.size - self._noted >= CHECKPOINT_EVENTS or self._clock.monotonic_us() >= self._due_us:
            self._checkpoint()

    def _checkpoint(self) -> None:
        self._compare(whole=False)
        size = self._chain.size
        if size > self._noted:
            note = checkpoint.sign(self.run.name, size, self._chain.root(), self._key)
            self._notes.append(note)
            self._note, self._noted = note, size
        self._due_us = None

    def _position(self) -> Position:
        self._checkpoint()
        chain = self._chain
        proofs = {
            seq: Proof(seq, chain.size, tuple(node.hex() for node in chain.frontier.proof(builder)))
            for seq, builder in self._watched.items()
        }
        return Position(chain.size, chain.head, chain.root().hex(), chain.elapsed_us, self._note.decode(), proofs)

    def _compare(self, *, whole: bool) -> None:
        """Record every difference that was not there before as a violation: once each, whatever becomes of it."""
        for file in (self._ledger, self._notes):
            found = file.content_difference() if whole else file.difference()
            difference = f"{file.name} {found}"
            if found is None or difference in self.differences:
                continue
            self.differences.append(difference)
            violation = PolicyViolation(rule="evidence", reason=difference)
            self._commit([_Append(draft(violation), self._unawaited(), False)])

    def _unawaited(self) -> asyncio.Future[Entry]:
        return asyncio.Future(loop=self._loop)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)
