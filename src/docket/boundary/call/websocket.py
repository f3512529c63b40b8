"""The Responses API over a WebSocket: messages are relayed unchanged, and each ``response.create`` is a call.

Invariants as for any call (``open_call``): nothing goes upstream before its request is durable; the message that ends a
response is passed on only after its end event is. One response is under way at a time, as the protocol has it; a
further ``response.create`` waits for it. A message that cannot be read as one known thing (``socket_messages``) is a
call that may spend: it ends the socket under a cap, and is recorded as an unknown call without one.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import replace

import orjson

from docket.boundary.answers.denials import Answerable
from docket.boundary.answers.refusals import RUN_ENDED, Answer
from docket.boundary.call.credentials import fingerprint
from docket.boundary.call.desk import Desk
from docket.boundary.call.open_call import OpenCall
from docket.boundary.call.redact import target as recordable
from docket.boundary.call.socket_messages import Kind, kind_of
from docket.boundary.call.socket_response import StreamedResponse
from docket.boundary.http1.agent_connection import Connection, RequestBody
from docket.boundary.http1.body import StreamedBody
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.upstream import Upstreams
from docket.boundary.http1.upstream_connection import Link
from docket.boundary.http1.wire import RequestHead, ResponseHead, encode_response
from docket.boundary.routes import Route
from docket.control.decision import Refused
from docket.errors import ClientGoneError, FormatError, LedgerError, UpstreamError
from docket.ledger.events import EndReason, Forwarded
from docket.primitives.canonical import Json
from docket.primitives.frames import CLOSE, CONTROL, MAX_CONTROL, TEXT, Message, MessageReader, encode_message
from docket.providers import registry
from docket.providers.call import Call, Endpoint, Sent
from docket.providers.forms import models_in_query

EXTENSIONS = b"sec-websocket-extensions"
"""Not offered upstream: what is compressed cannot be read, and what is not agreed on is not used."""
POLICY_VIOLATION = (1008).to_bytes(2, "big")
MAX_CLOSE_REASON = MAX_CONTROL - 2
MAX_MESSAGE = 64 * 1024 * 1024
"""Longest message in bytes: as long as a request body that providers take."""
PIECE = 256 * 1024
IDLE_SECONDS = 24 * 3600.0
"""Silence of an upstream between two responses, while the agent works."""


def without_extensions(head: RequestHead) -> RequestHead:
    """The upgrade request as it goes on."""
    kept = [line for name, line in head.lines if name != EXTENSIONS]
    return RequestHead(head.method, head.target, head.minor, kept)


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
        """Set unless an answer is under way whose end will be seen."""
        self._idle.set()

    async def run(self, accepted: ResponseHead, agent: Connection, provider: Link) -> None:
        """Pass the upgrade on and relay until one side ends. Raises LedgerError; both ends are closed then."""
        self._agent, self._provider = agent, provider
        self._desk.under_way.add(self)
        reason: EndReason = "client-gone"
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

    def _give_up(self, reason: EndReason) -> None:
        """Say why the response under way, if there is one, is not whole. Does not yield."""
        if self._response is not None:
            self._response.reason = reason

    async def _both_ways(self) -> EndReason:
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

    async def _from_agent(self) -> EndReason:
        reader = MessageReader(MAX_MESSAGE)
        try:
            while True:
                while data := self._agent.take(PIECE):  # what is left here is nothing to wait for
                    for message in reader.feed(data):
                        if not await self._asked(message):
                            return "truncated"
                await self._agent.more()
        except (ClientGoneError, FormatError):
            return "client-gone"
        except UpstreamError as error:
            return error.reason

    async def _asked(self, message: Message) -> bool:
        """Pass on a message of the agent, or answer its refusal. Return whether the socket goes on."""
        if message.opcode >= CONTROL:
            await self._provider.write(message.raw)
            return True
        kind, why = kind_of(message)
        if kind is Kind.CREATE:
            await self._create(message)
        elif kind is Kind.SPENDLESS:
            await self._provider.write(message.raw)
        else:
            return await self._unknown(message, why)
        return True

    async def _unknown(self, message: Message, why: str) -> bool:
        """Refuse a message that nobody can tell from a call where a cap stands, else record it as an unknown call."""
        if self._sockets.capped:
            refused = Refused(code="unreadable_message", message=f"under a cap this message is refused: {why}")
            await self._refuse(refused, _PolicyClose(self._agent))
            return False
        begun = await self._begin(self._call(b"", len(message.payload), why), message.payload)
        if isinstance(begun, Refused):
            await self._refuse(begun, _PolicyClose(self._agent))
            return False
        await self._provider.write(message.raw)
        return True

    async def _create(self, message: Message) -> None:
        """Open the call that ``message`` asks for and send it on, or answer its refusal."""
        call = self._call(message.payload, len(message.payload))
        begun = await self._begin(call, message.payload)
        if isinstance(begun, Refused):
            await self._refuse(begun, _ErrorEvent(self._agent), call.model)
            return
        await self._provider.write(message.raw)

    async def _begin(self, call: Call, payload: bytes) -> OpenCall | Refused:
        """Open ``call`` once none is under way whose end can be told; any other one is ended here as truncated."""
        await self._idle.wait()
        if self._response is not None:
            self._response.reason = "truncated"
            await self._end()
        response = self._response = StreamedResponse(self._desk, call)
        private: dict[str, Json] = {
            "target": recordable(self._target),
            "request_sha256": hashlib.sha256(payload).hexdigest(),
        }
        if call.private_model is not None:
            private["model"] = call.private_model
        opened = OpenCall(self._desk, call, private, response, self._agent)
        begun = self._sockets.refusal or await opened.begin()
        if isinstance(begun, Refused):
            self._response = None
            return begun
        self._open = begun
        if call.unread is None:  # else nobody knows whether an answer comes
            self._idle.clear()
        return begun

    async def _end(self) -> None:
        """End the call under way; done once that is durable."""
        call, self._open, self._response = self._open, None, None
        self._idle.set()
        if call is not None:
            try:
                await call.end()
            finally:
                call.close()

    async def _refuse(self, refused: Refused, client: Answerable, model: str | None = None) -> None:
        await self._desk.denials.deny(refused, client, self._endpoint.family, self._route.name, model)

    def _call(self, body: bytes, size: int, unread: str | None = None) -> Call:
        path = self._target.partition(b"?")[0].decode("latin-1")
        sent = Sent(
            upstream=self._route.name,
            provider=self._route.provider,
            endpoint=self._endpoint,
            path=path,
            body=body,
            body_bytes=size,
            credential=self._credential,
            unread=unread,
            models=self._route.models,
            deployments=self._route.deployments,
            in_query=models_in_query(self._target.partition(b"?")[2].decode("latin-1")),
        )
        return replace(registry.call_of(sent), stream=True)

    # ── from the provider ──

    async def _from_provider(self) -> EndReason:
        reader = MessageReader(MAX_MESSAGE)
        try:
            while True:
                while data := self._provider.take(PIECE):
                    for message in reader.feed(data):
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
        if message.opcode >= CONTROL:
            await self._agent.write(message.raw)
        elif call is None or response is None:
            await self._unasked(message)
        elif not response.feed(message.payload):
            if response.lost:  # its end may be among what could not be read
                self._idle.set()
            await self._agent.write(message.raw)
        else:
            self._open = self._response = None
            self._idle.set()
            try:
                await call.end()
                await self._agent.write(message.raw)
            finally:
                call.close()

    async def _unasked(self, message: Message) -> None:
        """Pass on a message of the provider outside a response; one that bills an answer is a call of its own."""
        call = self._call(b"", 0, "nothing that was read asked for this answer")
        response = StreamedResponse(self._desk, call)
        if response.feed(message.payload) and self._response is None and response.states_usage:
            private: dict[str, Json] = {"target": recordable(self._target)}
            opened = await OpenCall(self._desk, call, private, response, self._agent).begin()
            if isinstance(opened, Refused):
                await self._refuse(opened, _PolicyClose(self._agent))
                raise ClientGoneError("an answer that nobody asked for came after a cap was reached")
            try:
                await opened.end()
            finally:
                opened.close()
        await self._agent.write(message.raw)


class WebSockets:
    """The WebSockets of one run. ``key`` makes fingerprints of credentials; ``refusal`` is of every further call."""

    def __init__(self, desk: Desk, upstreams: Upstreams, silence: float, capped: bool) -> None:
        """``silence`` is the longest of an upstream inside a response, in seconds; ``capped`` says that a cap on calls,
        tokens or money stands.
        """
        self.capped = capped
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


class _PolicyClose:
    """Answers a refusal by the end of the socket: a close frame with status 1008 (RFC 6455 section 7.4.1)."""

    def __init__(self, agent: Connection) -> None:
        self._agent = agent

    async def refuse(self, answer: Answer) -> None:
        reason = str(orjson.loads(answer.body)["error"]["message"]).encode()[:MAX_CLOSE_REASON].decode(errors="ignore")
        await self._agent.write(encode_message(CLOSE, POLICY_VIOLATION + reason.encode()))
