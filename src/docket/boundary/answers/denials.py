"""Refusals on their way to the record and to the agent.

Invariant: a refusal is recorded before it is answered (repeats within a second by their sum), whatever it is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from docket.boundary.answers.coalesce import Coalescer
from docket.boundary.answers.refusals import Answer, bad_request, refusal
from docket.control.decision import Refused
from docket.ledger.events import CapExceeded, CarriageCode, Event, ModelDenied, Unauthorized


class Answerable(Protocol):
    """Takes an answer of docket's own."""

    async def refuse(self, answer: Answer) -> None: ...


class Denials:
    """Records and answers what is not forwarded. ``number`` is the docket number."""

    def __init__(
        self, submit: Callable[[Event], asyncio.Future[object]], number: str, on_breach: Callable[[CapExceeded], None]
    ) -> None:
        self._submit = submit
        self._sums = Coalescer(submit)
        self._number = number
        self._on_breach = on_breach

    async def deny(
        self, refused: Refused, client: Answerable, family: str, upstream: str, model: str | None = None
    ) -> None:
        """Refuse a call. Raises ClientGoneError, LedgerError."""
        await self._note(refused, upstream, model)
        try:
            await client.refuse(refusal(refused, family, self._number))
        finally:
            for breach in refused.breaches:
                self._on_breach(breach)

    async def turn_away(
        self,
        status: int,
        code: CarriageCode,
        message: str,
        client: Answerable,
        *,
        family: str = "",
        upstream: str | None = None,
        close: bool = False,
    ) -> None:
        """Refuse what cannot be carried at all; 429 is temporary. Raises ClientGoneError, LedgerError."""
        await self._note(Refused(code=code, message=message, retry_after=1 if status == 429 else None), upstream, None)
        await client.refuse(self.bad(status, code, message, family, close=close))

    def bad(self, status: int, code: str, message: str, family: str = "", *, close: bool = False) -> Answer:
        """An answer that is not worth a record."""
        return bad_request(status, code, f"docket: {message}", family, self._number, close=close)

    async def unauthorized(self) -> None:
        """Record a request without the run's token. Raises LedgerError."""
        await self._sums.note("unauthorized", lambda count: (Unauthorized(count=count),))

    def left(self, upstream: str, model: str) -> None:
        """Count a call whose client left before it was decided. Does not yield. Raises LedgerError."""
        code: CarriageCode = "client_gone"

        def events(count: int) -> tuple[Event, ...]:
            return (ModelDenied(code=code, final=False, count=count, upstream=upstream, model=model),)

        self._sums.note_later((code, upstream, model), events)

    async def no_room(self, count: int) -> None:
        """Record that ``count`` connections were turned away unread. Raises LedgerError."""
        code: CarriageCode = "too_many_connections"
        await self._submit(ModelDenied(code=code, final=False, count=count, retry_after=1))

    async def _note(self, refused: Refused, upstream: str | None, model: str | None) -> None:
        def events(count: int) -> tuple[Event, ...]:
            denied = ModelDenied(
                code=refused.code,
                final=refused.final,
                count=count,
                retry_after=refused.retry_after,
                estimated=refused.estimated or None,
                upstream=upstream,
                model=model,
            )
            return (denied,) if refused.limited is None else (denied, replace(refused.limited, count=count))

        await self._sums.note((refused.code, refused.final, upstream, model), events, *refused.breaches)

    async def close(self) -> None:
        """Record what is still being summed, durably."""
        await self._sums.close()
