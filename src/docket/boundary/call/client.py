"""The agent's side of one call: head, chunks, end, in the framing that its version of HTTP and the upstream agree on.

Invariant: at most one final answer per request; a cut is never made to look like an end; a peer that left is always a
ClientGoneError, never an error of the upstream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from docket.boundary.answers.refusals import Answer
from docket.boundary.http1.agent_connection import Connection, RequestBody
from docket.boundary.http1.headers import crossing
from docket.boundary.http1.wire import (
    NO_BODY,
    UNTIL_CLOSE,
    Framing,
    Header,
    RequestHead,
    ResponseHead,
    encode_chunk,
    encode_last_chunk,
    encode_response,
    field_lines,
)


class HttpClient:
    """Answers one request of a connection. ``reusable`` says whether the connection can carry another afterwards."""

    def __init__(self, connection: Connection, head: RequestHead, body: RequestBody) -> None:
        self._connection = connection
        self._head = head
        self._body = body
        self._framing = NO_BODY
        self._unsent = b""
        self.started = False
        self.reusable = head.persists if b"connection" in head.named else head.minor == 1
        self.on_gone = connection.on_gone
        """Call a listener once when the agent leaves; None stops listening."""

    @property
    def connection(self) -> Connection:
        """The connection itself, for another protocol on it."""
        return self._connection

    async def informational(self, head: ResponseHead) -> None:
        """Pass on a 1xx of the upstream (RFC 9110 section 15.2), unless the agent has had that 100 already."""
        if self._head.minor == 0 or (head.status == 100 and self._body.continued):
            return
        await self._connection.write(encode_response(head.status, head.reason, crossing(head, NO_BODY)))

    def start(self, head: ResponseHead, framing: Framing) -> None:
        """Take the head of the answer; it leaves with the first bytes of the body, or on ``flush``."""
        if framing.kind == "chunked" and self._head.minor == 0:
            framing = UNTIL_CLOSE
        self._framing, self.started = framing, True
        self.reusable = self.reusable and framing.kind != "close" and self._body.done
        lines = crossing(head, framing)
        if not (self.reusable and self._head.minor):
            lines += self._persistence()
        self._unsent = encode_response(head.status, head.reason, lines)

    async def flush(self) -> None:
        """Send the head if it has not left. Raises ClientGoneError."""
        if self._unsent:
            data, self._unsent = self._unsent, b""
            await self._connection.write(data)

    def write(self, data: bytes) -> Awaitable[None]:
        """Send bytes of the body, once awaited. Raises ClientGoneError."""
        if self._framing.kind == "chunked":
            data = encode_chunk(data)
        if self._unsent:
            data, self._unsent = self._unsent + data, b""
        return self._connection.write(data)

    def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> Awaitable[None]:
        """Send the ``last`` bytes of the body and its end in one write, once awaited. Raises ClientGoneError."""
        data, self._unsent = self._unsent, b""
        if self._framing.kind == "chunked":
            data += (encode_chunk(last) if last else b"") + encode_last_chunk(trailers)
        else:
            data += last
        return self._connection.write(data) if data else self.flush()

    async def refuse(self, answer: Answer) -> None:
        """Answer in place of the upstream. Raises ClientGoneError."""
        body = b"" if self._head.method == b"HEAD" else answer.body
        headers = (*answer.headers, (b"Content-Length", b"%d" % len(answer.body)))
        self.started = True
        self.reusable = self.reusable and self._body.done and not answer.close
        lines = field_lines(headers) + self._persistence()
        await self._connection.write(encode_response(answer.status, answer.reason, lines) + body)

    def _persistence(self) -> list[bytes]:
        """What must be said of the connection (RFC 9112 section 9.3)."""
        if not self.reusable:
            return [b"Connection: close"]
        return [] if self._head.minor else [b"Connection: keep-alive"]

    def cut(self) -> None:
        """End without a clean end: the agent must see that the answer is not whole."""
        self.reusable = False
        if self._framing.kind == "close":
            self._connection.reset()
        else:
            self._connection.close()
