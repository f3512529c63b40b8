"""One connection of the agent: request heads in order, their bodies, and what is written back.

Owns the bytes between the socket and a request. Invariant: requests are handed out one at a time, so pipelined ones are
answered in order; reading pauses when nobody takes the bytes; a peer that leaves is told once to whoever listens.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable

from docket.boundary.http1.receiver import HIGH_WATER, Receiver, wake
from docket.boundary.http1.wire import (
    MAX_HEAD,
    MAX_LINE,
    ChunkedDecoder,
    Framing,
    Header,
    RequestHead,
    RequestHeads,
    WireError,
)
from docket.errors import ClientGoneError

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
START = 512
"""Bytes of a malformed head that are looked at for the token: method, path prefix and token are far shorter."""
_EMPTY_LINES = re.compile(rb"\A(?:\r\n)+")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(Receiver):
    """A connection that the agent opened."""

    def __init__(self, opened: Callable[[Connection], None]) -> None:
        super().__init__()
        self._opened = opened
        self._writing: set[asyncio.Future[bool]] = set()
        self._paused_writing = False
        self._scanned = 0
        self._heads = RequestHeads()
        self._listener: Callable[[], None] | None = None
        self.gone = False
        self.idle = True
        """Whether no request is under way."""
        self.requests = 0
        """Heads that were read, malformed ones included."""
        self.start = b""
        """The first ``START`` bytes of the last head, malformed or not."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opened(self)

    def eof_received(self) -> bool:
        """A peer that ends its side while a call runs has left: a closed socket looks the same from here."""
        self._lost()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()

    def _lost(self) -> None:
        if self.gone:
            return
        self.gone = True
        wake(self._reading, False)
        self._make_room()
        if self._listener is not None:
            self._listener()

    def pause_writing(self) -> None:
        self._paused_writing = True

    def resume_writing(self) -> None:
        self._paused_writing = False
        self._make_room()

    def _make_room(self) -> None:
        for waiter in tuple(self._writing):
            wake(waiter)

    def on_gone(self, listener: Callable[[], None] | None) -> None:
        """Call ``listener`` once when the peer leaves (now, if it has left); None stops listening."""
        self._listener = listener
        if self.gone and listener is not None:
            listener()

    def give_back(self, data: bytes) -> None:
        """Put bytes that belong to the next request in front again."""
        self._buffer = data + self._buffer

    async def more(self) -> None:
        """Wait until bytes have arrived. Raises ClientGoneError when none will."""
        if self.gone or not await self._coming():
            raise ClientGoneError("the agent closed its connection")

    @property
    def begun(self) -> bool:
        """Whether bytes of a next request have arrived and were not taken yet."""
        return bool(self._buffer)

    async def head(self) -> RequestHead:
        """The next request's head. Raises ClientGoneError when there is none, WireError for a malformed one."""
        self._scanned = 0
        try:
            while (raw := self._cut_head() if self._buffer else None) is None:
                self._reading = self._loop.create_future()
                if self.gone or not await self._reading:
                    raise ClientGoneError("the agent closed its connection")
        except WireError:
            self.start = self._buffer[:START]
            raise
        self.start = raw[:START]
        self.requests += 1
        return self._heads.read(raw)

    def _cut_head(self) -> bytes | None:
        buffer = self._buffer
        if buffer.startswith(b"\r\n"):  # RFC 9112 section 2.2: empty lines before a request line
            self._buffer = buffer = _EMPTY_LINES.sub(b"", buffer, 1)
        end = buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        self._scanned = len(buffer)
        if 0 <= end <= MAX_HEAD:
            return self.take(end + 4)[:-4]
        line_end = buffer.find(b"\r\n", 0, MAX_LINE + 2)
        if line_end < 0 and len(buffer) > MAX_LINE:
            raise WireError(f"the request line is longer than {MAX_LINE} bytes", status=414)
        size = (end if end >= 0 else len(buffer)) - (line_end + 2)
        if line_end >= 0 and size > MAX_HEAD:
            raise WireError(f"the header fields are longer than {MAX_HEAD} bytes", status=431)
        if end >= 0:
            return self.take(end + 4)[:-4]
        if b"\n\n" in buffer:
            raise WireError("a line ends without a carriage return")
        return None

    async def write(self, data: bytes) -> None:
        """Send ``data``, waiting while the peer does not read. Raises ClientGoneError."""
        if self.gone or self.transport.is_closing():
            raise ClientGoneError("the agent closed its connection")
        self.transport.write(data)
        if self._paused_writing:
            await self._drained()

    async def _drained(self) -> None:
        while self._paused_writing and not self.gone:
            room = self._loop.create_future()
            self._writing.add(room)  # beside an answer, a 100 Continue may wait
            try:
                await room
            finally:
                self._writing.discard(room)
        if self.gone:
            raise ClientGoneError("the agent closed its connection")

    async def discard(self, limit: int) -> None:
        """End this side and read on to the peer's end, at most ``limit`` bytes, so that a reset loses no answer."""
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
        while limit > 0 and not self.gone:
            limit -= len(self.take(HIGH_WATER))
            if not self._buffer:
                await self.more()

    def close(self) -> None:
        """Close after what was written is sent."""
        self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    def reset(self) -> None:
        """Close at once with a reset (RFC 9293 section 3.10.7.4), which no reader can take for a clean end."""
        own = self.transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()


class RequestBody:
    """The body of the request that a connection is at. ``done`` once its end was read, ``trailers`` then whole."""

    def __init__(self, connection: Connection, head: RequestHead, framing: Framing) -> None:
        self._connection = connection
        self._left = framing.length
        self._chunks = ChunkedDecoder() if framing.kind == "chunked" else None
        self.framing = framing
        self.done = framing.kind == "none"
        self.trailers: tuple[Header, ...] = ()
        self._awaited = (
            not self.done and head.minor == 1 and b"expect" in head.named and b"100-continue" in head.tokens(b"expect")
        )
        self.continued = False
        """Whether this side answered 100 Continue, so that the upstream's own must not follow."""

    async def read(self) -> bytes:
        """The next bytes, empty at the end. Raises ClientGoneError, or WireError for broken chunks."""
        while not self.done:
            data = self.read_ready()
            if data or self.done:
                return data
            if self._awaited:
                self._awaited, self.continued = False, True
                await self._connection.write(CONTINUE)
            await self._connection.more()
        return b""

    def read_ready(self) -> bytes:
        """What can be read without waiting, empty where that is nothing. Raises WireError."""
        if self._chunks is None:
            data = self._connection.take(self._left)
            self._left -= len(data)
            self.done = self._left == 0
            return data
        raw = self._connection.take(HIGH_WATER * 2)
        data = self._chunks.feed(raw) if raw else b""
        if self._chunks.done:
            self.done, self.trailers = True, self._chunks.trailers
            self._connection.give_back(self._chunks.rest)
        return data
