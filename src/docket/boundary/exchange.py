"""One model call from admission to settlement: admit, record, forward, settle, record.

Invariants: nothing goes upstream before the ``model.request`` event is durable; the end of an answer is passed on only
after its end event is; every admitted call gets exactly one end event, whatever is cancelled where.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from docket.boundary.denials import Denials
from docket.boundary.headers import text
from docket.boundary.keeping import keep
from docket.boundary.refusals import Answer, upstream_failure
from docket.boundary.response import Informed, Outgoing
from docket.boundary.tee import Tee
from docket.boundary.wire import Framing, Header, ResponseHead, WireError
from docket.clock import Clock
from docket.control.breaker import Ended
from docket.control.decision import Admitted, Refused, Settlement
from docket.errors import ClientGoneError, UpstreamError
from docket.ledger.events import CallNumber, CapExceeded, Event, ModelError, ModelRequest, ModelResponse
from docket.primitives.canonical import Json
from docket.providers.call import Call, Observation
from docket.storage.blobs import Blobs
from docket.storage.guard import EventLostError


class Admission(Protocol):
    """Decides on calls. ``settle`` never waits: a cancelled call is booked in the step that records it."""

    async def admit(self, call: Call) -> Admitted | Refused:
        """A reservation (its number taken in the last step before this returns), or why not. May be cancelled."""
        ...

    def settle(self, admitted: Admitted, call: Call, ended: Ended, observation: Observation | None) -> Settlement: ...

    def release(self, admitted: Admitted) -> None:
        """Give back the reservation of a call that was never sent."""
        ...


class Recorder(Protocol):
    """Takes events in order."""

    def submit(self, event: Event) -> asyncio.Future[Any]:
        """Take ``event`` now; the future is done when it is on stable storage.

        It fails with EventLostError where the event is a request that must not be sent because it is not recorded.
        """
        ...

    def refusal(self) -> Refused | None:
        """Why no model call may be forwarded as the record stands, if none may."""
        ...


class Passing(Protocol):
    """An answer that comes in."""

    head: ResponseHead
    framing: Framing
    ended: bool
    trailers: tuple[Header, ...]

    @property
    def ready(self) -> bool: ...

    async def read(self) -> bytes: ...

    def read_ready(self) -> bytes: ...

    def close(self) -> None: ...


class Upstream(Protocol):
    """Reaches providers."""

    async def open(self, request: Outgoing, informed: Informed) -> Passing: ...


class Client(Protocol):
    """The agent's side."""

    @property
    def started(self) -> bool:
        """Whether the head of an answer went out."""
        ...

    def on_gone(self, listener: Callable[[], None] | None) -> None: ...

    async def informational(self, head: ResponseHead) -> None: ...

    def start(self, head: ResponseHead, framing: Framing) -> None: ...

    async def flush(self) -> None: ...

    async def write(self, data: bytes) -> None: ...

    async def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> None: ...

    async def refuse(self, answer: Answer) -> None: ...

    def cut(self) -> None: ...


@dataclass(slots=True)
class Carried:
    """How far an answer came. ``reason`` is None for one that came whole; ``held`` is its withheld last bytes."""

    response: Passing | None = None
    reason: str | None = None
    detail: str | None = None
    held: bytes = b""
    first_byte_us: int | None = None

    @property
    def head(self) -> ResponseHead | None:
        return self.response.head if self.response is not None else None


class Request(NamedTuple):
    """A call and what is sent for it; ``private`` stands in the ``model.request`` event."""

    call: Call
    outgoing: Outgoing
    private: dict[str, Json]
    amended: bool = False


class Leaving:
    """A block that ends with ClientGoneError when the agent leaves; a cancellation for another reason stays one."""

    __slots__ = ("_among", "_client", "_fired", "_task")

    def __init__(self, client: Client, among: set[Leaving]) -> None:
        """``among`` holds every such block while it runs."""
        self._client = client
        self._among = among
        self._fired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._among.add(self)
        self._client.on_gone(self.leave)

    def leave(self) -> None:
        """End the block, as when the agent leaves."""
        self._fired = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        self._client.on_gone(None)
        self._among.discard(self)
        if self._fired and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ClientGoneError("the agent left while its call was under way") from error


async def carry(
    upstream: Upstream,
    outgoing: Outgoing,
    client: Client,
    tee: Tee,
    clock: Clock,
    since: int,
    among: set[Leaving] | None = None,
) -> Carried:
    """Forward one request and pass its answer on, up to its withheld end. Expected failures are values.

    Whoever calls ``leave`` on what then stands in ``among`` ends it as if the agent had left.
    """
    carried = Carried()
    try:
        with Leaving(client, set() if among is None else among):
            await _pass(upstream, outgoing, client, tee, carried, clock, since)
    except (ClientGoneError, WireError):
        carried.reason = "client-gone"
    except UpstreamError as error:
        carried.reason, carried.detail = error.reason, str(error)
    finally:
        if carried.reason is not None and carried.response is not None:
            carried.response.close()
    return carried


async def _pass(
    upstream: Upstream, outgoing: Outgoing, client: Client, tee: Tee, carried: Carried, clock: Clock, since: int
) -> None:
    response = carried.response = await upstream.open(outgoing, client.informational)
    carried.first_byte_us = clock.monotonic_us() - since
    tee.begin(response.head)
    client.start(response.head, response.framing)
    while not response.ended:
        if not response.ready:
            await client.flush()
        data = await response.read()
        tee.feed(data)
        if response.ended or tee.saw_end:
            carried.held = data
            break
        await client.write(data)
    while not response.ended and (data := response.read_ready()):
        tee.feed(data)
        carried.held += data


async def finish(carried: Carried, client: Client, family: str, docket: str) -> None:
    """Let the agent see how its call ended, a failure in the error shape of ``family``. Raises ClientGoneError."""
    response = carried.response
    if carried.reason is None and response is not None:
        await _release(carried.held, response, client)
    elif carried.reason == "client-gone" or client.started:
        client.cut()
    else:
        reason = carried.reason or "connect"
        status = 504 if reason == "timeout" else 502
        await client.refuse(upstream_failure(status, reason, carried.detail or "no answer", family, docket))


async def _release(held: bytes, response: Passing, client: Client) -> None:
    """Pass on the withheld end, then whatever the upstream still sends after its terminal event."""
    try:
        if not response.ended:
            if held:
                await client.write(held)
            held = b""
            client.on_gone(response.close)
            while not response.ended:
                data = await response.read()
                if data:
                    await client.write(data)
    except UpstreamError:
        client.cut()
        return
    finally:
        client.on_gone(None)
        response.close()
    await client.end(held, response.trailers)


@dataclass(frozen=True, slots=True)
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
        decision = self._recorder.refusal() or await self._admit(request.call, client)
        if isinstance(decision, Refused):
            await self.deny(request.call, decision, client)
            return None
        admitted, since = decision, self._clock.monotonic_us()
        carried, body, lost = Carried(reason="client-gone"), None, None
        try:
            await self._record(*admitted.events, _requested(request, admitted))
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

    async def _admit(self, call: Call, client: Client) -> Admitted | Refused:
        with Leaving(client, set()):
            return await self._admission.admit(call)

    async def deny(self, call: Call, refused: Refused, client: Client) -> None:
        """Record a refusal, then answer it. Raises ClientGoneError, LedgerError."""
        await self._denials.deny(refused, client, family=call.endpoint.family, upstream=call.upstream, model=call.model)

    def _record(self, *events: Event) -> asyncio.Future[object]:
        """Submit ``events`` in order; done when all are durable, and so when the last one is."""
        durable = [self._recorder.submit(event) for event in events]
        return durable[0] if len(durable) == 1 else cast("asyncio.Future[object]", asyncio.gather(*durable))

    def _settle(
        self, call: Call, admitted: Admitted, carried: Carried, tee: Tee, since: int, body: Json
    ) -> tuple[Settlement, Ended, asyncio.Future[object]]:
        """Book a call and submit its end event, in one step that nothing can cut in two."""
        seen = tee.finish(clean=carried.reason is None)
        head = carried.head
        ended = Ended(
            reason=_reason(carried, seen),
            status=head.status if head is not None else None,
            error_type=seen.error_type if seen is not None else None,
            retry_after=head is not None and head.first(b"retry-after") is not None,
        )
        settlement = self._admission.settle(admitted, call, ended, seen)
        kind = ModelResponse if ended.reason in ("complete", "incomplete", "unterminated") else ModelError
        private: dict[str, Json] = {}
        if head is not None:
            private["response_sha256"] = tee.sha256
        if body is not None:
            private["body"] = body
        if carried.detail:
            private["detail"] = carried.detail
        event = kind(
            call=admitted.call,
            status=ended.status,
            reason=ended.reason,
            provider=call.provider,
            model=settlement.model,
            tier=settlement.tier,
            finish=_finish(seen),
            provider_request_id=_request_id(head),
            bytes=tee.size if head is not None else None,
            first_byte_us=carried.first_byte_us,
            duration_us=self._clock.monotonic_us() - since,
            usage=settlement.usage,
            private=private,
        )
        later = (*settlement.warnings, *settlement.breaches, *settlement.events)
        return settlement, ended, self._record(event, *later)


def _requested(request: Request, admitted: Admitted) -> ModelRequest:
    call = request.call
    return ModelRequest(
        call=admitted.call,
        upstream=call.upstream,
        provider=call.provider,
        protocol=call.endpoint.protocol,
        endpoint=call.endpoint.name,
        model=call.model,
        stream=call.stream,
        bytes=call.body_bytes,
        hold=admitted.hold,
        waited_us=admitted.waited_us,
        max_output=call.max_output,
        amended=request.amended or None,
        retry_count=call.retry_count,
        private=request.private,
    )


def _reason(carried: Carried, seen: Observation | None) -> str:
    """The ``reason`` of the end event (evidence format section 2)."""
    if carried.reason is not None:
        return carried.reason
    head = carried.head
    if head is None or not 200 <= head.status < 300:
        return "status"
    if seen is None:
        return "complete"
    return "error-event" if seen.terminal == "error" else seen.terminal


def _finish(seen: Observation | None) -> str | None:
    """Why the model stopped, in the provider's word; ``none`` where an answer with content ended without any."""
    if seen is None:
        return None
    return seen.finish or ("none" if seen.terminal == "unterminated" else None)


def _request_id(head: ResponseHead | None) -> str | None:
    if head is None:
        return None
    return text(head.first(b"request-id") or head.first(b"x-request-id"))
