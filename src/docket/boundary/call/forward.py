"""From a request below an upstream's prefix to a model call, a passthrough or a refusal.

Invariant: what may be billed is read whole and decided before a byte of it leaves; a request that is no model call is
passed through as it comes.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from functools import lru_cache, partial

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
from docket.boundary.http1.response import Outgoing, spelled_around_length
from docket.boundary.http1.wire import Framing, RequestHead
from docket.boundary.routes import Route
from docket.boundary.settings import Settings
from docket.control.decision import Refused
from docket.ledger.events import Forwarded
from docket.primitives.canonical import Json
from docket.primitives.frozen import value
from docket.providers import registry
from docket.providers.amendment import asking_for_usage, versioned
from docket.providers.base import Provider
from docket.providers.call import Call, Endpoint, Sent
from docket.providers.forms import models_in_query
from docket.providers.targets import USUAL_PATH

MAX_DECODED = 256 * 1024 * 1024
"""Bytes that a compressed request body may expand to in the copy that is read; beyond it 413."""
OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
"""Fields by which a client may ask for another method (Google APIs and several frameworks)."""
MAX_RETRY_DIGITS = 6
"""Digits of a client's own retry count that are believed."""


@lru_cache(maxsize=1024)
def _recognise(family: str, method: str, path: str, body: bool, names_model: bool) -> Endpoint:
    """As the registry does, once for each of the handful of paths that an agent uses."""
    return registry.recognise(family, method, path, body=body, names_model=names_model)


def _method(head: RequestHead) -> str:
    """The method that a server may act on: some let a field override the one in the request line."""
    method = head.method.decode("latin-1")
    if method != "POST" and any(head.first(name) for name in OVERRIDES):
        return "POST"
    return method


@value
class Plan:
    """What follows from the head of a request below a route's prefix, whatever its body holds."""

    route: Route
    endpoint: Endpoint
    reader: Provider
    target: bytes
    """As the agent sent it, and as it goes on (``sent``), with its ``path``."""
    sent: bytes
    path: str
    treatment: Treatment | Refused
    private: dict[str, Json]
    """Those of the targets that may be recorded."""
    codings: list[bytes]
    retries: int | None
    credential: str | None
    spelled: tuple[bytes, bytes] | None
    """As in ``Outgoing``."""
    in_query: tuple[str, ...]
    content_type: str
    """As in ``Sent``."""


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
        if b"#" in head.target:
            message = "the request target holds a fragment (#), which no server is sent (RFC 9112 section 3.2)"
            return self._desk.denials.turn_away(
                400, "malformed_target", message, client, family=route.family, upstream=route.name
            )
        plan = self._plan(route, head, target, body.framing)
        if not needs_body(plan.endpoint.kind):
            return self._pass_through(plan, head, body, client)
        if head.known is not None and plan.spelled is not None:
            head.known.plan = plan
        return self.decide(plan, head, body, client)

    def _plan(self, route: Route, head: RequestHead, target: bytes, framing: Framing) -> Plan:
        """Work out everything that the head alone decides."""
        path, _, query = target.decode("latin-1").partition("?")
        in_query = models_in_query(query) if query else ()
        recognise = _recognise if len(path) <= USUAL_PATH else _recognise.__wrapped__
        has_body = framing.kind == "chunked" or bool(framing.length)
        endpoint = recognise(route.family, _method(head), path, has_body, bool(in_query))
        sent = versioned(endpoint, target, route.base_path.encode("latin-1"))
        if sent is not None:
            path = sent.partition(b"?")[0].decode("latin-1")
        private: dict[str, Json] = {"target": recordable(target)}
        if sent is not None and sent != target:
            private["amended_target"] = recordable(sent)
        retries = head.first(b"x-stainless-retry-count") or b""
        return Plan(
            route,
            endpoint,
            registry.reader_of(endpoint),
            target,
            sent or target,
            path,
            treat(endpoint.kind, usd_cap=self._settings.usd_cap, forward_unmetered=route.forward_unmetered),
            private,
            content_codings(head),
            int(retries) if retries.isdigit() and len(retries) <= MAX_RETRY_DIGITS else None,
            fingerprint(head, self._key),
            spelled_around_length(route.origin, head, sent or target) if framing.kind == "sized" else None,
            in_query,
            b", ".join(head.values(b"content-type")).decode("latin-1"),
        )

    async def decide(self, plan: Plan, head: RequestHead, body: RequestBody, client: HttpClient) -> None:
        """Read the body whole, and carry or refuse what it asks for."""
        route, settings = plan.route, self._settings
        try:
            whole = await read_whole(body, self._shelf)
        except (TooLargeError, OSError) as error:
            await self._too_large(route, error, client)
            return
        amended = None
        try:
            try:
                call = self._call(plan, whole)
            except CodingError:
                await self._turn_away(route, 413, f"the body expands to more than {MAX_DECODED} bytes", client)
                return
            if isinstance(plan.treatment, Refused):
                await self._desk.denials.deny(plan.treatment, client, route.family, route.name, call.model)
                return
            private = {**plan.private, "request_sha256": whole.sha256}
            if call.private_model is not None:
                private["model"] = call.private_model
            if self._desk.blobs is not None and settings.record_requests:
                private["body"] = await record_body(
                    self._desk.blobs, whole.content()[: settings.max_body_bytes], whole.size
                )
            if settings.request_stream_usage and not plan.codings:
                amended = self._asking_for_usage(call, whole)
                if amended is not None:
                    private["amended_sha256"] = amended.sha256
            outgoing = Outgoing(route.origin, head, plan.sent, amended or whole, (), plan.spelled)
            request = Request(call, outgoing, private, amended is not None or plan.sent != plan.target)
            record = settings.max_body_bytes if settings.record_responses else 0
            observed = plan.treatment is Treatment.METER
            tee = Tee(partial(plan.reader.observer, call) if observed else None, record=record)
            await self._calls.handle(request, client if amended is None else UsageStrippingClient(client), tee)
        finally:
            whole.close()
            if amended is not None:
                amended.close()

    def _asking_for_usage(self, call: Call, whole: WholeBody) -> WholeBody | None:
        """The body that also asks for usage, where the request says nothing about it."""
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

    def _call(self, plan: Plan, whole: WholeBody) -> Call:
        """What the body asks for. Raises CodingError for a body that expands beyond the bound."""
        route, content, unread = plan.route, whole.content(), None
        if plan.codings:
            try:
                content = decode_whole(content, plan.codings, MAX_DECODED)
            except CodingError as error:
                if error.reason == "bomb":
                    raise
                content, unread = b"", _undecoded(plan.codings)
        return plan.reader.call(
            Sent(
                route.name,
                route.provider,
                plan.endpoint,
                plan.path,
                content,
                whole.size,
                plan.retries,
                plan.credential,
                unread,
                route.models,
                route.deployments,
                plan.in_query,
                plan.content_type,
            )
        )

    async def _pass_through(self, plan: Plan, head: RequestHead, body: RequestBody, client: HttpClient) -> None:
        """Forward what is no model call; its record is durable before its end is visible, and made whatever happens."""
        desk, route = self._desk, plan.route
        tee = Tee(self._background.watch(route.name, plan.path))
        relay = AnswerRelay(desk, client, tee)
        try:
            await relay.carry(self._upstream, Outgoing(route.origin, head, plan.sent, StreamedBody(body)))
        finally:
            private = dict(plan.private)
            if relay.detail:
                private["detail"] = relay.detail
            recorded = desk.record(
                Forwarded(
                    upstream=route.name,
                    method=head.method.decode("latin-1"),
                    endpoint=plan.endpoint.name,
                    endpoint_class=plan.endpoint.kind.value,
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
