"""The second listener: health and metrics and nothing else, so that a kubelet and a Prometheus elsewhere reach them.

No spending route leaves loopback with it. Serves each route under ``/docket/`` and, since probes and scrapers ask there
by habit, at the root too. On aiohttp, and imported only where such a listener is asked for.
"""

from __future__ import annotations

import socket

from aiohttp import web

from docket.boundary.health import PREFIX, Health
from docket.boundary.host_field import answers_to

BACKLOG = 64
"""Connections waiting to be accepted: a handful of probes and one scraper."""
SHUTDOWN_SECONDS = 0.5
"""How long an answer under way may take when the run ends."""


class HealthListener:
    """The listener; ``name`` is the host that the operator gave."""

    def __init__(self, health: Health, name: str = "") -> None:
        self._health = health
        self._name = name
        self._runner: web.ServerRunner | None = None

    async def start(self, listener: socket.socket) -> int:
        """Serve on ``listener``, which is bound and is this one's from now on; return its port."""
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
        if not answers_to(request.headers.get("Host"), self._name):
            return web.Response(status=421, text="this listener answers to its own address and name only\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"}, text="only GET and HEAD\n")
        path = request.path if request.path.startswith(PREFIX) else PREFIX + request.path.removeprefix("/")
        answer = self._health.answer(path, request.headers.get("Accept"))
        if answer is None:
            names = "livez, startupz, readyz, healthz, metrics"
            return web.Response(status=404, text=f"only {{{names}}} are served here, at / and at {PREFIX}\n")
        headers = {name.decode(): value.decode() for name, value in answer.headers}
        return web.Response(status=answer.status, body=answer.body, headers=headers)
