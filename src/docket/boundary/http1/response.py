"""One exchange with an upstream over one connection: the request goes out while the answer may already come in.

Invariant: an answer that was not read to the end that its framing promises is an UpstreamError, never a shorter answer.
Silence is limited, a stream that is alive is not: the limit counts only while this side waits for bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from docket.boundary.http1.headers import crossing
from docket.boundary.http1.origin import Origin
from docket.boundary.http1.receiver import HIGH_WATER
from docket.boundary.http1.upstream_connection import Informed, Link
from docket.boundary.http1.wire import (
    ChunkedDecoder,
    Framing,
    Header,
    RequestHead,
    ResponseHead,
    WireError,
    encode_chunk,
    encode_last_chunk,
    encode_request,
    may_be_followed,
    response_framing,
)
from docket.errors import DocketError, UpstreamError
from docket.primitives.canonical import MAX_INT
from docket.primitives.frozen import value


class Sendable(Protocol):
    """A request body: how it ends, and its bytes."""

    @property
    def framing(self) -> Framing: ...

    @property
    def trailers(self) -> Sequence[Header]:
        """Trailer fields, known once all pieces were read."""
        ...

    def whole(self) -> bytes | None:
        """All of it where it lies in memory; None where it comes in pieces."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """Its bytes in order, none of them empty."""
        ...


@value
class Outgoing:
    """A request on its way upstream; ``target`` is what stands on the request line there."""

    origin: Origin
    head: RequestHead
    target: bytes
    body: Sendable
    added: tuple[bytes, ...] = ()
    """Field lines for the operator's proxy, which go no further."""
    spelled: tuple[bytes, bytes] | None = None
    """The head as it goes out with a sized body, before and after the length of it, where that was worked out."""


_MARK = b": %d\r\n" % MAX_INT
"""In place of a length: no body is so long."""


class Response:
    """The answer to one request. ``head`` and ``framing`` are there after ``begin``, ``trailers`` once ``ended``."""

    head: ResponseHead
    framing: Framing

    def __init__(self, link: Link, method: bytes, silence: float, keep: Callable[[Link], None]) -> None:
        self._link = link
        self._method = method
        self._silence = silence
        self._keep = keep
        self._left = 0
        self._chunks: ChunkedDecoder | None = None
        self._sender: asyncio.Task[None] | None = None
        self._given_back = False
        self.ended = False
        self.trailers: tuple[Header, ...] = ()

    async def begin(self, tasks: asyncio.TaskGroup, request: Outgoing, informed: Informed) -> Response:
        """Send the request and read the head of its answer. Return this. Raises UpstreamError; it is closed then."""
        try:
            body, framing = request.body, request.body.framing
            if request.spelled is not None and framing.kind == "sized":
                before, after = request.spelled
                out = before + b"%d" % framing.length + after
            else:
                out = encode_request(request.head.method, request.target, request_fields(request, framing))
            whole = body.whole()
            if whole is None:
                self._sender = tasks.create_task(self._send(out, body))
            else:
                self._link.transport.write(out + (whole if framing.kind == "sized" else _framed(whole, body)))
            answer = await self._link.final_head(self._silence, informed)
            if answer.status == 101:
                raise UpstreamError("the upstream switched protocols unasked", reason="truncated")
            self.framing = response_framing(answer, self._method)
        except WireError as error:
            self.close()
            raise UpstreamError(f"malformed answer: {error}", reason="truncated") from error
        except UpstreamError as error:
            raise self._why(error) from error
        except BaseException:
            self.close()
            raise
        self.head = answer
        self._left = self.framing.length
        if self.framing.kind == "chunked":
            self._chunks = ChunkedDecoder()
        if self.framing.kind == "none":
            self._finish()
        return self

    async def _send(self, out: bytes, body: Sendable) -> None:
        """Send a body piece by piece; whatever breaks off the sending ends the exchange for that reason."""
        chunked, link = body.framing.kind == "chunked", self._link
        try:
            link.agent_sends = True
            async for piece in body.pieces():
                link.agent_sends = False
                await link.write(out + (encode_chunk(piece) if chunked else piece))
                link.heard()
                out, link.agent_sends = b"", True
            link.agent_sends = False
            await link.write(out + (encode_last_chunk(body.trailers) if chunked else b""))
        except (DocketError, OSError) as error:
            self._link.fail(error)

    async def read(self) -> bytes:
        """The next bytes of the body; empty only at its end. Raises UpstreamError (``truncated``, ``timeout``)."""
        while not (data := self.read_ready()) and not self.ended:
            if not await self._link.more(self._silence):
                self._no_more()
        return data

    def read_ready(self) -> bytes:
        """What can be read without waiting, empty where that is nothing. Raises UpstreamError."""
        if self.ended:
            return b""
        if self.framing.kind == "sized":
            data = self._link.take(self._left)
            self._left -= len(data)
            if self._left == 0:
                self._finish()
            return data
        data = self._link.take(HIGH_WATER * 2)
        if self._chunks is not None and data:
            try:
                data = self._chunks.feed(data)
            except WireError as error:
                self.close()
                raise UpstreamError(f"malformed answer: {error}", reason="truncated") from error
            if self._chunks.done:
                self.trailers = self._chunks.trailers
                self._finish()
        return data

    def _no_more(self) -> None:
        """End with the connection, where that ends the body. Raises UpstreamError."""
        if self.framing.kind != "close" or self._link.error is not None:
            raise self._why(UpstreamError("the answer ended before its end", reason="truncated"))
        self._finish()

    def _why(self, error: UpstreamError) -> Exception:
        """What really ended the connection, where this side knows it."""
        known = self._link.error
        self.close()
        if isinstance(known, DocketError):
            return known
        if self._link.reused and not self._link.ready:
            return UpstreamError("a reused connection had been closed by the upstream", reason="stale")
        return error

    def _finish(self) -> None:
        """The body is whole: give the connection back where it is clean."""
        self.ended = True
        sending = self._sender is not None and not self._sender.done()
        unasked = self._chunks is not None and self._chunks.rest
        clean = not sending and not unasked and self.framing.kind != "close" and not self._link.ended
        if clean and may_be_followed(self.head):
            self._given_back = True
            self._keep(self._link)
        else:
            self.close()

    def close(self) -> None:
        """Give up the exchange: the connection is closed at once, unless it was given back after a whole answer."""
        if not self._given_back:
            if self._sender is not None:
                self._sender.cancel()
            self._link.close()


def request_fields(request: Outgoing, framing: Framing) -> list[bytes]:
    """The field lines of a request on its way upstream."""
    return [*_fields(request.origin, request.head, framing), *request.added]


def _fields(origin: Origin, head: RequestHead, framing: Framing) -> list[bytes]:
    fields = crossing(head, framing, host=origin.authority)
    if origin.authorization is not None:
        fields = [line for line in fields if line[:14].lower() != b"authorization:"]
        fields.append(b"Authorization: %b" % origin.authorization)
    return fields


def spelled_around_length(origin: Origin, head: RequestHead, target: bytes) -> tuple[bytes, bytes] | None:
    """The head of a request to ``origin`` as it goes out, before and after the length of its sized body.

    None where the field that states the length is not the one place of its kind.
    """
    raw = encode_request(head.method, target, _fields(origin, head, Framing("sized", MAX_INT)))
    before, mark, after = raw.partition(_MARK)
    return (before + b": ", b"\r\n" + after) if mark and mark not in after else None


def _framed(whole: bytes, body: Sendable) -> bytes:
    if body.framing.kind != "chunked":
        return whole
    return (encode_chunk(whole) if whole else b"") + encode_last_chunk(body.trailers)
