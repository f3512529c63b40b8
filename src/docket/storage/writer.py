"""The one writer of a ledger: group commit in one thread; ``append`` returns when its event is durable.

Invariants: ``seq``, ``prev``, ``hash``, salts and times are given in the thread, at write time; whatever was handed
over is written even if the caller is cancelled; entries are handed back in order, a batch by one
``call_soon_threadsafe``; a dead writer fails every waiter; a checkpoint covers only what is synced.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from docket.clock import Clock
from docket.control.evidence import Condition, Guard
from docket.errors import LedgerError, LedgerWriteError
from docket.ledger.chain import Chain, Entry
from docket.ledger.codec import draft
from docket.ledger.events import Event
from docket.primitives.merkle import ProofBuilder
from docket.primitives.signature import SigningKey
from docket.storage.ledger_file import LedgerFile
from docket.storage.lock import Lock
from docket.storage.paths import RunDirectory
from docket.storage.reader import LedgerRead
from docket.storage.record import MAX_BATCH, Committed, Item, Position, Record, create_files, reopen_files
from docket.storage.reserve import Reserve

T = TypeVar("T")

MAX_BATCH_EVENTS = 4096
"""Events taken at once, so that one batch delays nobody for long."""
TURNS = 3
"""Turns of the loop for which an event waits for others to share its sync: an idle loop is through with them at once, a
busy one reads meanwhile what other connections bring."""
MAX_WAITING = 65_536
"""Appends that may wait for the disk; a further one fails. Far above what a boundary has in flight."""


@dataclass(slots=True)
class _Append(Item):
    """An event that somebody waits for."""

    waiter: asyncio.Future[Entry | None] = field(kw_only=True)


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
        guard: Guard | None = None,
        reserve: Reserve | None = None,
        chain: Chain | None = None,
        watched: Mapping[int, ProofBuilder] | None = None,
    ) -> None:
        """Go on behind ``chain`` (default: nothing), whose ``watched`` entries keep growing their proofs.

        ``guard`` decides what may be lost; without one a failure to write fails whoever waits for the event.
        ``reserve`` is the room kept for the end.
        """
        self.run = run
        # Owned by the loop: set when a batch is handed back, read by anybody there.
        self.size = chain.size if chain else 0
        """Entries that are durable and handed back."""
        self.head = (chain or Chain()).head
        """``hash`` of the last of them."""
        self.condition = Condition()
        """How the record is: whether events were lost, whether it can be written."""
        self.used_bytes = ledger.size
        """Size of the ledger in bytes, as far as it is durable."""
        self._on_batch: Callable[[Committed], None] | None = None
        self._observers: list[Callable[[Entry], None]] = []
        self._handed: list[_Append | _Task] = []
        self._waiting: set[asyncio.Future[Any]] = set()
        self._dead: LedgerError | None = None
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        # Owned by the thread from its start on: the loop reaches them by a task in the queue only.
        self._record = Record(
            run,
            ledger,
            notes,
            key=key,
            clock=clock,
            guard=guard or Guard("stop"),
            reserve=reserve,
            chain=chain or Chain(),
            watched=watched or {},
            committed=self._committed,
        )
        self._lock = lock
        # Shared: the queue locks itself, the clock only reads.
        self._queue: SimpleQueue[list[_Append | _Task] | None] = SimpleQueue()
        self._clock = clock
        self._thread = threading.Thread(target=self._main, name="docket-ledger", daemon=True)
        self._thread.start()

    @classmethod
    def create(
        cls,
        run: RunDirectory,
        *,
        key: SigningKey,
        clock: Clock,
        guard: Guard | None = None,
        reserve: Reserve | None = None,
        lock: Lock | None = None,
    ) -> LedgerWriter:
        """The writer of the new ledger of ``run``; ``key`` is the run key, which signs the checkpoints.

        ``lock`` is the run's where it was taken before.

        Raises LedgerLockedError if another process holds the run, LedgerWriteError if it has a ledger already.
        """
        lock = lock or Lock(run)
        try:
            ledger, notes = create_files(run)
        except LedgerError:
            lock.release()
            raise
        return cls(run, lock, ledger, notes, key=key, clock=clock, guard=guard, reserve=reserve)

    @classmethod
    def resume(
        cls,
        run: RunDirectory,
        lock: Lock,
        read: LedgerRead,
        *,
        key: SigningKey,
        clock: Clock,
        guard: Guard | None = None,
        reserve: Reserve | None = None,
    ) -> LedgerWriter:
        """The writer of a further session of ``run``, whose ``lock`` was taken before ``read`` was.

        Raises LedgerDamagedError where the ledger ends in a torn write, LedgerWriteError where it cannot be opened.
        """
        ledger, notes = reopen_files(run, read)
        return cls(
            run,
            lock,
            ledger,
            notes,
            key=key,
            clock=clock,
            guard=guard,
            reserve=reserve,
            chain=read.scan.chain,
            watched=read.scan.watched,
        )

    def observe(self, observer: Callable[[Entry], None]) -> None:
        """Call ``observer`` on the event loop with every entry from now on, in order, once it is durable."""
        self._observers.append(observer)

    def observe_batches(self, observer: Callable[[Committed], None]) -> None:
        """Call ``observer`` on the event loop with what became of each batch: what was written, lost, and its size."""
        self._on_batch = observer

    @property
    def writable(self) -> bool:
        """Whether everything so far could be written."""
        return self._dead is None and self.condition.writable

    @property
    def unwritten(self) -> int:
        """Events that could not be made durable."""
        return self.condition.evidence.unwritten_events

    @property
    def intact(self) -> bool:
        """Whether nothing of the record was found changed by another hand so far."""
        return self.condition.evidence.intact

    def free_bytes(self) -> int | None:
        """Free bytes of the volume that holds the ledger; None where it cannot be asked."""
        try:
            return self.run.disk.free_bytes(self.run.fd)
        except OSError:
            return None

    async def append(self, event: Event) -> Entry | None:
        """Record ``event``; returns when it is on stable storage. A cancelled append still counts as written.

        None where it could not be written and the run goes on all the same: it is lost, counted, and told of by a
        gap event. Raises FormatError where the event has no canonical form or its line would be too long,
        LedgerWriteError where the run must stop.
        """
        return await self.submit(event)

    def submit(self, event: Event, *, watch: bool = False, alone: bool = False) -> asyncio.Future[Entry | None]:
        """Take ``event`` now, in the order of the calls; the future is done when it is on stable storage.

        ``alone`` says that nothing else is likely to come now, so that waiting for company would only cost time.
        Raises FormatError where the event has no canonical form, LedgerWriteError where the ledger takes nothing more;
        the future fails as ``append`` does.
        """
        waiter: asyncio.Future[Entry | None] = self._loop.create_future()
        self._hand_over(_Append(draft(event), watch, waiter=waiter), alone)
        return waiter

    async def append_watched(self, event: Event) -> Entry | None:
        """As ``append``, and keep growing the inclusion proof of the entry (``Position.proofs``)."""
        return await self.submit(event, watch=True)

    async def checkpoint(self) -> Position:
        """Sign what is durable, and say what that is. The first one is awaited before the agent starts.

        Raises LedgerWriteError where the note could not be made durable.
        """
        return await self._do(self._record.position)

    async def release_reserve(self) -> None:
        """Give back the room that was kept for the end. Raises LedgerWriteError where the writer has ended."""
        await self._do(self._record.release_reserve)

    async def memory(self) -> Position:
        """Say what is durable, under a note that stands in no file: for a receipt that is written elsewhere."""
        return await self._do(self._record.memory)

    async def compare(self) -> tuple[str, ...]:
        """Compare all files with what was written, byte for byte; what was ever found different, none if intact."""
        await self._do(lambda: self._record.compare(whole=True))
        return tuple(self._record.differences)

    async def close(self) -> None:
        """Write what is waiting, end the thread, release the lock. Harmless when called twice."""
        if not self._ended.done():
            self._wake()
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    async def _do(self, work: Callable[[], T]) -> T:
        waiter: asyncio.Future[T] = self._loop.create_future()
        self._hand_over(_Task(work, waiter))
        return await waiter

    def _hand_over(self, item: _Append | _Task, alone: bool = False) -> None:
        if self._dead is not None:
            raise self._dead
        if len(self._waiting) >= MAX_WAITING:
            raise LedgerWriteError(f"{MAX_WAITING} events wait for the disk")
        if alone and not self._waiting:
            self._waiting.add(item.waiter)
            self._queue.put([item])
            return
        self._waiting.add(item.waiter)
        self._handed.append(item)
        if len(self._handed) == 1:
            self._loop.call_soon(self._gather, TURNS)

    def _gather(self, turns: int) -> None:
        """Hand over what came in during a few turns of the loop at once: the two threads take turns on one interpreter,
        so that waking the other for every event costs more than the event.
        """
        if turns:
            self._loop.call_soon(self._gather, turns - 1)
        else:
            self._wake()

    def _wake(self) -> None:
        if self._handed:
            handed, self._handed = self._handed, []
            self._queue.put(handed)

    # ── on the event loop, called by the thread ──

    def _hand_back(self, committed: Committed) -> None:
        self.condition, self.used_bytes = committed.condition, committed.used
        entries = []
        for item in committed.items:
            if item.entry is not None:
                entries.append(item.entry)
        if entries:
            self.size, self.head = entries[-1].seq + 1, entries[-1].hash
            for observer in self._observers:
                if len(entries) == 1:
                    self._loop.call_soon(observer, entries[0])
                else:
                    self._loop.call_soon(self._show, observer, iter(entries))
        for item in committed.items:
            if not isinstance(item, _Append):
                continue
            waiter = item.waiter
            if item.entry is None or waiter.done():
                self._resolve(waiter, item.entry, item.error if item.entry is None else None)
            else:
                self._waiting.discard(waiter)
                waiter.set_result(item.entry)
        if self._on_batch is not None and self._dead is None:
            self._on_batch(committed)

    def _show(self, observer: Callable[[Entry], None], entries: Iterator[Entry]) -> None:
        """Show ``entries`` to ``observer``; one at which it raises takes nothing from those after it."""
        try:
            for entry in entries:
                observer(entry)
        finally:
            rest = list(entries)
            if rest:
                self._loop.call_soon(self._show, observer, iter(rest))

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
        # A signal goes to any thread that lets it through, and acts on the process; those are for the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._work()
            error = None
        except LedgerError as failure:
            error = failure
        finally:
            self._record.close()
            self._lock.release()
            self._call(self._end, error)

    def _work(self) -> None:
        while True:
            items, last = self._take()
            batch: list[Item] = []
            weight = 0
            for item in items:
                if isinstance(item, _Task):
                    self._record.commit(batch)
                    batch, weight = [], 0
                    self._call(self._resolve, item.waiter, item.work(), None)
                    self._record.commit(batch)  # and the time is what it is now
                    continue
                weight += item.draft.weight
                if weight > MAX_BATCH:
                    self._record.commit(batch)
                    batch, weight = [], item.draft.weight
                batch.append(item)
            self._record.commit(batch, weight)
            if last:
                return
            if self._record.note_due:
                self._record.checkpoint()

    def _take(self) -> tuple[list[_Append | _Task], bool]:
        """What waits, and whether the end was asked for; waits for the first, but not past a due checkpoint."""
        due_us = self._record.due_us
        timeout = None if due_us is None else max(0, due_us - self._record.now_us) / 1e6
        queue = self._queue
        try:
            handed = queue.get(timeout=timeout)
        except Empty:
            return [], False
        items: list[_Append | _Task] = []
        while handed is not None:
            items += handed
            if len(items) >= MAX_BATCH_EVENTS or queue.empty():  # nobody else takes from it
                return items, False
            handed = queue.get_nowait()
        return items, True

    def _committed(self, committed: Committed) -> None:
        with suppress(RuntimeError):  # as in ``_call``
            self._loop.call_soon_threadsafe(self._hand_back, committed)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)
