"""The boundary of one run: a loopback listener whose requests are model calls, passages or refusals.

Invariants: without the run's token nothing is reached but health; one request at a time on a connection; every
connection is served by a task of the group that ``start`` was given, and none of them outlives ``close``.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from docket.boundary.agent_events import Pace, read_event
from docket.boundary.body import HeldBody, PassingBody, Shelf, TooLargeError, hold
from docket.boundary.classes import Treatment, needs_body, treat
from docket.boundary.client import HttpClient
from docket.boundary.coalesce import Coalescer
from docket.boundary.coding import CodingError, content_codings, decode_whole
from docket.boundary.connection import Connection, RequestBody
from docket.boundary.credentials import fingerprint
from docket.boundary.egress_proxy import ProxyRule
from docket.boundary.exchange import Admission, Exchange, Recorder, Request, Upstream, carry, finish
from docket.boundary.headers import first
from docket.boundary.health import Health
from docket.boundary.redact import target as recordable
from docket.boundary.refusals import Answer, bad_request, forbidden
from docket.boundary.response import Outgoing
from docket.boundary.routes import OWN, TOKEN_BYTES, Address, Route, address, origin_form
from docket.boundary.tee import Tee
from docket.boundary.upstream import Limits, Upstreams
from docket.boundary.wire import RequestHead, WireError, request_framing, tokens
from docket.clock import Clock
from docket.control.decision import Refused
from docket.errors import ClientGoneError, UsageError
from docket.ledger.events import CapExceeded, Event, Forwarded, ModelDenied, Unauthorized
from docket.primitives.canonical import Json, JsonObject, encode
from docket.providers import registry
from docket.providers.call import UNKNOWN_MODEL, Call, Endpoint
from docket.storage.blobs import Blobs

Around = Callable[[Upstream, Recorder], Upstream]
BACKLOG = 1024
"""Connections that may wait to be accepted: an agent may start that many workers at once."""
MAX_CONNECTIONS = 4096
"""Connections served at once; one more is closed. Each holds a task and at most a few hundred KiB."""
LINGER_BYTES = 16 * 1024 * 1024
"""Unread bytes of a refused body that are still read, so that a reset does not take the answer with it."""
LINGER_SECONDS = 2.0
MAX_DECODED = 256 * 1024 * 1024
"""Bytes that a compressed request body may expand to in the copy that is read; beyond it 413."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the policy and the run say about the boundary."""

    docket: str
    """The docket number, for people who read an answer."""
    routes: tuple[Route, ...]
    usd_cap: bool = False
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)
    """docket's own environment: its proxy variables are honoured."""
    record_requests: bool = False
    record_responses: bool = False
    max_body_bytes: int = 0
    """Bytes of a body that are kept for the record."""
    tls: ssl.SSLContext | None = None
    """For upstreams; None takes the system's store and ``SSL_CERT_FILE``."""


class Boundary:
    """Serves one run."""

    def __init__(
        self,
        settings: Settings,
        *,
        admission: Admission,
        recorder: Recorder,
        clock: Clock,
        on_breach: Callable[[CapExceeded], None],
        on_fatal: Callable[[Exception], None],
        health: Health | None = None,
        budget: Callable[[], JsonObject] | None = None,
        blobs: Blobs | None = None,
        around: Around | None = None,
    ) -> None:
        """``on_breach`` is called after the answer of the call that reached a cap was delivered, ``on_fatal`` once a
        call could not be carried or recorded for a reason of docket's own. ``around`` puts something between the run
        and its upstreams.
        """
        self._settings = settings
        self._routes = {route.name: route for route in settings.routes}
        self._admission = admission
        self._recorder = recorder
        self._clock = clock
        self._on_breach = on_breach
        self._on_fatal = on_fatal
        self._health = health
        self._budget = budget
        self._blobs = blobs
        self._around = around
        self._notes = Coalescer(recorder.submit)
        self._shelf = Shelf()
        self._key = secrets.token_bytes(32)
        self._served: dict[asyncio.Task[None], Connection] = {}
        self._draining = False
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.port = 0

    async def start(self, port: int, tasks: asyncio.TaskGroup) -> int:
        """Listen on loopback; gives the port, chosen where ``port`` is 0. Raises UsageError where that cannot be."""
        self._tasks = tasks
        self._pace = Pace()
        proxy = ProxyRule(self._settings.environment)
        self._upstreams = Upstreams(tasks, proxy, self._settings.limits, self._settings.tls)
        self._upstream: Upstream = self._upstreams
        if self._around is not None:
            self._upstream = self._around(self._upstreams, self._recorder)
        self._exchange = Exchange(
            admission=self._admission,
            recorder=self._recorder,
            upstream=self._upstream,
            clock=self._clock,
            denials=self._notes,
            docket=self._settings.docket,
            on_breach=self._on_breach,
        )
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self._opened), "127.0.0.1", port, backlog=BACKLOG
            )
        except OSError as error:
            raise UsageError(
                f"--port: cannot listen on 127.0.0.1 port {port}: {error.strerror}",
                hint="choose a free port, or leave --port out to take any",
            ) from error
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def base_url(self, name: str) -> str:
        """What the agent's variable for the upstream ``name`` must hold."""
        return f"http://127.0.0.1:{self.port}/r/{self.token}/{name}{self._routes[name].base_path}"

    @property
    def events_url(self) -> str:
        """Where the agent may assert events."""
        return f"http://127.0.0.1:{self.port}/r/{self.token}/{OWN}/events"

    async def drain(self, seconds: float) -> None:
        """Take no new request, and wait so long for those under way."""
        self._draining = True
        self._server.close()
        for connection in list(self._served.values()):
            if connection.idle:
                connection.close()
        if self._served:
            await asyncio.wait(self._served, timeout=seconds)

    async def close(self) -> None:
        """End whatever is still under way: each call gets its end event. Then everything is recorded and closed."""
        self._draining = True
        self._server.close()
        left = list(self._served)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        self._upstreams.close()
        await self._notes.close()

    # ── connections ──

    def _opened(self, connection: Connection) -> None:
        if self._draining or len(self._served) >= MAX_CONNECTIONS:
            connection.abort()
            return
        task = self._tasks.create_task(self._serve(connection))
        self._served[task] = connection
        task.add_done_callback(self._served.pop)

    async def _serve(self, connection: Connection) -> None:
        """Answer the requests of one connection, in order, until one side ends it."""
        try:
            while not self._draining and await self._next(connection):
                connection.idle = True
        except ClientGoneError:
            pass
        except Exception as error:  # noqa: BLE001 (the top of every request)
            connection.abort()
            self._on_fatal(error)
        finally:
            connection.close()

    async def _next(self, connection: Connection) -> bool:
        """Answer one request; whether the connection can carry another."""
        try:
            head = await connection.head()
            connection.idle = False
            framing = request_framing(head)
            if len([name for name, _ in head.headers if name.lower() == b"host"]) > 1:
                raise WireError("more than one Host field")
        except WireError as error:
            await self._malformed(connection, error)
            return False
        body = RequestBody(connection, head, framing)
        client = HttpClient(connection, head, body)
        try:
            if head.method == b"CONNECT":
                return await self._connect(connection, head, client)
            await self._route(head, body, client)
        except WireError as error:
            if client.started:
                raise ClientGoneError("a malformed body") from error
            await client.refuse(self._bad(error.status, "malformed_body", str(error), close=True))
        if client.keep and body.done:
            return True
        if not body.done:
            await self._linger(connection)
        return False

    async def _linger(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await connection.discard(LINGER_BYTES)
        except TimeoutError:
            connection.abort()

    async def _malformed(self, connection: Connection, error: WireError) -> None:
        """Answer a head that could not be read: a JSON error, and an event where it carried the token."""
        _, _, start = connection.peek(512).partition(b" ")
        code = {414: "target_too_long", 431: "headers_too_long"}.get(error.status, "malformed_request")
        if error.status not in (414, 431) or self._carries_token(start):
            await self._note_denied(code, final=True)
        else:
            await self._note_unauthorized()
        nobody = HttpClient(connection, RequestHead(b"GET", b"/", 1, ()), RequestBody(connection, _NOTHING, _NO_BODY))
        await nobody.refuse(self._bad(error.status, code, str(error), close=True))
        await self._linger(connection)

    def _carries_token(self, start: bytes) -> bool:
        return origin_form(start).startswith(b"/r/" + self.token.encode() + b"/")

    async def _connect(self, connection: Connection, head: RequestHead, client: HttpClient) -> bool:
        """CONNECT to the boundary itself, as one real agent sends it, leads back here; there is no other tunnel."""
        if head.target in (b"127.0.0.1:%d" % self.port, b"localhost:%d" % self.port, b"[::1]:%d" % self.port):
            await connection.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            return True
        await self._note_unauthorized()
        await client.refuse(replace(forbidden(), close=True))
        return False

    # ── routes ──

    async def _route(self, head: RequestHead, body: RequestBody, client: HttpClient) -> None:
        found = address(head.target, self.token.encode())
        if found is None:
            await self._without_token(head, client)
        elif found.name == OWN:
            await self._own(head, found, body, client)
        elif found.name not in self._routes:
            known = ", ".join(sorted(self._routes)) or "none"
            await client.refuse(self._bad(404, "unknown_upstream", f"no upstream {found.name!r} (known: {known})"))
        elif b"websocket" in tokens(head.headers, b"upgrade"):
            await self._note_denied("websocket_unsupported", final=True, upstream=found.name)
            message = "WebSocket is not carried here: use HTTP"
            await client.refuse(self._bad(426, "websocket_unsupported", message, found.name, close=True))
        else:
            await self._forward(self._routes[found.name], head, found.rest, body, client)

    async def _without_token(self, head: RequestHead, client: HttpClient) -> None:
        path, _, _ = head.target.partition(b"?")
        if self._health is not None and head.method in (b"GET", b"HEAD") and path.startswith(b"/docket/"):
            accept = first(head.headers, b"accept")
            answer = self._health.answer(path.decode("latin-1"), accept.decode("latin-1") if accept else None)
            if answer is not None:
                headers = ((b"Content-Type", answer.content_type.encode()),)
                await client.refuse(Answer(status=answer.status, headers=headers, body=answer.body))
                return
        await self._note_unauthorized()
        await client.refuse(forbidden())

    async def _own(self, head: RequestHead, found: Address, body: RequestBody, client: HttpClient) -> None:
        path, _, _ = found.rest.partition(b"?")
        if (head.method, path) == (b"POST", b"/events"):
            await self._assert_event(body, client)
        elif (head.method, path) == (b"GET", b"/budget") and self._budget is not None:
            await client.refuse(_json(200, self._budget()))
        else:
            message = "here are POST events and GET budget"
            await client.refuse(self._bad(404, "unknown_endpoint", message))

    async def _assert_event(self, body: RequestBody, client: HttpClient) -> None:
        refused = self._pace.take()
        if refused is not None:
            await client.refuse(self._bad(429, refused.code, refused.message))
            return
        try:
            event = await read_event(body)
        except UsageError as error:
            await client.refuse(self._bad(400, "bad_event", str(error)))
            return
        await self._recorder.submit(event)
        await client.refuse(_json(200, {"recorded": True}))

    # ── forwarding ──

    async def _forward(
        self, route: Route, head: RequestHead, target: bytes, body: RequestBody, client: HttpClient
    ) -> None:
        path = target.partition(b"?")[0].decode("latin-1")
        endpoint = registry.recognise(route.family, head.method.decode("latin-1"), path)
        if not needs_body(endpoint.kind, head.method):
            outgoing = Outgoing(origin=route.origin, head=head, target=target, body=PassingBody(body))
            await self._pass(route, endpoint, outgoing, client)
            return
        try:
            held = await hold(body, self._shelf)
        except (TooLargeError, OSError) as error:
            await self._too_large(route, error, client)
            return
        try:
            await self._decide(route, endpoint, head, target, held, client)
        finally:
            held.close()

    async def _decide(
        self, route: Route, endpoint: Endpoint, head: RequestHead, target: bytes, held: HeldBody, client: HttpClient
    ) -> None:
        try:
            call = self._call(route, endpoint, head, target, held)
        except CodingError:
            message = f"the body expands to more than {MAX_DECODED} bytes"
            await self._note_denied("body_too_large", final=True, upstream=route.name)
            await client.refuse(self._bad(413, "body_too_large", message, route.name))
            return
        treatment = treat(
            endpoint.kind,
            head.method,
            names_model=call.model != UNKNOWN_MODEL,
            usd_cap=self._settings.usd_cap,
            forward_unmetered=route.forward_unmetered,
        )
        if isinstance(treatment, Refused):
            await self._exchange.deny(call, treatment, client)
            return
        private: dict[str, Json] = {"target": recordable(target), "request_sha256": held.sha256}
        outgoing = Outgoing(origin=route.origin, head=head, target=target, body=held)
        keep = self._settings.max_body_bytes if self._settings.record_responses else 0
        watched = treatment is Treatment.METER
        tee = Tee(
            (lambda status, fields: registry.observer_of(call, status=status, headers=fields)) if watched else None,
            keep=keep,
        )
        await self._exchange.handle(Request(call=call, outgoing=outgoing, private=private), client, tee)

    def _call(self, route: Route, endpoint: Endpoint, head: RequestHead, target: bytes, held: HeldBody) -> Call:
        """What a held body asks for. Raises CodingError for a body that expands beyond the bound."""
        content = held.content()
        codings = content_codings(head.headers)
        if codings:
            try:
                content = decode_whole(content, codings, MAX_DECODED)
            except CodingError as error:
                if error.reason == "bomb":
                    raise
                content = b""
        path = target.partition(b"?")[0].decode("latin-1")
        call = registry.call_of(
            upstream=route.name, provider=route.provider, endpoint=endpoint, body=content, path=path
        )
        retries = first(head.headers, b"x-stainless-retry-count")
        return replace(
            call,
            body_bytes=held.size,
            credential=fingerprint(head.headers, self._key),
            retry_count=int(retries) if retries is not None and retries.isdigit() and len(retries) < 7 else None,
        )

    async def _pass(self, route: Route, endpoint: Endpoint, outgoing: Outgoing, client: HttpClient) -> None:
        """Forward what is no model call; its record is durable before its end is visible."""
        carried = await carry(self._upstream, outgoing, client, Tee(None), self._clock, self._clock.monotonic_us())
        private: dict[str, Json] = {"target": recordable(outgoing.target)}
        if carried.detail:
            private["detail"] = carried.detail
        await self._recorder.submit(
            Forwarded(
                upstream=route.name,
                method=outgoing.head.method.decode("latin-1"),
                endpoint=endpoint.name,
                endpoint_class=endpoint.kind.value,
                status=carried.head.status if carried.head is not None else None,
                reason=carried.reason,
                private=private,
            )
        )
        await finish(carried, client, route.family, self._settings.docket)

    # ── answers of docket's own ──

    async def _too_large(self, route: Route, error: TooLargeError | OSError, client: HttpClient) -> None:
        if isinstance(error, TooLargeError) and not error.everything:
            status, message = 413, f"the body is longer than {self._shelf.each} bytes"
        else:
            status, message = 429, "too many request bodies are held at once"
        await self._note_denied("body_too_large", final=status == 413, upstream=route.name)
        await client.refuse(self._bad(status, "body_too_large", message, route.name))

    def _bad(self, status: int, code: str, message: str, upstream: str = "", *, close: bool = False) -> Answer:
        route = self._routes.get(upstream)
        family = route.family if route is not None else ""
        return bad_request(status, code, f"docket: {message}", family, self._settings.docket, close=close)

    async def _note_denied(self, code: str, *, final: bool, upstream: str | None = None) -> None:
        def denied(count: int) -> Event:
            retry_after = None if final else 1
            return ModelDenied(code=code, final=final, count=count, upstream=upstream, retry_after=retry_after)

        await self._notes.note((code, upstream), denied)

    async def _note_unauthorized(self) -> None:
        await self._notes.note("unauthorized", lambda count: Unauthorized(count=count))


_NOTHING = RequestHead(b"GET", b"/", 1, ())
_NO_BODY = request_framing(_NOTHING)


def _json(status: int, document: JsonObject) -> Answer:
    return Answer(status=status, headers=((b"Content-Type", b"application/json"),), body=encode(document) + b"\n")
