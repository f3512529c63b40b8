"""From a request below an upstream's prefix to a model call, a passthrough or a refusal.

Invariant: what may be billed is read whole and decided before a byte of it leaves; a request that is no model call is
passed through as it comes.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from functools import lru_cache

from docket.boundary.call.answer_relay import AnswerRelay
from docket.boundary.call.background import BackgroundAnswers
from docket.boundary.call.client import HttpClient
from docket.boundary.call.credentials import fingerprint
from docket.boundary.call.desk import Desk
from docket.boundary.call.exchange import Handler, Request
from docket.boundary.call.ports import Upstream
from docket.boundary.call.recorded_bodies import record_body
from docket.boundary.call.redact import target as recordable
from docket.boundary.call.tee import Tee
from docket.boundary.call.treatment import Treatment, needs_body, treat
from docket.boundary.call.usage_stripping import UsageStrippingClient
from docket.boundary.http1.agent_connection import RequestBody
from docket.boundary.http1.body import Shelf, StreamedBody, TooLargeError, WholeBody, read_whole
from docket.boundary.http1.coding import CodingError, content_codings, decode_whole
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.wire import Framing, RequestHead
from docket.boundary.routes import Route
from docket.boundary.settings import Settings
from docket.control.decision import Refused
from docket.ledger.events import Forwarded
from docket.primitives.canonical import Json
from docket.primitives.frozen import value
from docket.providers import registry
from docket.providers.amendment import asking_for_usage, versioned
from docket.providers.call import Call, Endpoint, Sent
from docket.providers.targets import USUAL_PATH

MAX_DECODED = 256 * 1024 * 1024
"""Bytes that a compressed request body may expand to in the copy that is read; beyond it 413."""
OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
"""Fields by which a client may ask for another method (Google APIs and several frameworks)."""
MAX_RETRY_DIGITS = 6
"""Digits of a client's own retry count that are believed."""


@lru_cache(maxsize=1024)
def _recognise(family: str, method: str, path: str, body: bool) -> Endpoint:
    """As the registry does, once for each of the handful of paths that an agent uses."""
    return registry.recognise(family, method, path, body=body)


def _method(head: RequestHead) -> str:
    """The method that a server may act on: some let a field override the one in the request line."""
    method = head.method.decode("latin-1")
    if method != "POST" and any(head.first(name) for name in OVERRIDES):
        return "POST"
    return method


@value
class _Asked:
    """A request below a route's prefix; ``target`` as the agent sent it, ``sent`` as it goes on, with its ``path``."""

    route: Route
    endpoint: Endpoint
    head: RequestHead
    target: bytes
    sent: bytes
    path: str
    body: RequestBody


class Forwarder:
    """Answers the requests of one run that go to an upstream."""

    def __init__(
        self,
        desk: Desk,
        settings: Settings,
        calls: Handler,
        upstream: Upstream,
        background: BackgroundAnswers | None = None,
    ) -> None:
        """``calls`` answers model calls; anything else goes to ``upstream`` directly, and may be the answer to one of
        ``background``.
        """
        self._desk = desk
        self._settings = settings
        self._calls = calls
        self._upstream = upstream
        self._background = background or BackgroundAnswers()
        self._shelf = Shelf()
        self._key = secrets.token_bytes(32)

    def forward(
        self, route: Route, head: RequestHead, target: bytes, body: RequestBody, client: HttpClient
    ) -> Awaitable[None]:
        """Answer one request, once awaited. Raises ClientGoneError, WireError, LedgerError."""
        path = target.partition(b"?")[0].decode("latin-1")
        if b"#" in head.target:
            message = "the request target holds a fragment (#), which no server is sent (RFC 9112 section 3.2)"
            return self._desk.denials.turn_away(
                400, "malformed_target", message, client, family=route.family, upstream=route.name
            )
        has_body = body.framing.kind == "chunked" or bool(body.framing.length)
        recognise = _recognise if len(path) <= USUAL_PATH else _recognise.__wrapped__
        endpoint = recognise(route.family, _method(head), path, has_body)
        sent = versioned(endpoint, target, route.base_path.encode("latin-1"))
        if sent is not None:
            path = sent.partition(b"?")[0].decode("latin-1")
        asked = _Asked(route, endpoint, head, target, sent or target, path, body)
        if needs_body(endpoint.kind):
            return self._decide(asked, client)
        return self._pass_through(asked, client)

    async def _decide(self, asked: _Asked, client: HttpClient) -> None:
        """Read the body whole, and carry or refuse what it asks for."""
        route, settings = asked.route, self._settings
        try:
            whole = await read_whole(asked.body, self._shelf)
        except (TooLargeError, OSError) as error:
            await self._too_large(route, error, client)
            return
        amended = None
        try:
            try:
                call = self._call(asked, whole)
            except CodingError:
                await self._turn_away(route, 413, f"the body expands to more than {MAX_DECODED} bytes", client)
                return
            treatment = treat(
                asked.endpoint.kind,
                usd_cap=settings.usd_cap,
                forward_unmetered=route.forward_unmetered,
            )
            if isinstance(treatment, Refused):
                await self._desk.denials.deny(treatment, client, route.family, route.name, call.model)
                return
            private = _targets(asked)
            private["request_sha256"] = whole.sha256
            if call.private_model is not None:
                private["model"] = call.private_model
            if self._desk.blobs is not None and settings.record_requests:
                private["body"] = await record_body(
                    self._desk.blobs, whole.content()[: settings.max_body_bytes], whole.size
                )
            amended = self._asking_for_usage(call, asked.head, whole)
            if amended is not None:
                private["amended_sha256"] = amended.sha256
            outgoing = Outgoing(route.origin, asked.head, asked.sent, amended or whole)
            request = Request(call, outgoing, private, amended is not None or asked.sent != asked.target)
            tee = self._tee(call, observed=treatment is Treatment.METER)
            await self._calls.handle(request, client if amended is None else UsageStrippingClient(client), tee)
        finally:
            whole.close()
            if amended is not None:
                amended.close()

    def _asking_for_usage(self, call: Call, head: RequestHead, whole: WholeBody) -> WholeBody | None:
        """The body that also asks for usage, where the policy wants that and the request says nothing about it."""
        if not self._settings.request_stream_usage or content_codings(head):
            return None
        content = asking_for_usage(call, whole.content())
        if content is None:
            return None
        framing = Framing("sized", len(content)) if whole.framing.kind == "sized" else whole.framing
        amended = WholeBody(self._shelf, framing)
        try:
            amended.add(content)
        except (TooLargeError, OSError):
            amended.close()
            return None
        amended.trailers = whole.trailers
        return amended

    def _tee(self, call: Call, *, observed: bool) -> Tee:
        record = self._settings.max_body_bytes if self._settings.record_responses else 0
        if not observed:
            return Tee(None, record=record)
        return Tee(
            lambda status, media_type: registry.observer_of(call, status=status, media_type=media_type), record=record
        )

    def _call(self, asked: _Asked, whole: WholeBody) -> Call:
        """What the body asks for. Raises CodingError for a body that expands beyond the bound."""
        head, route = asked.head, asked.route
        content, unread = whole.content(), None
        codings = content_codings(head)
        if codings:
            try:
                content = decode_whole(content, codings, MAX_DECODED)
            except CodingError as error:
                if error.reason == "bomb":
                    raise
                content, unread = b"", _undecoded(codings)
        retries = head.first(b"x-stainless-retry-count") or b""
        return registry.call_of(
            Sent(
                route.name,
                route.provider,
                asked.endpoint,
                asked.path,
                content,
                whole.size,
                int(retries) if retries.isdigit() and len(retries) <= MAX_RETRY_DIGITS else None,
                fingerprint(head, self._key),
                unread,
                route.models,
                route.deployments,
            )
        )

    async def _pass_through(self, asked: _Asked, client: HttpClient) -> None:
        """Forward what is no model call; its record is durable before its end is visible, and made whatever happens."""
        desk, route = self._desk, asked.route
        tee = Tee(self._background.watch(route.name, asked.path))
        relay = AnswerRelay(desk, client, tee)
        try:
            await relay.carry(self._upstream, Outgoing(route.origin, asked.head, asked.sent, StreamedBody(asked.body)))
        finally:
            private = _targets(asked)
            if relay.detail:
                private["detail"] = relay.detail
            recorded = desk.record(
                Forwarded(
                    upstream=route.name,
                    method=asked.head.method.decode("latin-1"),
                    endpoint=asked.endpoint.name,
                    endpoint_class=asked.endpoint.kind.value,
                    status=relay.status,
                    reason=relay.reason,
                    private=private,
                )
            )
            call = self._background.answered(route.name, tee.finish(clean=relay.reason is None))
            billed = call.end() if call is not None else recorded
        try:
            await recorded
            await billed
            await relay.finish(route.family)
        finally:
            if call is not None:
                call.close()

    async def _too_large(self, route: Route, error: TooLargeError | OSError, client: HttpClient) -> None:
        if isinstance(error, TooLargeError) and not error.everything:
            await self._turn_away(route, 413, f"the body is longer than {self._shelf.each} bytes", client)
        else:
            await self._turn_away(route, 429, "too many request bodies are held at once", client)

    async def _turn_away(self, route: Route, status: int, message: str, client: HttpClient) -> None:
        await self._desk.denials.turn_away(
            status, "body_too_large", message, client, family=route.family, upstream=route.name
        )


def _undecoded(codings: list[bytes]) -> str:
    return f"its Content-Encoding ({b', '.join(codings).decode('latin-1')}) cannot be undone here"


def _targets(asked: _Asked) -> dict[str, Json]:
    """The target as the agent sent it, and as it went on where that is another."""
    targets: dict[str, Json] = {"target": recordable(asked.target)}
    if asked.sent != asked.target:
        targets["amended_target"] = recordable(asked.sent)
    return targets
