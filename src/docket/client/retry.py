"""Trying failed model calls again, for agents: full jitter, ``Retry-After`` honoured, bounded, and never multiplied.

    retry = Retry()
    answer = retry.call(lambda: client.chat.completions.create(...))

    client = openai.OpenAI(max_retries=0, http_client=httpx.Client(transport=httpx_transport(Retry())))

Only what passes is tried again: nobody at the address, 409, 425, 429, 500, 502, 503, 529. A request that was sent and
got no answer, or that a gateway gave up on (408, 504), may have been done and billed: it is sent again only where the
caller says that it is ``idempotent``. A call
inside another that is tried again is tried once, and all of a process share one allowance, so that an outage makes at
most a tenth more calls in the long run.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from docket.clock import Clock, SystemClock

T = TypeVar("T")
PASSING = frozenset((409, 425, 429, 500, 502, 503, 529))
"""Statuses by which a provider, or docket, says that it did nothing, and may later."""
UNKNOWN = frozenset((408, 504))
"""Statuses after which the request may have been done."""
NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ClientConnectorError", "ConnectionRefusedError")
"""Names of exceptions, of httpx, aiohttp and the standard library, for requests that left no byte."""
MAX_CAUSES = 8
_inside: ContextVar[bool] = ContextVar("docket.client.retry", default=False)


class Allowance:
    """How many further attempts all calls of a process may make: some at once, then one for every ten calls."""

    def __init__(self, burst: float = 10.0, share: float = 0.1) -> None:
        """``burst`` attempts at once; each call that is begun gives ``share`` of one back."""
        self._burst, self._share = burst, share
        self._left = burst
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Note a call."""
        with self._lock:
            self._left = min(self._burst, self._left + self._share)

    def take(self) -> bool:
        """Take one further attempt, if there is one left."""
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            return True


SHARED = Allowance()
"""That of this process."""


@dataclass(frozen=True, slots=True)
class Passing:
    """A failure that may pass; ``seconds`` is what the other side asked to wait."""

    seconds: float | None = None


@dataclass(slots=True, kw_only=True)
class Retry:
    """How calls are tried again. Times in seconds."""

    attempts: int = 4
    base: float = 0.5
    """Bound of the first wait; doubled for each further one. The wait is anywhere below (full jitter)."""
    most: float = 30.0
    """No wait is longer; where the other side asks for more, the call is given up."""
    total: float = 300.0
    """No attempt begins later than this after the first."""
    idempotent: bool = False
    """Whether a request that may have been done may be sent again."""
    allowance: Allowance = field(default_factory=lambda: SHARED)
    clock: Clock = field(default_factory=SystemClock)
    chance: Callable[[], float] = random.random
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to give up waits of ``call``."""

    def call(self, function: Callable[[], T]) -> T:
        """Call ``function`` until it returns, or raise its last exception."""
        with _once() as nested:
            began, number = self.clock.monotonic_us(), 1
            self.allowance.begin()
            while True:
                try:
                    return function()
                except Exception as error:
                    wait = None if nested else self.wait(failure_of(error, idempotent=self.idempotent), number, began)
                    if wait is None or self.stop.wait(wait):
                        raise
                    number += 1

    async def call_async(self, function: Callable[[], Awaitable[T]]) -> T:
        """Await ``function()`` until it returns, or raise its last exception. A cancellation is never held up."""
        with _once() as nested:
            began, number = self.clock.monotonic_us(), 1
            self.allowance.begin()
            while True:
                try:
                    return await function()
                except Exception as error:
                    wait = None if nested else self.wait(failure_of(error, idempotent=self.idempotent), number, began)
                    if wait is None:
                        raise
                    number += 1
                await asyncio.sleep(wait)

    def wait(self, failure: Passing | None, number: int, began_us: int) -> float | None:
        """How long to wait after attempt ``number`` (1, 2, ...) ended with ``failure``; None to give up.

        ``began_us`` is when the first attempt began, on the monotonic clock.
        """
        if failure is None or number >= self.attempts:
            return None
        wait = min(self.most, self.base * 2.0 ** (number - 1)) * self.chance()
        if failure.seconds is not None:
            if failure.seconds > self.most:
                return None
            wait = max(wait, failure.seconds)
        spent = (self.clock.monotonic_us() - began_us) / 1_000_000
        return wait if spent + wait <= self.total and self.allowance.take() else None


@contextmanager
def _once() -> Iterator[bool]:
    """Give whether this call stands inside another one that is tried again."""
    nested = _inside.get()
    token = _inside.set(True)
    try:
        yield nested
    finally:
        _inside.reset(token)


def failure_of(error: BaseException, *, idempotent: bool = False) -> Passing | None:
    """What an exception of an SDK or an HTTP client says; None for a failure that trying again does not change."""
    for cause in _causes(error):
        status = _status(cause)
        if status is not None:
            passes = status in PASSING or (idempotent and status in UNKNOWN)
            return Passing(_retry_after(_headers(cause))) if passes else None
        names = {kind.__name__ for kind in type(cause).__mro__}
        if names & set(NEVER_SENT):
            return Passing()
    return Passing() if idempotent and any(_is_connection(cause) for cause in _causes(error)) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """``error`` and what it was raised from."""
    for _ in range(MAX_CAUSES):
        yield error
        cause = error.__cause__ or error.__context__
        if cause is None:
            return
        error = cause


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    places = ((error, "status_code"), (response, "status_code"), (error, "status"), (error, "code"))
    found = (getattr(place, name, None) for place, name in places)
    return next((value for value in found if type(value) is int and 100 <= value < 600), None)


def _headers(error: BaseException) -> Any:
    return getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None) or {}


def _retry_after(headers: Any) -> float | None:
    """``Retry-After`` in seconds (RFC 9110 section 10.2.3); a date against that of the answer, not a clock."""
    said = headers.get("retry-after", "") or ""
    if said.isascii() and said.isdecimal():
        return float(said[:9])
    try:
        return max(0.0, (parsedate_to_datetime(said) - parsedate_to_datetime(headers["date"])).total_seconds())
    except (ValueError, TypeError, KeyError):
        return None


def _is_connection(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(names & {"TransportError", "ClientError"})


class _RefusedError(Exception):
    """An answer that says that the request may succeed later."""

    def __init__(self, response: Any) -> None:
        super().__init__(f"status {response.status_code}")
        self.response = response


def httpx_transport(retry: Retry, transport: Any = None, *, library: Any = None) -> Any:
    """A transport for ``httpx.Client``, and so for the official SDKs, that tries requests again.

    ``transport`` carries them, by default httpx's own. ``library`` is the module, where the SDK is built on another
    than ``httpx`` (Anthropic's on ``httpx2``). A request whose body can be read once only is sent once. The last answer
    is returned as it came.
    """
    httpx = library or importlib.import_module("httpx")
    inner = transport or httpx.HTTPTransport()

    class Transport(httpx.BaseTransport):  # type: ignore[misc,name-defined,unused-ignore]
        def handle_request(self, request: Any) -> Any:
            if not isinstance(request.stream, httpx.ByteStream):
                return inner.handle_request(request)
            refused: list[Any] = []

            def once() -> Any:
                while refused:
                    refused.pop().close()
                response = inner.handle_request(request)
                if response.status_code in PASSING | UNKNOWN:
                    refused.append(response)
                    raise _RefusedError(response)
                return response

            try:
                return retry.call(once)
            except _RefusedError:
                return refused.pop()

        def close(self) -> None:
            inner.close()

    return Transport()


def httpx_async_transport(retry: Retry, transport: Any = None, *, library: Any = None) -> Any:
    """The same for ``httpx.AsyncClient``."""
    httpx = library or importlib.import_module("httpx")
    inner = transport or httpx.AsyncHTTPTransport()

    class Transport(httpx.AsyncBaseTransport):  # type: ignore[misc,name-defined,unused-ignore]
        async def handle_async_request(self, request: Any) -> Any:
            if not isinstance(request.stream, httpx.ByteStream):
                return await inner.handle_async_request(request)
            refused: list[Any] = []

            async def once() -> Any:
                while refused:
                    await refused.pop().aclose()
                response = await inner.handle_async_request(request)
                if response.status_code in PASSING | UNKNOWN:
                    refused.append(response)
                    raise _RefusedError(response)
                return response

            try:
                return await retry.call_async(once)
            except _RefusedError:
                return refused.pop()

        async def aclose(self) -> None:
            await inner.aclose()

    return Transport()


def aiohttp_middleware(retry: Retry) -> Any:
    """A middleware for ``aiohttp.ClientSession(middlewares=(...,))`` that tries requests again."""

    async def middleware(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        refused: list[Any] = []

        async def once() -> Any:
            while refused:
                refused.pop().close()
            response = await handler(request)
            if response.status in PASSING | UNKNOWN:
                refused.append(response)
                raise _RefusedError(_AiohttpAnswer(response))
            return response

        try:
            return await retry.call_async(once)
        except _RefusedError:
            return refused.pop()

    return middleware


class _AiohttpAnswer:
    """An answer of aiohttp, under the names of httpx."""

    def __init__(self, response: Any) -> None:
        self.status_code, self.headers = response.status, response.headers
