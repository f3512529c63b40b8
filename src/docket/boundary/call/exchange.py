"""Model calls over HTTP: an open call around an answer on its way.

Invariants: nothing goes upstream before the ``model.request`` event is durable; the end of an answer is passed on only
after its end event is.
"""

from __future__ import annotations

from typing import Protocol

from docket.boundary.call.answer_relay import AnswerRelay
from docket.boundary.call.background import BackgroundAnswers
from docket.boundary.call.desk import Desk
from docket.boundary.call.open_call import OpenCall
from docket.boundary.call.ports import Client, Upstream
from docket.boundary.call.recorded_bodies import record_body
from docket.boundary.call.tee import Tee
from docket.boundary.http1.response import Outgoing
from docket.control.decision import Refused
from docket.ledger.events import CallNumber
from docket.primitives.canonical import Json
from docket.primitives.frozen import value
from docket.providers.call import Call


@value
class Request:
    """A call and what is sent for it; ``private`` stands in the ``model.request`` event."""

    call: Call
    outgoing: Outgoing
    private: dict[str, Json]
    amended: bool = False
    of: CallNumber | None = None
    """The first attempt, of which this call is another."""


class Handler(Protocol):
    """Answers model calls."""

    async def handle(self, request: Request, client: Client, tee: Tee) -> OpenCall | Refused | None: ...


class Exchange:
    """Carries the model calls of one run."""

    def __init__(self, desk: Desk, upstream: Upstream, background: BackgroundAnswers | None = None) -> None:
        """``background`` takes the calls whose answers come later."""
        self._desk = desk
        self._upstream = upstream
        self._background = background or BackgroundAnswers()

    async def handle(self, request: Request, client: Client, tee: Tee, *, deny: bool = True) -> OpenCall | Refused:
        """Carry one call. Return it once it has ended, or goes on in the background; or why it was refused.

        Without ``deny`` a refusal is neither recorded nor answered yet. Raises ClientGoneError after everything is
        recorded, LedgerError where it cannot be.
        """
        desk, call = self._desk, request.call
        relay = AnswerRelay(desk, client, tee)
        async with OpenCall(desk, call, request.private, relay, client, request.amended, request.of) as begun:
            if isinstance(begun, Refused):
                if deny:
                    await self.deny(request, begun, client)
                return begun
            await relay.carry(self._upstream, request.outgoing, desk.under_way)
            if desk.blobs is not None and tee.recorded:
                relay.body = await record_body(desk.blobs, tee.recorded, tee.size)
            later = self._background.keep(call, begun, relay) if call.background else None
            await (later or begun.end())
            await relay.finish(call.endpoint.family)
        return begun

    async def deny(self, request: Request, refused: Refused, client: Client) -> None:
        """Record and answer the refusal of a call. Raises ClientGoneError, LedgerError."""
        call = request.call
        await self._desk.denials.deny(refused, client, call.endpoint.family, call.upstream, call.model)
