"""Following a run's events over HTTP, for programs: every event once and in order, through drops, restarts and sleep.

    for message in follow("http://127.0.0.1:7410/docket/events?run=latest", token=token, state=Path("cursor.json")):
        print(message.event, message.json())

``follow`` blocks; ``follow_async`` is the same for asyncio, on aiohttp. Both are quiet: a lost server is tried again,
at first after two seconds and at most after a minute, for as long as the caller goes on. ``state`` names a file that
keeps the cursor, so that a later process goes on where this one stopped.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from docket.client.sse import DEAD_SECONDS, Follower, Message, Parser, StreamError
from docket.clock import Clock, SystemClock

READ_BYTES = 64 * 1024
SLEPT_US = 5_000_000
"""The wall clock ahead of the monotonic one by more than this between two looks: the machine slept (or its clock was
set, which does no harm here)."""
FINAL = (400, 401, 403, 404)
"""Statuses that trying again does not change."""


@dataclass(slots=True)
class _Session:
    """What both clients share between connections."""

    url: str
    token: str | None
    state: Path | None
    clock: Clock
    follower: Follower = field(init=False)
    _gap_us: int = field(init=False)

    def __post_init__(self) -> None:
        saved = ""
        if self.state is not None:
            with suppress(OSError):
                saved = self.state.read_text(encoding="utf-8")
        self.follower = Follower.from_json(saved)
        self._gap_us = self._gap()

    def target(self) -> str:
        """The path with the query that takes the stream up where the reader stands."""
        parts = urlsplit(self.url)
        query = dict(parse_qsl(parts.query)) | self.follower.query()
        return f"{parts.path or '/'}?{urlencode(query)}"

    def headers(self) -> dict[str, str]:
        return {"Accept": "text/event-stream"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})

    def save(self) -> None:
        """Write the cursor down, if the caller wants that: what it names has been handled."""
        if self.state is not None:
            temporary = self.state.with_name(f".{self.state.name}.{os.getpid()}")
            temporary.write_text(self.follower.to_json(), encoding="utf-8")
            temporary.replace(self.state)

    def wait_seconds(self, asked: float | None) -> float:
        """How long to wait before the next try; an orderly end names its own time the first time."""
        gap = self._gap()
        if gap - self._gap_us > SLEPT_US:
            self.follower.woke()
        self._gap_us = gap
        first = self.follower.failures == 0
        wait = self.follower.wait_seconds(random.random())  # spreads clients, decides nothing
        return asked if asked is not None and first else wait

    def _gap(self) -> int:
        return self.clock.unix_us() - self.clock.monotonic_us()


def follow(
    url: str,
    *,
    token: str | None = None,
    state: Path | None = None,
    stop: threading.Event | None = None,
    on_lost: Callable[[float], None] | None = None,
    clock: Clock | None = None,
) -> Iterator[Message]:
    """Yield the news of the event stream at ``url`` until ``stop`` is set.

    ``state`` keeps the cursor. It is written when the caller asks for the next event, so that none is lost: one that
    was being handled when the process died comes again. ``on_lost`` is told how many seconds are waited before each
    further try. Raises StreamError where the server refuses for good.
    """
    session = _Session(url, token, state, clock or SystemClock())
    ended = stop or threading.Event()
    while not ended.is_set():
        parser = Parser()
        with suppress(OSError, http.client.HTTPException):
            for message in _connection(session, parser, ended):
                if session.follower.take(message):
                    yield message
                    session.save()
        if ended.is_set():
            return
        wait = session.wait_seconds(parser.retry_seconds)
        if on_lost is not None:
            on_lost(wait)
        ended.wait(wait)


def _connection(session: _Session, parser: Parser, ended: threading.Event) -> Iterator[Message]:
    parts = urlsplit(session.url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=DEAD_SECONDS)
    try:
        connection.request("GET", session.target(), headers=session.headers())
        answer = connection.getresponse()
        _check(answer.status, answer.headers.get_content_type())
        while not ended.is_set() and (data := answer.read1(READ_BYTES)):
            yield from parser.feed(data)
    finally:
        connection.close()


async def follow_async(
    url: str,
    *,
    token: str | None = None,
    state: Path | None = None,
    on_lost: Callable[[float], None] | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Message]:
    """Yield the news of the event stream at ``url`` until the caller stops asking; as ``follow`` otherwise."""
    import aiohttp

    session = _Session(url, token, state, clock or SystemClock())
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=DEAD_SECONDS, sock_read=DEAD_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as http_session:
        while True:
            parser = Parser()
            with suppress(aiohttp.ClientError, http.client.HTTPException, TimeoutError, OSError):
                async with http_session.get(origin + session.target(), headers=session.headers()) as answer:
                    _check(answer.status, answer.content_type)
                    async for data in answer.content.iter_any():
                        for message in parser.feed(data):
                            if session.follower.take(message):
                                yield message
                                session.save()
            wait = session.wait_seconds(parser.retry_seconds)
            if on_lost is not None:
                on_lost(wait)
            await asyncio.sleep(wait)


def _check(status: int, media_type: str) -> None:
    if status in FINAL:
        raise StreamError(f"the server refused the stream with status {status}", status)
    if status != 200:
        raise http.client.HTTPException(f"status {status}")
    if media_type != "text/event-stream":
        raise StreamError(f"what came is {media_type}, not an event stream", status)
