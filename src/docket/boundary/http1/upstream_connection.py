"""Bytes of one connection to an upstream, as an asyncio protocol.

Owns buffering and the two waits (for bytes, for room); of HTTP it knows only where a head ends. Invariant: the end of
a connection wakes every waiter, and bytes that arrived before it are still there to be read.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from docket.boundary.http1.receiver import Receiver, wake
from docket.boundary.http1.wire import MAX_RESPONSE_HEAD, ResponseHead, WireError, parse_response
from docket.errors import UpstreamError

Informed: TypeAlias = Callable[[ResponseHead], Awaitable[None]]
"""Takes a 1xx head on its way to the agent."""
MAX_INTERIM = 100
"""Interim answers (1xx, RFC 9110 section 15.2) that are passed on before the final one."""
INTERIM_SECONDS = 1.0
"""How long interim answers count as a sign of life."""


class Link(Receiver):
    """A connection to an upstream. ``ended`` once no more bytes will come, ``error`` when it ended badly."""

    def __init__(self) -> None:
        super().__init__()
        self._writing: asyncio.Future[bool] | None = None
        self._paused_writing = False
        self.ended = False
        self.error: Exception | None = None
        self.reused = False
        """Whether it carried an answer before and its next one has not begun."""
        self.agent_sends = False
        """Whether this side waits for more of the agent's request: the upstream's silence does not count meanwhile."""
        self._scanned = 0
        self._watch: asyncio.TimerHandle | None = None
        self._silence = self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLHUP)

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def pause_writing(self) -> None:
        self._paused_writing = True

    def resume_writing(self) -> None:
        self._paused_writing = False
        wake(self._writing)

    def _end(self, error: Exception | None) -> None:
        self.ended = True
        self.error = self.error or error
        self._unwatch()
        wake(self._reading, False)
        wake(self._writing)

    def fail(self, error: Exception) -> None:
        """Close at once, for the reason ``error``."""
        self._end(error)
        self.transport.abort()

    @property
    def usable(self) -> bool:
        """Whether a further request may be sent: alive, and nothing unasked for has arrived, not even unread."""
        return not (self.ended or self._buffer or self.transport.is_closing() or self._poll.poll(0))

    @property
    def ready(self) -> bool:
        """Whether bytes can be taken without waiting."""
        return bool(self._buffer)

    def more(self, silence: float, *, anew: bool = True) -> asyncio.Future[bool]:
        """To wait for bytes beyond those received: False when none come. Fails after ``silence`` seconds without.

        Those seconds count from now, or, where they do not begin ``anew``, from where they were counted before.
        """
        coming = self._reading = self._loop.create_future()
        if self.ended:
            coming.set_result(False)
            return coming
        self._silence = silence
        if anew:
            self._since = self._loop.time()
        if self._watch is None:
            self._watch = self._loop.call_at(self._since + silence, self._look)
        return coming

    def heard(self) -> None:
        """Count silence from now: the upstream takes what is sent to it."""
        self._since = self._loop.time()

    def _look(self) -> None:
        """One timer for as long as the connection lives, set again rather than moved with every byte."""
        self._watch = None
        if self.ended or self._reading is None or self._reading.done():
            return
        if self.agent_sends:
            self.heard()
        rest = self._since + self._silence - self._loop.time()
        if rest <= 0:
            self.fail(UpstreamError(f"no byte for {self._silence:g} s", reason="timeout"))
        else:
            self._watch = self._loop.call_later(rest, self._look)

    async def head(self, silence: float, *, anew: bool = True) -> ResponseHead:
        """The next head, within ``silence`` seconds of the last byte (``anew`` as in ``more``).

        Raises UpstreamError where the connection ends before it, WireError where it is malformed.
        """
        while (head := self._next_head()) is None:
            if not await self.more(silence, anew=anew):
                raise UpstreamError("the connection ended before the head", reason="truncated")
        return head

    def _next_head(self) -> ResponseHead | None:
        """The head that has arrived, None where it is not whole. Raises WireError."""
        buffer = self._buffer
        if not buffer:
            return None
        end = buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        if end >= 0:
            self.reused, self._scanned = False, 0
            return parse_response(self.take(end + 4)[:-4])
        self._scanned = len(buffer)
        if self._scanned > MAX_RESPONSE_HEAD:
            raise WireError(f"the head is longer than {MAX_RESPONSE_HEAD} bytes")
        return None

    async def final_head(self, silence: float, informed: Informed | None) -> ResponseHead:
        """The head of the answer, or of a switch of protocols (101); ``informed`` gets every interim one before it.

        Interim answers of the first second are signs of life; later ones are silence, and too many are refused, so
        that none can keep a call open for ever. Raises as ``head`` does.
        """
        begun, anew = self._loop.time(), True
        interim = 0
        while True:
            head = self._next_head() if self._buffer else None
            while head is None:
                if not await self.more(silence, anew=anew):
                    raise UpstreamError("the connection ended before the head", reason="truncated")
                head = self._next_head()
            if head.status >= 200 or head.status == 101:
                return head
            interim += 1
            if interim > MAX_INTERIM:
                raise WireError(f"more than {MAX_INTERIM} interim answers")
            anew = self._loop.time() - begun < INTERIM_SECONDS
            if informed is not None:
                await informed(head)

    async def write(self, data: bytes) -> None:
        """Send, waiting for room. An upstream that ended its side is noticed by the reader, who knows its answer."""
        if self.ended or self.transport.is_closing():
            return
        self.transport.write(data)
        while self._paused_writing and not self.ended:
            self._writing = self._loop.create_future()
            try:
                await self._writing
            finally:
                self._writing = None

    def close(self) -> None:
        """Close at once."""
        self.ended = True
        self._unwatch()
        self.transport.abort()

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
