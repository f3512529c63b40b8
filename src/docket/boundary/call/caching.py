"""The response cache at the boundary: copies what a client was sent, and sends it again.

Invariant: an answer is stored only when it came whole, by a 2xx, from the provider; nothing is stored in a drill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from docket.boundary.call.client_wrapper import ClientWrapper
from docket.boundary.call.desk import Desk
from docket.boundary.call.exchange import Handler, Request
from docket.boundary.call.open_call import OpenCall
from docket.boundary.call.ports import Client
from docket.boundary.call.tee import Tee
from docket.boundary.http1.body import WholeBody
from docket.boundary.http1.coding import content_codings
from docket.boundary.http1.wire import CHUNKED, Framing, Header, ResponseHead
from docket.control.decision import Refused
from docket.control.response_cache import MAX_ANSWER, Entry, Exhausted, ResponseCache, request_key
from docket.ledger.events import CallNumber, ModelCacheHit, Note
from docket.primitives.instant import Instant
from docket.providers.call import Call, EndpointClass


@dataclass(frozen=True, slots=True)
class Copied:
    """A whole answer as a client was sent it."""

    head: ResponseHead
    body: bytes
    streamed: bool

    async def send(self, client: Client) -> None:
        """Send it again, in the framing it had. Raises ClientGoneError."""
        client.start(self.head, CHUNKED if self.streamed else Framing("sized", len(self.body)))
        await client.end(self.body)


AnswerCache = ResponseCache[Copied]


class Numbers(Protocol):
    """What the gate says of a call that costs nothing."""

    def barred(self, call: Call) -> Refused | None:
        """Why even a call for nothing is refused: its model, or a cap that was reached."""
        ...

    def number(self) -> CallNumber:
        """The next call number."""
        ...


class CachingExchange:
    """Answers calls from earlier ones of the run, and has ``exchange`` carry the others."""

    def __init__(self, desk: Desk, exchange: Handler, cache: AnswerCache, numbers: Numbers) -> None:
        """``numbers`` says which calls may be answered for nothing, and numbers them."""
        self._desk = desk
        self._exchange = exchange
        self._cache = cache
        self._numbers = numbers

    async def handle(self, request: Request, client: Client, tee: Tee) -> OpenCall | Refused | None:
        """Carry one call or answer it again. Raises what the exchange raises."""
        key = _key_of(request)
        if key is None:
            return await self._exchange.handle(request, client, tee)
        if self._desk.recorder.refusal() is None and self._numbers.barred(request.call) is None:
            found = self._cache.find(key, self._now())
            if isinstance(found, Entry):
                await self._again(request, found, client)
                return None
            if isinstance(found, Exhausted) and found.first:
                self._desk.recorder.submit(Note(by="boundary", private={"text": _exhausted(found.origin)}))
        copying = CopyingClient(client)
        handled = await self._exchange.handle(request, copying, tee)
        if isinstance(handled, OpenCall):
            copying.store(self._cache, key, handled, self._now())
        return handled

    async def _again(self, request: Request, entry: Entry[Copied], client: Client) -> None:
        hit = ModelCacheHit(
            call=self._numbers.number(), origin=entry.origin, saved_usd=entry.cost_usd, private=request.private
        )
        await self._desk.recorder.submit(hit)
        await entry.answer.send(client)

    def _now(self) -> Instant:
        return Instant(self._desk.clock.monotonic_us())


def _exhausted(origin: CallNumber) -> str:
    return f"the answer of call {origin} was given max_hits times; calls like it go to the provider again"


def _key_of(request: Request) -> bytes | None:
    """The digest of an identical request; the credential and the content codings it accepts are part of it."""
    head, call, body = request.outgoing.head, request.call, request.outgoing.body
    if call.endpoint.kind is not EndpointClass.METERED or not isinstance(body, WholeBody) or content_codings(head):
        return None
    return request_key(
        body.content(),
        method=head.method,
        upstream=call.upstream.encode(),
        target=request.outgoing.target,
        accepts=b",".join(head.values(b"accept-encoding")),
        credential=(call.credential or "").encode(),
    )


class CopyingClient(ClientWrapper):
    """Stands before a client and copies what it is sent, up to a bound."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._head: ResponseHead | None = None
        self._streamed = False
        self._pieces: list[bytes] | None = []
        self._size = 0
        self._ended = False

    def store(self, cache: AnswerCache, key: bytes, handled: OpenCall, now: Instant) -> None:
        """Store the answer that this client was sent, if it was a whole one of the provider's."""
        if self._head is None or self._pieces is None or not self._ended or not handled.whole:
            return
        copied = Copied(self._head, b"".join(self._pieces), self._streamed)
        cost = handled.settlement.usage.cost_usd if handled.settlement.usage is not None else None
        cache.keep(key, Entry(origin=handled.number, answer=copied, size=self._size, stored=now, cost_usd=cost))

    def start(self, head: ResponseHead, framing: Framing) -> None:
        self._head, self._streamed = head, framing.kind != "sized"
        self._client.start(head, framing)

    async def write(self, data: bytes) -> None:
        self._copy(data)
        await self._client.write(data)

    async def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> None:
        self._copy(last)
        self._ended = not trailers
        await self._client.end(last, trailers)

    def _copy(self, data: bytes) -> None:
        self._size += len(data)
        if self._pieces is not None:
            if self._size > MAX_ANSWER:
                self._pieces = None
            else:
                self._pieces.append(data)
