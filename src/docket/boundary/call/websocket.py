"""The Responses API over a WebSocket: messages are relayed unchanged, and each ``response.create`` is a call.

Invariants as for any call: nothing goes upstream before its ``model.request`` event is durable; the message that ends a
response is passed on only after its end event is; every admitted call gets exactly one end event. One response is under
way at a time, as the protocol has it; a further ``response.create`` waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

import orjson

from docket.boundary.answers.denials import Denials
from docket.boundary.answers.refusals import Answer
from docket.boundary.call.call_events import Measured, ending, reason_of, requested
from docket.boundary.call.credentials import fingerprint
from docket.boundary.call.ports import Admission, Recorder
from docket.boundary.call.redact import target as recordable
from docket.boundary.http1.agent_connection import Connection, RequestBody
from docket.boundary.http1.body import PassingBody
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.upstream import Upstreams
from docket.boundary.http1.upstream_connection import Link
from docket.boundary.http1.wire import RequestHead, ResponseHead, encode_response
from docket.boundary.routes import Route
from docket.clock import Clock
from docket.control.breaker import Ended
from docket.control.decision import Admitted, Refused
from docket.errors import ClientGoneError, FormatError, LedgerError, UpstreamError
from docket.ledger.events import CapExceeded, Forwarded, ModelRequest
from docket.primitives.canonical import Json
from docket.primitives.frames import CONTROL, TEXT, Message, MessageReader, encode_message
from docket.providers import registry
from docket.providers.base import Observer
from docket.providers.call import Call, Endpoint, Sent
from docket.providers.json_fields import text
from docket.storage.guard import EventLostError

EXTENSIONS = b"sec-websocket-extensions"
"""Not offered upstream: what is compressed cannot be read, and what is not agreed on is not used."""
MAX_MESSAGE = 64 * 1024 * 1024
"""Longest message in bytes: as long as a request body that providers take."""
PIECE = 256 * 1024
IDLE_SECONDS = 24 * 3600.0
"""Silence of an upstream between two responses, while the agent works."""
EVENT_STREAM = b"text/event-stream"
"""A message is read as the event of a stream that it would be over HTTP."""


def without_extensions(head: RequestHead) -> RequestHead:
    """The upgrade request as it goes on."""
    kept = [line for name, line in head.lines if name != EXTENSIONS]
    return RequestHead(head.method, head.target, head.minor, kept)


@dataclass(slots=True)
class _Open:
    """The response under way."""

    admitted: Admitted
    call: Call
    observer: Observer | None
    since: int
    first_byte_us: int | None = None
    size: int = 0


class Relay:
    """Carries one WebSocket between the agent and a provider, both handshakes done."""

    def __init__(
        self,
        *,
        route: Route,
        endpoint: Endpoint,
        head: RequestHead,
        target: bytes,
        connection: Connection,
        link: Link,
        silence: float,
        admission: Admission,
        recorder: Recorder,
        denials: Denials,
        clock: Clock,
        docket: str,
        key: bytes,
        on_breach: Callable[[CapExceeded], None],
        ended: Callable[[], Refused | None],
    ) -> None:
        """``key`` makes fingerprints of credentials; ``silence`` is the longest of an upstream inside a response;
        ``ended`` refuses what comes after the end of the run.
        """
        self._route = route
        self._endpoint = endpoint
        self._credential = fingerprint(head, key)
        self._target = target
        self._agent = connection
        self._provider = link
        self._silence = silence
        self._admission = admission
        self._recorder = recorder
        self._denials = denials
        self._clock = clock
        self._docket = docket
        self._on_breach = on_breach
        self._ended = ended
        self._open: _Open | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._digest = hashlib.sha256()

    async def run(self, accepted: ResponseHead) -> None:
        """Pass the upgrade on and relay until one side ends. Raises LedgerError; both ends are closed then."""
        reason = "client-gone"
        try:
            lines = [line for _, line in accepted.lines]
            await self._agent.write(encode_response(accepted.status, accepted.reason, lines))
            await self._recorder.submit(
                Forwarded(
                    upstream=self._route.name,
                    method="GET",
                    endpoint=self._endpoint.name,
                    endpoint_class="free",
                    status=accepted.status,
                    private={"target": recordable(self._target)},
                )
            )
            reason = await self._both_ways()
        except ClientGoneError:
            pass
        except UpstreamError as error:
            reason = error.reason
        finally:
            breaches, _ = self._end(reason)
            self._provider.close()
            self._agent.close()
            for breach in breaches:
                self._on_breach(breach)

    def cut(self, why: str) -> None:
        """End a response under way for a reason of docket's own; a socket without one goes on."""
        if self._open is not None:
            self._provider.fail(UpstreamError(why, reason="truncated"))

    async def _both_ways(self) -> str:
        """Relay until one side ends; the reason for which a response under way would then be cut."""
        try:
            async with asyncio.TaskGroup() as tasks:
                up = tasks.create_task(self._from_agent())
                down = tasks.create_task(self._from_provider())
                await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
                first = up if up.done() else down
                for task in (up, down):
                    task.cancel()
        except* LedgerError as group:
            raise group.exceptions[0] from None
        return first.result() if not first.cancelled() else "client-gone"

    async def _from_agent(self) -> str:
        reader = MessageReader(MAX_MESSAGE)
        try:
            while True:
                for message in reader.feed(self._agent.take(PIECE)):
                    await self._asked(message)
                await self._agent.more()
        except (ClientGoneError, FormatError):
            return "client-gone"
        except UpstreamError as error:
            return error.reason

    async def _asked(self, message: Message) -> None:
        if message.opcode != TEXT or not _is_create(message.payload):
            await self._provider.write(message.raw)
            return
        await self._idle.wait()
        call = self._call(message.payload)
        decision = self._ended() or self._recorder.refusal() or await self._admission.admit(call)
        if isinstance(decision, Refused):
            await self._refuse(call, decision)
            return
        since = self._clock.monotonic_us()
        observer = registry.observer_of(call, status=200, media_type=EVENT_STREAM)
        self._open = _Open(decision, call, observer, since)
        self._idle.clear()
        self._digest = hashlib.sha256()
        recorded = [
            self._recorder.submit(event) for event in (*decision.events, self._requested(call, decision, message))
        ]
        try:
            for durable in recorded:
                await durable
        except EventLostError as error:
            self._open = None
            self._idle.set()
            self._admission.release(decision)
            await self._refuse(call, error.refused)
            return
        await self._provider.write(message.raw)

    def _call(self, payload: bytes) -> Call:
        path = self._target.partition(b"?")[0].decode("latin-1")
        sent = Sent(
            upstream=self._route.name,
            provider=self._route.provider,
            endpoint=self._endpoint,
            path=path,
            body=payload,
            body_bytes=len(payload),
            credential=self._credential,
        )
        return replace(registry.call_of(sent), stream=True)

    async def _refuse(self, call: Call, refused: Refused) -> None:
        await self._denials.deny(
            refused, _ErrorEvent(self._agent), family=self._endpoint.family, upstream=call.upstream, model=call.model
        )

    async def _from_provider(self) -> str:
        reader = MessageReader(MAX_MESSAGE)
        try:
            while True:
                for message in reader.feed(self._provider.take(PIECE)):
                    await self._answered(message)
                if not await self._provider.more(self._silence if self._open is not None else IDLE_SECONDS):
                    return self._provider_ended()
        except FormatError:
            return "truncated"
        except ClientGoneError:
            return "client-gone"

    def _provider_ended(self) -> str:
        error = self._provider.error
        return error.reason if isinstance(error, UpstreamError) else "truncated"

    async def _answered(self, message: Message) -> None:
        under_way = self._open
        if message.opcode >= CONTROL or under_way is None:
            await self._agent.write(message.raw)
            return
        if under_way.first_byte_us is None:
            under_way.first_byte_us = self._clock.monotonic_us() - under_way.since
        under_way.size += len(message.payload)
        self._digest.update(message.payload)
        if under_way.observer is not None:
            under_way.observer.feed(b"data: " + message.payload.replace(b"\n", b" ") + b"\n\n")
        if under_way.observer is None or not under_way.observer.saw_end:
            await self._agent.write(message.raw)
            return
        breaches, durable = self._end(None)
        try:
            for recorded in durable:
                await recorded
            await self._agent.write(message.raw)
        finally:
            for breach in breaches:
                self._on_breach(breach)

    def _end(self, reason: str | None) -> tuple[tuple[CapExceeded, ...], list[asyncio.Future[object]]]:
        """Book the response under way, if any, and submit its end event, in one step; ``reason`` None is whole."""
        under_way, self._open = self._open, None
        self._idle.set()
        if under_way is None:
            return (), []
        call = under_way.call
        seen = under_way.observer.finish(clean=reason is None) if under_way.observer is not None else None
        if reason is None:
            reason = reason_of(seen)
        ended = Ended(reason=reason, error_type=seen.error_type if seen is not None else None)
        settlement = self._admission.settle(under_way.admitted, call, ended, seen)
        took_us = self._clock.monotonic_us() - under_way.since
        measured = Measured(under_way.size, under_way.first_byte_us, took_us)
        private: dict[str, Json] = {"response_sha256": self._digest.hexdigest()} if under_way.size else {}
        event = ending(call, under_way.admitted, ended, settlement, seen, measured, private=private)
        events = (event, *settlement.warnings, *settlement.breaches, *settlement.events)
        return settlement.breaches, [self._recorder.submit(each) for each in events]

    def _requested(self, call: Call, admitted: Admitted, message: Message) -> ModelRequest:
        private: dict[str, Json] = {
            "target": recordable(self._target),
            "request_sha256": hashlib.sha256(message.payload).hexdigest(),
        }
        if call.private_model is not None:
            private["model"] = call.private_model
        return requested(call, admitted, size=len(message.payload), private=private)


class WebSockets:
    """The WebSockets of one run. ``ended`` refuses whatever comes."""

    def __init__(
        self,
        *,
        upstreams: Upstreams,
        silence: float,
        admission: Admission,
        recorder: Recorder,
        denials: Denials,
        clock: Clock,
        docket: str,
        on_breach: Callable[[CapExceeded], None],
    ) -> None:
        self._upstreams = upstreams
        self._silence = silence
        self._admission = admission
        self._recorder = recorder
        self._denials = denials
        self._clock = clock
        self._docket = docket
        self._on_breach = on_breach
        self._key = secrets.token_bytes(32)
        self._relays: set[Relay] = set()
        self.ended: Refused | None = None

    async def carry(
        self, route: Route, head: RequestHead, target: bytes, body: RequestBody, connection: Connection
    ) -> bool:
        """Carry one upgrade to its end; False where it cannot be, and nothing was answered. Raises LedgerError."""
        endpoint = registry.recognise(route.family, "POST", target.partition(b"?")[0].decode("latin-1"))
        if endpoint.protocol != "openai-responses" or self.ended is not None or head.method != b"GET":
            return False
        outgoing = Outgoing(origin=route.origin, head=without_extensions(head), target=target, body=PassingBody(body))
        try:
            accepted, link = await self._upstreams.upgrade(outgoing)
        except UpstreamError:
            return False
        if accepted.status != 101:
            link.close()
            return False
        relay = Relay(
            route=route,
            endpoint=endpoint,
            head=head,
            target=target,
            connection=connection,
            link=link,
            silence=self._silence,
            admission=self._admission,
            recorder=self._recorder,
            denials=self._denials,
            clock=self._clock,
            docket=self._docket,
            key=self._key,
            on_breach=self._on_breach,
            ended=lambda: self.ended,
        )
        self._relays.add(relay)
        try:
            await relay.run(accepted)
        finally:
            self._relays.discard(relay)
        return True

    def cut(self, why: str) -> None:
        """Cut every response under way: each is recorded as truncated for this reason."""
        for relay in tuple(self._relays):
            relay.cut(why)


class _ErrorEvent:
    """Answers a refusal as one message of the stream: an error event with what the HTTP answer would hold."""

    def __init__(self, agent: Connection) -> None:
        self._agent = agent

    async def refuse(self, answer: Answer) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in answer.headers}
        error = orjson.loads(answer.body)["error"]
        event = {"type": "error", "status": answer.status, "error": error, "headers": headers}
        await self._agent.write(encode_message(TEXT, orjson.dumps(event)))


def _is_create(payload: bytes) -> bool:
    if b"response.create" not in payload:
        return False
    try:
        document = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and text(document, "type") == "response.create"
