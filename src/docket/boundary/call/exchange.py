"""One model call from admission to settlement: admit, record, forward, settle, record.

Invariants: nothing goes upstream before the ``model.request`` event is durable; the end of an answer is passed on only
after its end event is; every admitted call gets exactly one end event, whatever is cancelled where.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from docket.boundary.answers.denials import Denials
from docket.boundary.call.answer_relay import Carried, Leaving, carry, finish
from docket.boundary.call.call_events import Measured, ending, reason_of, requested
from docket.boundary.call.ports import Admission, Client, Recorder, Upstream
from docket.boundary.call.recorded_bodies import keep
from docket.boundary.call.tee import Tee
from docket.boundary.http1.headers import text
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.wire import ResponseHead
from docket.clock import Clock
from docket.control.breaker import Ended
from docket.control.decision import Admitted, Refused, Settlement
from docket.ledger.events import CallNumber, CapExceeded, Event
from docket.primitives.canonical import Json
from docket.primitives.frozen import value
from docket.providers.call import Call, Observation
from docket.storage.blobs import Blobs
from docket.storage.guard import EventLostError


@value
class Request:
    """A call and what is sent for it; ``private`` stands in the ``model.request`` event."""

    call: Call
    outgoing: Outgoing
    private: dict[str, Json]
    amended: bool = False


@value
class Handled:
    """An admitted call that has ended."""

    call: CallNumber
    ended: Ended
    settlement: Settlement

    @property
    def whole(self) -> bool:
        """Whether the provider answered it to the end, with success."""
        return self.ended.reason in ("complete", "incomplete") and self.ended.status is not None


class Carrier(Protocol):
    """Carries or refuses model calls."""

    async def handle(self, request: Request, client: Client, tee: Tee) -> Handled | None: ...

    async def deny(self, call: Call, refused: Refused, client: Client) -> None: ...


class Exchange:
    """Carries model calls of one run."""

    def __init__(
        self,
        *,
        admission: Admission,
        recorder: Recorder,
        upstream: Upstream,
        clock: Clock,
        denials: Denials,
        docket: str,
        on_breach: Callable[[CapExceeded], None],
        blobs: Blobs | None = None,
    ) -> None:
        """``blobs`` takes what tees keep of answers."""
        self._admission = admission
        self._recorder = recorder
        self._upstream = upstream
        self._clock = clock
        self._denials = denials
        self._docket = docket
        self._on_breach = on_breach
        self._blobs = blobs
        self._under_way: set[Leaving] = set()
        self._cut: str | None = None

    def cut(self, why: str) -> None:
        """Cut every answer under way, from now on for ever: each call is recorded as truncated for this reason."""
        self._cut = why
        for block in tuple(self._under_way):
            block.leave()

    async def handle(self, request: Request, client: Client, tee: Tee) -> Handled | None:
        """Carry one call; gives what became of it, or None where it was refused.

        Raises ClientGoneError after everything is recorded, LedgerError where it cannot be.
        """
        decision = self._recorder.refusal() or self._admission.at_once(request.call)
        if decision is None:
            with Leaving(client, set()):
                decision = await self._admission.admit(request.call)
        if isinstance(decision, Refused):
            await self.deny(request.call, decision, client)
            return None
        admitted, since = decision, self._clock.monotonic_us()
        carried, body, lost = Carried(None, "client-gone"), None, None
        try:
            size, private = request.call.body_bytes, request.private
            event = requested(request.call, admitted, size=size, private=private, amended=request.amended)
            await self._record(*admitted.events, event)
            carried = await carry(self._upstream, request.outgoing, client, tee, self._clock, since, self._under_way)
            if carried.reason == "client-gone" and self._cut is not None:
                carried.reason, carried.detail = "truncated", self._cut
            if self._blobs is not None and tee.kept:
                body = await keep(self._blobs, tee.kept, tee.size)
        except EventLostError as error:
            lost = error.refused
        finally:
            if lost is None:
                settlement, ended, recorded = self._settle(request.call, admitted, carried, tee, since, body)
        if lost is not None:
            self._admission.release(admitted)
            await self.deny(request.call, lost, client)
            return None
        await recorded
        try:
            await finish(carried, client, request.call.endpoint.family, self._docket)
        finally:
            for breach in settlement.breaches:
                self._on_breach(breach)
        return Handled(admitted.call, ended, settlement)

    async def deny(self, call: Call, refused: Refused, client: Client) -> None:
        """Record a refusal, then answer it. Raises ClientGoneError, LedgerError."""
        await self._denials.deny(refused, client, family=call.endpoint.family, upstream=call.upstream, model=call.model)

    def _record(self, *events: Event) -> asyncio.Future[object]:
        """Submit ``events`` in order; done when all are durable, and so when the last one is."""
        if len(events) == 1:
            return self._recorder.submit(events[0])
        return cast("asyncio.Future[object]", asyncio.gather(*[self._recorder.submit(event) for event in events]))

    def _settle(
        self, call: Call, admitted: Admitted, carried: Carried, tee: Tee, since: int, body: Json
    ) -> tuple[Settlement, Ended, asyncio.Future[object]]:
        """Book a call and submit its end event, in one step that nothing can cut in two."""
        seen = tee.finish(clean=carried.reason is None)
        head = carried.head
        ended = Ended(
            carried.reason or _reason(head, seen),
            head.status if head is not None else None,
            seen.error_type if seen is not None else None,
            head is not None and b"retry-after" in head,
        )
        settlement = self._admission.settle(admitted, call, ended, seen)
        private: dict[str, Json] = {}
        if head is not None:
            private["response_sha256"] = tee.sha256
        if body is not None:
            private["body"] = body
        if carried.detail:
            private["detail"] = carried.detail
        size = tee.size if head is not None else None
        took_us = self._clock.monotonic_us() - since
        measured = Measured(size, carried.first_byte_us, took_us)
        event = ending(
            call,
            admitted,
            ended,
            settlement,
            seen,
            measured,
            private=private,
            provider_request_id=_request_id(head),
        )
        later = (*settlement.warnings, *settlement.breaches, *settlement.events)
        return settlement, ended, self._record(event, *later)


def _reason(head: ResponseHead | None, seen: Observation | None) -> str:
    """The ``reason`` of the end event of a call whose answer came whole (evidence format section 2)."""
    if head is None or not 200 <= head.status < 300:
        return "status"
    return reason_of(seen)


def _request_id(head: ResponseHead | None) -> str | None:
    if head is None:
        return None
    return text(head.first(b"request-id") or head.first(b"x-request-id"))
