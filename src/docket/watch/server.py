"""Watching over HTTP, on a listener of its own that is on no agent's path: event streams, views, documents, the page.

Invariants: nothing is answered without the token (but the page's own static files), nor to a Host that is not this
listener's (a web page elsewhere must not read it by rebinding a name); nothing is written; no reader is buffered for.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from aiohttp import web

from docket.clock import Clock
from docket.errors import DocketError
from docket.primitives.canonical import Json, encode
from docket.storage.paths import CHECKPOINTS, LEDGER, NUMBER, RECEIPT, find_run, runs_in
from docket.watch.saved import SavedView
from docket.watch.stream import RETRY, Place, Reader, opening, place
from docket.watch.tail import LedgerTail

POLL_US = 100_000
"""How often a run that somebody watches is looked at."""
SLOW_SECONDS = 10.0
"""A reader that has not taken what it was sent for this long is closed: it comes back with its cursor."""
MAX_STREAMS = 64
"""Streams at once: some people and some tools, each with a page or two."""
SHUTDOWN_SECONDS = 5.0
"""How long answers under way may take when the server ends; streams end at once."""
COOKIE = "docket-watch"
DOCUMENTS = {RECEIPT: "application/json", LEDGER: "application/x-ndjson", CHECKPOINTS: "text/plain"}
"""What a browser needs to verify a run by itself."""
PAGE_FILES = re.compile(r"(?:page\.js|page\.css|stream\.mjs|vendor/uPlot\.(?:mjs|css)|verifier/[a-z_]+\.mjs)")
"""What the page is made of, below ``static``: nothing else is served from there."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Watched:
    """One run that is watched: its tail, looked at for all of its readers at once, and its view."""

    def __init__(self, tail: LedgerTail, clock: Clock, kept_in: Path) -> None:
        self.tail = tail
        self.saved = SavedView(tail, kept_in)
        self.lost: str | None = None
        """Why the ledger could not be looked at the last time, if it could not."""
        self._clock = clock
        self._looked_us = clock.monotonic_us()

    def look(self) -> None:
        """Look at the ledger, unless another reader has just done so."""
        now = self._clock.monotonic_us()
        if now - self._looked_us < POLL_US:
            return
        self._looked_us = now
        try:
            self.tail.refresh()
            self.lost = None
        except DocketError as error:
            self.lost = str(error)


class WatchServer:
    """The server. ``start`` binds nothing: it is given a listening socket."""

    def __init__(self, docket_dir: Path, token: str, clock: Clock, kept_in: Path) -> None:
        self._docket_dir = docket_dir
        self._token = token
        self._clock = clock
        self._kept_in = kept_in
        self._runs: dict[str, Watched] = {}
        self.streams = 0
        """Streams that are open now."""
        self._ending = asyncio.Event()
        self._hosts: frozenset[str] = frozenset()
        self._runner: web.AppRunner | None = None

    async def start(self, listener: socket.socket, names: Iterable[str] = ()) -> int:
        """Serve on ``listener``, which is this one's from now on; ``names`` are further hosts to answer to."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._page)
        app.router.add_get("/static/{name:.+}", self._static)
        app.router.add_get("/docket/runs", self._list)
        app.router.add_get("/docket/events", self._events)
        app.router.add_get("/docket/view", self._view)
        app.router.add_get("/docket/documents/{name}", self._document)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()
        port = int(listener.getsockname()[1])
        hosts = {"127.0.0.1", "localhost", "[::1]", *names}
        self._hosts = frozenset(f"{host}:{port}" for host in hosts) | (hosts if port == 80 else frozenset())
        return port

    async def close(self) -> None:
        """Stop accepting; streams end and say when to come back; other answers have a few seconds."""
        self._ending.set()
        if self._runner is not None:
            await self._runner.cleanup()
        while self._runs:
            _, watched = self._runs.popitem()
            watched.saved.save()
            watched.tail.close()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        answer = self._refusal(request)
        if answer is None:
            try:
                answer = await handler(request)
            except DocketError as error:
                answer = web.json_response({"error": {"code": error.code, "message": str(error)}}, status=404)
            except web.HTTPException as error:
                error.headers.update(HEADERS)
                raise
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    def _refusal(self, request: web.Request) -> web.StreamResponse | None:
        """What is wrong with a request before it is looked at any further."""
        if request.headers.get("Host", "") not in self._hosts:
            return web.Response(status=421, text="this listener answers to its own address only\n")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return web.Response(status=403, text="another site may not read this\n")
        if request.path.startswith("/static/"):
            return None
        offered = request.query.get("token") if request.path == "/" else None
        if offered is not None and self._is_token(offered):
            answer = web.Response(status=303, headers={"Location": "/"})
            answer.set_cookie(COOKIE, self._token, httponly=True, samesite="Strict", path="/")
            return answer
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if (scheme == "Bearer" and self._is_token(bearer)) or self._is_token(request.cookies.get(COOKIE, "")):
            return None
        text = "open the address that docket watch printed: it holds a token\n"
        return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"}, text=text)

    def _is_token(self, offered: str) -> bool:
        return hmac.compare_digest(offered.encode(), self._token.encode())

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(body=_asset("page.html"), content_type="text/html", charset="utf-8")

    async def _static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if not PAGE_FILES.fullmatch(name):
            raise web.HTTPNotFound
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return web.Response(body=_asset(name), content_type=kind, charset="utf-8")

    async def _list(self, request: web.Request) -> web.Response:
        names = [path.name for path in runs_in(self._docket_dir)]
        return _json({"runs": list(names)})

    async def _view(self, request: web.Request) -> web.Response:
        watched = self._watched(request)
        watched.look()
        while True:
            if not watched.saved.catch_up(most=20_000):
                break
            await asyncio.sleep(0)  # other readers have their turn between parts of a long ledger
        view = watched.saved.view
        rate, left = view.usd_per_hour(), view.seconds_left()
        shown: dict[str, Json] = view.to_json() | {
            "live": watched.tail.live,
            "lost_source": watched.lost,
            "reserved_usd": format(view.reserved_usd, "f"),
            "usd_per_hour": None if rate is None else format(round(rate, 6), "f"),
            "seconds_left": None if left is None else int(left),
        }
        return _json(shown)

    async def _document(self, request: web.Request) -> web.StreamResponse:
        """A document of a run as it stands, for the verifier in the page."""
        name = request.match_info["name"]
        if name not in DOCUMENTS:
            raise web.HTTPNotFound
        data = self._watched(request).tail.run.read(name)
        if data is None:
            return web.Response(status=404, text=f"this run has no {name} yet\n")
        return web.Response(body=data, content_type=DOCUMENTS[name])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self.streams >= MAX_STREAMS:
            retry = {"Retry-After": "2"}
            return web.Response(status=503, headers=retry, text=f"{MAX_STREAMS} streams are open already\n")
        watched = self._watched(request)
        asked = request.headers.get("Last-Event-ID") or request.query.get("since")
        begun = place(watched.tail, asked, request.query.get("head"))
        headers = {
            "Content-Type": "text/event-stream",
            "X-Accel-Buffering": "no",
            **HEADERS,
        }  # a proxy must not hold it
        answer = web.StreamResponse(headers=headers)
        self.streams += 1
        try:
            await answer.prepare(request)
            await self._send(answer, watched, begun)
        except (ConnectionError, TimeoutError):
            pass  # the reader left, or read too slowly; it comes back with its cursor
        finally:
            self.streams -= 1
        return answer

    async def _send(self, answer: web.StreamResponse, watched: Watched, begun: Place) -> None:
        reader = Reader(watched.tail, begun, self._clock)
        await self._write(answer, opening(watched.tail, begun))
        while not self._ending.is_set():
            watched.look()
            for piece in reader.due():
                await self._write(answer, piece)
                if self._ending.is_set():
                    break
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_US / 1_000_000):
                    await self._ending.wait()
        await self._write(answer, RETRY)
        await answer.write_eof()

    async def _write(self, answer: web.StreamResponse, piece: bytes) -> None:
        """Send ``piece``; a reader that does not take it in time is told when to come back, and let go."""
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await answer.write(piece)
        except TimeoutError:
            with suppress(Exception):
                async with asyncio.timeout(0):
                    await answer.write(RETRY)
            raise

    def _watched(self, request: web.Request) -> Watched:
        """The run that a request names, watched from the first time that somebody asks for it."""
        name = request.query.get("run", "latest")
        if name != "latest" and not NUMBER.fullmatch(name):
            raise web.HTTPNotFound(text="name a run by its docket number, or latest\n")
        path = find_run(self._docket_dir, Path(name))
        watched = self._runs.get(path.name)
        if watched is None:
            watched = self._runs[path.name] = Watched(LedgerTail(path, self._clock), self._clock, self._kept_in)
        return watched


def _json(document: dict[str, Json]) -> web.Response:
    return web.Response(body=encode(document) + b"\n", content_type="application/json")


def _asset(name: str) -> bytes:
    return (files("docket.watch") / "static" / name).read_bytes()
