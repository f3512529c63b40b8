"""The Responses API over a WebSocket: messages are relayed unchanged, and each ``response.create`` is a call.

Invariants as for any call (``open_call``): nothing goes upstream before its request is durable; the message that ends a
response is passed on only after its end event is. One response is under way at a time, as the protocol has it; a
further ``response.create`` waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import replace

import orjson

from docket.boundary.answers.refusals import RUN_ENDED, Answer
from docket.boundary.call.credentials import fingerprint
from docket.boundary.call.desk import Desk
from docket.boundary.call.open_call import Arrived, OpenCall, reason_of
from docket.boundary.call.redact import target as recordable
from docket.boundary.http1.agent_connection import Connection, RequestBody
from docket.boundary.http1.body import StreamedBody
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.upstream import Upstreams
from docket.boundary.http1.upstream_connection import Link
from docket.boundary.http1.wire import RequestHead, ResponseHead, encode_response
from docket.boundary.routes import Route
from docket.control.breaker import Ended
from docket.control.decision import Refused
from docket.errors import ClientGoneError, FormatError, LedgerError, UpstreamError
from docket.ledger.events import Forwarded
from docket.primitives.canonical import Json
from docket.primitives.frames import CONTROL, TEXT, Message, MessageReader, encode_message
from docket.providers import registry
from docket.providers.call import Call, Endpoint, Sent
from docket.providers.json_fields import text

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


class StreamedResponse:
    """The answer to one ``response.create``; the WebSocket carrier of an open call."""

    def __init__(self, desk: Desk, call: Call) -> None:
        self._desk = desk
        self._observer = registry.observer_of(call, status=200, media_type=EVENT_STREAM)
        self._digest = hashlib.sha256()
        self._size = 0
        self._first_byte_at: int | None = None
        self.reason: str | None = "client-gone"
        """Why the answer is not whole; None once it is."""

    def feed(self, payload: bytes) -> bool:
        """Take the next message. Return whether it ends the answer."""
        if self._first_byte_at is None:
            self._first_byte_at = self._desk.clock.monotonic_us()
        self._size += len(payload)
        self._digest.update(payload)
        if self._observer is None:
            return False
        self._observer.feed(b"data: " + payload.replace(b"\n", b" ") + b"\n\n")
        if self._observer.saw_end:
            self.reason = None
        return self._observer.saw_end

    def arrived(self) -> Arrived:
        """Return what arrived so far. Does not yield."""
        seen = self._observer.finish(clean=self.reason is None) if self._observer is not None else None
        ended = Ended(self.reason or reason_of(seen), error_type=seen.error_type if seen is not None else None)
        private: dict[str, Json] = {"response_sha256": self._digest.hexdigest()} if self._size else {}
        return Arrived(ended, seen, self._size, self._first_byte_at, private)


class Relay:
    """Carries one WebSocket between the agent and a provider, both handshakes done."""

    def __init__(
        self, desk: Desk, sockets: WebSockets, route: Route, endpoint: Endpoint, head: RequestHead, target: bytes
    ) -> None:
        """``head`` and ``target`` are the upgrade request's."""
        self._desk = desk
        self._sockets = sockets
        self._route = route
        self._endpoint = endpoint
        self._credential = fingerprint(head, sockets.key)
        self._target = target
        self._response: StreamedResponse | None = None
        """The response that was asked for and has not ended ..."""
        self._open: OpenCall | None = None
        """... and its call, once that is open."""
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, accepted: ResponseHead, agent: Connection, provider: Link) -> None:
        """Pass the upgrade on and relay until one side ends. Raises LedgerError; both ends are closed then."""
        self._agent, self._provider = agent, provider
        self._desk.under_way.add(self)
        reason = "client-gone"
        try:
            lines = [line for _, line in accepted.lines]
            await agent.write(encode_response(accepted.status, accepted.reason, lines))
            await self._desk.record(
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
            self._desk.under_way.discard(self)
            provider.close()
            agent.close()
            self._give_up(reason)
            if self._open is not None:
                self._open.close()

    def cut(self, why: str) -> None:
        """End a response under way for a reason of docket's own; a socket without one goes on. Does not yield."""
        if self._response is not None:
            self._provider.fail(UpstreamError(why, reason="truncated"))

    def _give_up(self, reason: str) -> None:
        """Say why the response under way, if there is one, is not whole. Does not yield."""
        if self._response is not None:
            self._response.reason = reason

    async def _both_ways(self) -> str:
        """Relay until one side ends. Return the reason for which a response under way is then cut off."""
        try:
            async with asyncio.TaskGroup() as tasks:
                up = tasks.create_task(self._from_agent())
                down = tasks.create_task(self._from_provider())
                await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
                first = up if up.done() else down
                if not first.cancelled() and first.exception() is None:
                    self._give_up(first.result())
                for task in (up, down):
                    task.cancel()
        except* LedgerError as group:
            raise group.exceptions[0] from None
        return first.result() if not first.cancelled() else "client-gone"

    # ── from the agent ──

    async def _from_agent(self) -> str:
        reader = MessageReader(MAX_MESSAGE)
        try:
            while True:
                for message in reader.feed(self._agent.take(PIECE)):
                    if message.opcode == TEXT and _is_create(message.payload):
                        await self._create(message)
                    else:
                        await self._provider.write(message.raw)
                await self._agent.more()
        except (ClientGoneError, FormatError):
            return "client-gone"
        except UpstreamError as error:
            return error.reason

    async def _create(self, message: Message) -> None:
        """Open the call that ``message`` asks for and send it on, or answer its refusal."""
        await self._idle.wait()
        call = self._call(message.payload)
        response = self._response = StreamedResponse(self._desk, call)
        private: dict[str, Json] = {
            "target": recordable(self._target),
            "request_sha256": hashlib.sha256(message.payload).hexdigest(),
        }
        if call.private_model is not None:
            private["model"] = call.private_model
        opened = OpenCall(self._desk, call, private, response, self._agent)
        begun = self._sockets.refusal or await opened.begin()
        if isinstance(begun, Refused):
            self._response = None
            client = _ErrorEvent(self._agent)
            await self._desk.denials.deny(begun, client, self._endpoint.family, call.upstream, call.model)
            return
        self._open = begun
        self._idle.clear()
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

    # ── from the provider ──

    async def _from_provider(self) -> str:
        reader = MessageReader(MAX_MESSAGE)
        try:
            while True:
                for message in reader.feed(self._provider.take(PIECE)):
                    await self._answered(message)
                if not await self._provider.more(self._silence):
                    error = self._provider.error
                    return error.reason if isinstance(error, UpstreamError) else "truncated"
        except FormatError:
            return "truncated"
        except ClientGoneError:
            return "client-gone"

    @property
    def _silence(self) -> float:
        """Longest silence of the provider in seconds."""
        return self._sockets.silence if self._response is not None else IDLE_SECONDS

    async def _answered(self, message: Message) -> None:
        call, response = self._open, self._response
        if message.opcode >= CONTROL or call is None or response is None or not response.feed(message.payload):
            await self._agent.write(message.raw)
            return
        self._open = self._response = None
        self._idle.set()
        try:
            await call.end()
            await self._agent.write(message.raw)
        finally:
            call.close()


class WebSockets:
    """The WebSockets of one run. ``key`` makes fingerprints of credentials; ``refusal`` is of every further call."""

    def __init__(self, desk: Desk, upstreams: Upstreams, silence: float) -> None:
        """``silence`` is the longest of an upstream inside a response, in seconds."""
        self._desk = desk
        self._upstreams = upstreams
        self.silence = silence
        self.key = secrets.token_bytes(32)
        self.refusal: Refused | None = None

    def end_run(self) -> None:
        """Refuse every further call, also on the sockets that are open."""
        self.refusal = RUN_ENDED

    async def carry(
        self, route: Route, head: RequestHead, target: bytes, body: RequestBody, connection: Connection
    ) -> bool:
        """Carry one upgrade to its end; False where it cannot be, and nothing was answered. Raises LedgerError."""
        endpoint = registry.recognise(route.family, "POST", target.partition(b"?")[0].decode("latin-1"))
        if endpoint.protocol != "openai-responses" or head.method != b"GET":
            return False
        outgoing = Outgoing(origin=route.origin, head=without_extensions(head), target=target, body=StreamedBody(body))
        try:
            accepted, link = await self._upstreams.upgrade(outgoing)
        except UpstreamError:
            return False
        if accepted.status != 101:
            link.close()
            return False
        await Relay(self._desk, self, route, endpoint, head, target).run(accepted, connection, link)
        return True


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
