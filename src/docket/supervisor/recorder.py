"""The ledger as the rest of a run sees it: submit events, and learn at once when the record breaks.

Invariant: the first failure to make an event durable is reported exactly once, whoever submitted it; so is the first
event that was lost where the run goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from docket.control.decision import Refused
from docket.errors import LedgerError
from docket.ledger.chain import Entry
from docket.ledger.events import Event
from docket.storage.guard import EventLostError
from docket.storage.writer import LedgerWriter


class RunRecorder:
    """Hands events to the writer."""

    def __init__(
        self, writer: LedgerWriter, on_broken: Callable[[LedgerError], None], on_lost: Callable[[], None]
    ) -> None:
        self._writer = writer
        self._on_broken = on_broken
        self._on_lost = on_lost
        self._lost = False
        self.broken: LedgerError | None = None
        """Why the ledger takes nothing more."""

    def submit(self, event: Event) -> asyncio.Future[Entry | None]:
        """Take ``event`` now; the future is done when it is on stable storage. Raises as ``LedgerWriter.submit``."""
        try:
            future = self._writer.submit(event)
        except LedgerError as error:
            self._broke(error)
            raise
        future.add_done_callback(self._look)
        return future

    async def append(self, event: Event) -> Entry | None:
        """As ``submit``; returns when the event is durable."""
        return await self.submit(event)

    def refusal(self) -> Refused | None:
        """Why no model call may be forwarded as the record stands, if none may."""
        return self._writer.refusal()

    def _look(self, future: asyncio.Future[Entry | None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, LedgerError) and not isinstance(error, EventLostError):
            self._broke(error)
        elif (error is not None or future.result() is None) and not self._lost:
            self._lost = True
            self._on_lost()

    def _broke(self, error: LedgerError) -> None:
        if self.broken is None:
            self.broken = error
            self._on_broken(error)
