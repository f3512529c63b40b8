"""The provider's side: reused connections, verified TLS, the operator's proxy; errors translated once.

Invariant: one request, one attempt. Nothing is resent, followed, decompressed or remembered (no cookies); a connection
is used again only after a whole answer that leaves it clean.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from docket.boundary.http1.egress_proxy import ProxyRule
from docket.boundary.http1.origin import Origin
from docket.boundary.http1.response import Outgoing, Response, request_fields
from docket.boundary.http1.upstream_connection import Informed, Link
from docket.boundary.http1.wire import NO_BODY, ResponseHead, WireError, encode_request
from docket.errors import UpstreamError

KEEP_SECONDS = 20.0
"""How long an idle connection is kept: under the idle limits of the providers' edges, over an agent's think time."""
MAX_IDLE = 256
"""Idle connections kept for one origin: more would only be forgotten descriptors."""
DELAYED_ADDRESS_SECONDS = 0.25
"""Head start of the first address family (RFC 8305 section 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds: to connect, and of silence before the head or between bytes."""

    connect: float = 30.0
    silence: float = 300.0


class Idle:
    """Connections to one origin that wait for their next request."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._links: deque[tuple[float, Link]] = deque()

    def take(self) -> Link | None:
        """The one that was used last, if it may carry another request."""
        now = self._time()
        while self._links:
            since, link = self._links.pop()
            if now - since < KEEP_SECONDS and link.usable:
                link.reused = True
                return link
            link.close()
        return None

    def keep(self, link: Link) -> None:
        """Take in a connection that has carried a whole answer."""
        links, now = self._links, self._time()
        while links and (len(links) >= MAX_IDLE or now - links[0][0] > KEEP_SECONDS or links[0][1].ended):
            links.popleft()[1].close()
        links.append((now, link))

    def close(self) -> None:
        """Close all of them."""
        while self._links:
            self._links.pop()[1].close()


class Upstreams:
    """Connections to every upstream of a run; ``tasks`` owns whatever still sends while an answer is read."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        proxy: ProxyRule,
        limits: Limits,
        context: ssl.SSLContext | None = None,
        fill: Callable[[Outgoing], Outgoing] | None = None,
    ) -> None:
        """``fill`` puts in, last of all, what the agent must not hold."""
        self._tasks = tasks
        self._proxy = proxy
        self._by_proxy = "http" in proxy.schemes
        self._limits = limits
        self._context = context
        self._fill = fill
        self._idle: defaultdict[Origin, Idle] = defaultdict(Idle)

    def open(self, request: Outgoing, informed: Informed) -> Coroutine[Any, Any, Response]:
        """Send a request and return once the head of its answer is there; ``informed`` gets every 1xx before it.

        Raises UpstreamError, its reason ``connect``, ``timeout``, ``stale`` or ``truncated``.
        """
        if self._fill is not None:
            request = self._fill(request)
        idle = self._idle[request.origin]
        link = idle.take()
        return self._connect_and_begin(request, informed) if link is None else self._begin(link, request, informed)

    async def _connect_and_begin(self, request: Outgoing, informed: Informed) -> Response:
        link = await self._connect(request.origin)
        return await self._begin(link, request, informed)

    def _begin(self, link: Link, request: Outgoing, informed: Informed) -> Coroutine[Any, Any, Response]:
        response = Response(link, request.head.method, self._limits.silence, self._idle[request.origin].keep)
        if self._by_proxy and request.origin.scheme == "http":
            request = self._proxied(request)
        return response.begin(self._tasks, request, informed)

    async def upgrade(self, request: Outgoing) -> tuple[ResponseHead, Link]:
        """Ask for another protocol on a connection of its own (RFC 9110 section 7.8): the final head, and the bytes.

        After 101 the link carries the other protocol; any other answer has its body there. Whoever takes it closes
        the link. Raises UpstreamError as ``open`` does.
        """
        link = await self._connect(request.origin)
        if self._fill is not None:
            request = self._fill(request)
        if self._by_proxy and request.origin.scheme == "http":
            request = self._proxied(request)
        wanted = request.head.first(b"upgrade") or b""
        fields = [*request_fields(request, NO_BODY), b"Connection: Upgrade", b"Upgrade: %b" % wanted]
        try:
            await link.write(encode_request(request.head.method, request.target, fields))
            head = await link.final_head(self._limits.silence, None)
        except WireError as error:
            link.close()
            raise UpstreamError(f"malformed answer: {error}", reason="truncated") from error
        except BaseException:
            link.close()
            raise
        return head, link

    def _proxied(self, request: Outgoing) -> Outgoing:
        """In absolute form and with the proxy's credential, where one takes plain HTTP (RFC 9112 section 3.2.2)."""
        origin = request.origin
        if self._proxy.address(origin) is None:
            return request
        credential = self._proxy.credential(origin)
        fields = () if credential is None else (_proxy_authorization(credential),)
        target = b"http://" + origin.authority + request.target
        return replace(request, target=target, added=fields, spelled=None)

    async def _connect(self, origin: Origin) -> Link:
        where = f"{origin.host}:{origin.port}"
        try:
            async with asyncio.timeout(self._limits.connect):
                proxy = self._proxy.address(origin)
                return await (self._connect_through(proxy, origin) if proxy else self._connect_directly(origin))
        except TimeoutError as error:
            raise UpstreamError(f"no connection to {where} in {self._limits.connect:g} s", reason="connect") from error
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", None) or error.reason or "handshake"
            raise UpstreamError(f"TLS with {where} failed: {why}", reason="connect") from error
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UpstreamError(f"cannot connect to {where}: {why}", reason="connect") from error

    async def _connect_directly(self, origin: Origin) -> Link:
        loop = asyncio.get_running_loop()
        tls = self._tls() if origin.scheme == "https" else None
        _, link = await loop.create_connection(
            Link, origin.host, origin.port, ssl=tls, happy_eyeballs_delay=DELAYED_ADDRESS_SECONDS
        )
        return link

    async def _connect_through(self, proxy: Origin, origin: Origin) -> Link:
        """A connection through a proxy: CONNECT for https (RFC 9110 section 9.3.6), the proxy itself for http."""
        link = await self._connect_directly(proxy)
        if origin.scheme != "https":
            return link
        authority = origin.name + b":%d" % origin.port
        credential = self._proxy.credential(origin)
        fields = [b"Host: %b" % authority]
        if credential is not None:
            fields.append(_proxy_authorization(credential))
        try:
            await link.write(encode_request(b"CONNECT", authority, fields))
            answer = await link.head(self._limits.connect)
            if answer.status != 200:
                raise UpstreamError(f"the proxy answered {answer.status} to CONNECT", reason="connect")
            loop = asyncio.get_running_loop()
            secured = await loop.start_tls(link.transport, link, self._tls(), server_hostname=origin.host)
        except WireError as error:
            link.close()
            raise UpstreamError("the proxy's answer to CONNECT is malformed", reason="connect") from error
        except BaseException:
            link.close()
            raise
        assert secured is not None
        link.transport = secured
        return link

    def _tls(self) -> ssl.SSLContext:
        """The system's store and ``SSL_CERT_FILE`` decide; verification cannot be turned off."""
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def close(self) -> None:
        """Close every idle connection."""
        for idle in self._idle.values():
            idle.close()


def _proxy_authorization(credential: bytes) -> bytes:
    return b"Proxy-Authorization: %b" % credential
