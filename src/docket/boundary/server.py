"""The boundary of one run: a loopback listener that accepts connections, routes their requests, and drains.

Invariants: without the run's token nothing is reached but health; one request at a time on a connection; every
connection is served by a task of the group that the boundary was given, and none of them outlives ``close``.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from docket.boundary.agent_api import AgentApi
from docket.boundary.answers.denials import Denials
from docket.boundary.answers.refusals import RUN_ENDED, forbidden
from docket.boundary.call.background import BackgroundAnswers
from docket.boundary.call.client import HttpClient
from docket.boundary.call.forward import Forwarder, Plan
from docket.boundary.call.websocket import WebSockets
from docket.boundary.crowd import LOOK_SECONDS, MAX_CONNECTIONS, Crowd
from docket.boundary.health import Health
from docket.boundary.held_keys import HeldKeys
from docket.boundary.host_field import answers_to
from docket.boundary.http1.agent_connection import Connection, RequestBody
from docket.boundary.http1.upstream import Upstreams
from docket.boundary.http1.wire import Framing, RequestHead, WireError, request_framing
from docket.boundary.routes import OWN, TOKEN_BYTES, Address, Route, address
from docket.clock import Clock
from docket.errors import ClientGoneError, LedgerError
from docket.ledger.events import CarriageCode

BACKLOG = 1024
"""Connections that may wait to be accepted: an agent may start that many workers at once."""
LINGER_BYTES = 16 * 1024 * 1024
"""Unread bytes of a refused body that are still read, so that a reset does not take the answer with it."""
LINGER_SECONDS = 2.0


class Boundary:
    """Serves one run."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        routes: Iterable[Route],
        *,
        forwarder: Forwarder,
        sockets: WebSockets | None,
        agent_api: AgentApi,
        denials: Denials,
        upstreams: Upstreams,
        background: BackgroundAnswers,
        clock: Clock,
        on_fatal: Callable[[Exception], None],
        on_crowd: Callable[[str], None],
        health: Health | None = None,
        held: HeldKeys | None = None,
        most_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """``sockets`` None turns WebSockets away; ``on_fatal`` is called once a request could not be carried or
        recorded for a reason of docket's own, ``on_crowd`` the first time that a connection finds no room.
        ``denials``, ``upstreams`` and ``background`` are closed with the boundary.
        """
        self._tasks = tasks
        self._routes = {route.name: route for route in routes}
        self._forwarder = forwarder
        self._sockets = sockets
        self._agent_api = agent_api
        self._denials = denials
        self._upstreams = upstreams
        self._background = background
        self._on_fatal = on_fatal
        self._health = health
        self._clock = clock
        self._on_crowd = on_crowd
        self._crowd = Crowd(most_connections)
        self._crowded = False
        self._served: dict[asyncio.Task[None], Connection] = {}
        self._draining = False
        self._run_ended = False
        self._held = held
        self.token = secrets.token_urlsafe(TOKEN_BYTES) if held is None else held.token
        self._token = self.token.encode()
        self.port = 0

    async def start(self, listener: socket.socket) -> int:
        """Serve on ``listener``, which is bound to loopback and is the boundary's from now on. Return its port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self._opened), sock=listener, backlog=BACKLOG)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._looking = self._tasks.create_task(self._look())
        return self.port

    def base_url(self, name: str) -> str:
        """What the agent's variable for the upstream ``name`` must hold."""
        return f"http://127.0.0.1:{self.port}/r/{self.token}/{name}{self._routes[name].base_path}"

    @property
    def events_url(self) -> str:
        """Where the agent may assert events."""
        return f"http://127.0.0.1:{self.port}/r/{self.token}/{OWN}/events"

    @property
    def telemetry_url(self) -> str:
        """Where the agent may send its own telemetry (OTLP/HTTP)."""
        return f"http://127.0.0.1:{self.port}/r/{self.token}/{OWN}/otlp"

    @property
    def budget_url(self) -> str:
        """Where the agent may ask what is left."""
        return f"http://127.0.0.1:{self.port}/r/{self.token}/{OWN}/budget"

    def end_run(self) -> None:
        """Refuse every request to an upstream from now on, finally, with the code ``run_ended``."""
        self._run_ended = True
        if self._sockets is not None:
            self._sockets.end_run()

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
        self._looking.cancel()
        left = list(self._served)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        self._upstreams.close()
        try:
            await self._background.close()
        except LedgerError as error:
            self._on_fatal(error)
        await self._tell_turned_away()
        await self._denials.close()

    # ── connections ──

    def _opened(self, connection: Connection) -> None:
        if self._draining:
            connection.abort()
            return
        if not self._crowd.admit(connection):
            connection.transport.write(_said(b"503 Service Unavailable", b"too many connections are open"))
            connection.close()
            return
        task = self._tasks.create_task(self._serve(connection))
        self._served[task] = connection
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._crowd.leave(self._served.pop(task))

    async def _look(self) -> None:
        """End connections that only wait, and record those that found no room, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for connection in self._crowd.overdue(self._clock.monotonic_us()):
                if connection.begun:
                    connection.transport.write(_said(b"408 Request Timeout", b"the request head took too long"))
                connection.close()
            await self._tell_turned_away()

    async def _tell_turned_away(self) -> None:
        """Record the connections that found no room since the last time, and say the first time that there are some."""
        turned_away, self._crowd.turned_away = self._crowd.turned_away, 0
        if not turned_away:
            return
        if not self._crowded:
            self._crowded = True
            self._on_crowd(f"{self._crowd.most} connections of the agent are open; more are turned away")
        with suppress(LedgerError):  # a ledger that takes nothing more says so itself
            await self._denials.no_room(turned_away)

    async def _serve(self, connection: Connection) -> None:
        """Answer the requests of one connection, in order, until one side ends it."""
        try:
            while not self._draining:
                try:
                    head = await connection.head()
                    connection.idle = False
                    framing = head.framing or _framing(head)
                except WireError as error:
                    await self._malformed(connection, error)
                    return
                body = RequestBody(connection, head, framing)
                client = HttpClient(connection, head, body)
                try:
                    await self._route(head, body, client)
                except WireError as error:
                    if client.started:
                        raise ClientGoneError("a malformed body") from error
                    await client.refuse(self._denials.bad(error.status, "malformed_body", str(error), close=True))
                if not (client.reusable and body.done):
                    if not body.done:
                        await self._linger(connection)
                    return
                connection.idle = True
        except ClientGoneError:
            pass
        except Exception as error:  # noqa: BLE001 (the top of every request)
            connection.abort()
            self._on_fatal(error)
        finally:
            connection.close()

    async def _linger(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await connection.discard(LINGER_BYTES)
        except TimeoutError:
            connection.abort()

    async def _malformed(self, connection: Connection, error: WireError) -> None:
        """Answer a head that could not be read: a JSON error, and an event where it carried the token."""
        _, _, target = connection.start.partition(b" ")
        code = _UNREADABLE.get(error.status, "malformed_request")
        nobody = HttpClient(connection, _NOTHING, RequestBody(connection, _NOTHING, _NO_BODY))
        if address(target, self._token) is not None:
            await self._denials.turn_away(error.status, code, str(error), nobody, close=True)
        else:
            await self._denials.unauthorized()
            await nobody.refuse(self._denials.bad(error.status, code, str(error), close=True))
        await self._linger(connection)

    async def _connect(self, head: RequestHead, client: HttpClient) -> None:
        """CONNECT to the boundary itself, as one real agent sends it, leads back here; there is no other tunnel."""
        if head.target in (b"127.0.0.1:%d" % self.port, b"localhost:%d" % self.port, b"[::1]:%d" % self.port):
            await client.connection.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            client.reusable = True
            return
        await self._denials.unauthorized()
        await client.refuse(replace(forbidden(), close=True))

    # ── routes ──

    def _route(self, head: RequestHead, body: RequestBody, client: HttpClient) -> Awaitable[None]:
        plan = None if head.known is None else head.known.plan
        if isinstance(plan, Plan) and body.framing.kind == "sized" and not self._run_ended:
            return self._forwarder.decide(plan, head, body, client)
        if head.method == b"CONNECT":
            return self._connect(head, client)
        found = address(head.target, self._token)
        if found is None:
            return self._without_token(head, client)
        if found.name == OWN:
            return self._agent_api.answer(head, found.rest, body, client)
        route = self._routes.get(found.name)
        if route is None:
            known = ", ".join(sorted(self._routes)) or "none"
            message = f"no upstream {found.name!r} (known: {known})"
            return client.refuse(self._denials.bad(404, "unknown_upstream", message))
        if self._held is not None and self._held.lacks(route, head):
            return self._without_key(route, client)
        if self._run_ended:
            return self._denials.deny(RUN_ENDED, client, route.family, route.name)
        if b"upgrade" in head.named and b"websocket" in head.tokens(b"upgrade"):
            return self._upgrade(route, head, found, body, client)
        return self._forwarder.forward(route, head, found.rest, body, client)

    async def _upgrade(
        self, route: Route, head: RequestHead, found: Address, body: RequestBody, client: HttpClient
    ) -> None:
        """Relay the Responses API; else 426, which makes a real agent turn to HTTP at once (404 costs it seconds).

        A body that an upgrade announces is refused: its bytes could be read as the other protocol's.
        """
        if not body.done:
            await self._denials.turn_away(
                400,
                "upgrade_with_body",
                "an upgrade request must not announce a body",
                client,
                family=route.family,
                upstream=route.name,
                close=True,
            )
            return
        if self._sockets is not None and await self._sockets.carry(route, head, found.rest, body, client.connection):
            raise ClientGoneError("the WebSocket has ended")
        message = "WebSocket is not carried here: use HTTP"
        await self._denials.turn_away(
            426, "websocket_unsupported", message, client, family=route.family, upstream=route.name, close=True
        )

    def _without_key(self, route: Route, client: HttpClient) -> Awaitable[None]:
        message = f"docket holds no key for the upstream {route.name!r}: give it one (docs/egress.md)"
        return self._denials.turn_away(
            400, "no_key_held", message, client, family=route.family, upstream=route.name, close=True
        )

    async def _without_token(self, head: RequestHead, client: HttpClient) -> None:
        path, _, _ = head.target.partition(b"?")
        host = head.first(b"host")
        ours = answers_to(host.decode("latin-1") if host else None)
        if self._health is not None and ours and head.method in (b"GET", b"HEAD") and path.startswith(b"/docket/"):
            accept = head.first(b"accept")
            answer = self._health.answer(path.decode("latin-1"), accept.decode("latin-1") if accept else None)
            if answer is not None:
                await client.refuse(answer)
                return
        await self._denials.unauthorized()
        await client.refuse(forbidden())


def _framing(head: RequestHead) -> Framing:
    """How the body of a request ends. Raises WireError where two readers could disagree, of it or of the host."""
    framing = request_framing(head)
    if len(head.named.get(b"host", ())) > 1:
        raise WireError("more than one Host field")
    return framing


def _said(status: bytes, why: bytes) -> bytes:
    """Return an answer to a connection whose request was not read."""
    body = b"docket: " + why + b"\n"
    head = b"HTTP/1.1 %b\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: text/plain\r\n" % status
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


_UNREADABLE: dict[int, CarriageCode] = {414: "target_too_long", 431: "headers_too_long"}
_NOTHING = RequestHead(b"GET", b"/", 1, ())
_NO_BODY = request_framing(_NOTHING)
