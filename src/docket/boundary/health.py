"""Health and metrics over HTTP, without a token: on the boundary's loopback listener and on a second one.

Owns the five routes and the second listener, which serves them and nothing else, so that a kubelet and a Prometheus
elsewhere reach them while no spending route leaves loopback. A probe calls no upstream and writes no event.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from docket.control.readiness import Status, readiness, summary
from docket.primitives.canonical import JsonObject, encode

PREFIX = "/docket/"
JSON = "application/json"
BACKLOG = 64
"""Connections waiting on the second listener: a handful of probes and one scraper."""
SHUTDOWN_SECONDS = 0.5
"""How long an answer under way may take when the run ends."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a health route."""

    status: int
    content_type: str
    body: bytes


class Health:
    """The five routes: ``livez``, ``startupz``, ``readyz``, ``healthz``, ``metrics``."""

    def __init__(self, status: Callable[[], Status], render: Callable[[str | None], tuple[str, bytes]]) -> None:
        """``render`` gives content type and exposition for an ``Accept`` header."""
        self._status = status
        self._render = render

    def answer(self, path: str, accept: str | None = None) -> Answer | None:
        """The answer to GET ``path`` (without query), or None if it is none of the five."""
        match path.removeprefix(PREFIX) if path.startswith(PREFIX) else "":
            case "livez":
                return _json(200, {"alive": True})
            case "startupz":
                started = self._status().listening
                return _json(200 if started else 503, {"started": started})
            case "readyz":
                answer = readiness(self._status())
                return _json(200 if answer["ready"] else 503, answer)
            case "healthz":
                return _json(200, summary(self._status()))
            case "metrics":
                content_type, body = self._render(accept)
                return Answer(200, content_type, body)
            case _:
                return None


class HealthListener:
    """The second listener."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._runner: web.ServerRunner | None = None

    async def start(self, listener: socket.socket) -> int:
        """Serve on ``listener``, which is bound and is this one's from now on; gives its port."""
        server = web.Server(self._handle, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        await web.SockSite(self._runner, listener, backlog=BACKLOG).start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening; an answer under way may end."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"}, text="only GET and HEAD\n")
        answer = self._health.answer(request.path, request.headers.get("Accept"))
        if answer is None:
            names = "livez, startupz, readyz, healthz, metrics"
            return web.Response(status=404, text=f"only {PREFIX}{{{names}}} are served here\n")
        return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})


def _json(status: int, document: JsonObject) -> Answer:
    return Answer(status, JSON, encode(document) + b"\n")
