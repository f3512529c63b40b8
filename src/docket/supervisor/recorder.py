"""The ledger as the rest of a run sees it: submit events, and learn at once when the record breaks or is full.

Invariant: the first failure to make an event durable is reported exactly once, whoever submitted it; so are the first
event that was lost where the run goes on, and the ceiling that the ledger met. Decides nothing: ``control.evidence``
does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from docket.control.decision import Refused
from docket.control.evidence import Ceilings, ceiling_met, refusal_of
from docket.errors import LedgerError, LedgerWriteError
from docket.ledger.chain import Entry
from docket.ledger.events import CapExceeded, Event, ModelError, ModelRequest, ModelResponse
from docket.policy.resilience import WriteFailure
from docket.storage.record import Committed
from docket.storage.writer import LedgerWriter

_OPENS = {ModelRequest.type: 1, ModelResponse.type: -1, ModelError.type: -1}


class Listener(Protocol):
    """Who acts on what befalls the record."""

    def evidence_broke(self, error: LedgerError) -> None:
        """The ledger takes nothing more."""
        ...

    def evidence_lost(self) -> None:
        """A first event is lost, and the run goes on."""
        ...

    def full(self, met: CapExceeded) -> None:
        """The ledger has met a ceiling of the policy."""
        ...


class RunRecorder:
    """Hands events to the writer of one run. Used from the event loop alone."""

    def __init__(self, writer: LedgerWriter, mode: WriteFailure, ceilings: Ceilings, listener: Listener) -> None:
        self._writer = writer
        self._mode = mode
        self._ceilings = ceilings
        self._limited = ceilings.max_bytes is not None or ceilings.max_events is not None
        self._listener = listener
        self._open_calls = 0
        self._lost = False
        self.broken: LedgerError | None = None
        """Why the ledger takes nothing more."""
        self.met: CapExceeded | None = None
        """The ceiling that the ledger has met, if it has."""
        self.on_sync: Callable[[int], None] | None = None
        """Is told how many microseconds each batch took to become durable."""
        writer.observe_batches(self._committed)

    def submit(self, event: Event, *, watch: bool = False) -> asyncio.Future[Entry | None]:
        """Take ``event`` now; the future is done when it is on stable storage. Raises as ``LedgerWriter.submit``."""
        try:
            future = self._writer.submit(event, watch=watch, alone=self._open_calls <= 1)
        except LedgerError as error:
            self._broke(error)
            raise
        future.add_done_callback(self._look)
        return future

    async def append(self, event: Event) -> Entry | None:
        """As ``submit``; return once the event is durable: its entry, or None where it is lost."""
        return await self.submit(event)

    def refusal(self, *, lost: bool = False) -> Refused | None:
        """Return why no model call may be forwarded as the record stands, if none may.

        ``lost``: the request of the call in question could not be recorded.
        """
        condition = self._writer.condition
        if self.met is None and not lost and condition.writable and not condition.evidence.write_failures:
            return None  # by every mode
        return refusal_of(self._mode, condition, self.met, lost=lost)

    def _committed(self, committed: Committed) -> None:
        for item in committed.items:
            if item.entry is not None:
                self._open_calls += _OPENS.get(item.entry.type, 0)
        if committed.items and self.on_sync is not None:
            self.on_sync(committed.took_us)
        if self._mode == "stop" and committed.condition.evidence.write_failures:
            causes = [item.error for item in committed.items if isinstance(item.error, LedgerError)]
            self._broke(causes[0] if causes else LedgerWriteError("a checkpoint could not be written"))
        if self.met is not None or not self._limited:
            return
        used, events = self._writer.used_bytes, self._writer.size
        self.met = ceiling_met(self._ceilings, used=used, events=events, open_calls=self._open_calls)
        if self.met is not None:
            self.submit(self.met)
            self._listener.full(self.met)

    def _look(self, future: asyncio.Future[Entry | None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, LedgerError):
            self._broke(error)
        elif (error is not None or future.result() is None) and not self._lost:
            self._lost = True
            self._listener.evidence_lost()

    def _broke(self, error: LedgerError) -> None:
        if self.broken is None:
            self.broken = error
            self._listener.evidence_broke(error)
