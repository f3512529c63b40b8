"""Request bodies: read whole before admission, or streamed where nothing in them decides.

Invariants: the bytes held for all calls together stay under one bound, counted as they arrive, so that what is
announced and not sent takes nothing from other calls; a body over its own bound is refused before it is read where its
length is known. Above ``IN_MEMORY`` a body lies in an unlinked file.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import BinaryIO, cast

from docket.boundary.http1.agent_connection import RequestBody
from docket.boundary.http1.wire import Framing, Header

MAX_BODY = 128 * 1024 * 1024
"""Largest request body in bytes that is read before admission: twice what any provider takes; beyond it 413."""
MAX_HELD = 256 * 1024 * 1024
"""Bytes of request bodies held at once, over all calls; beyond it 429."""
IN_MEMORY = 1024 * 1024
"""Largest body kept in memory: first turns of real agents are 30 to 90 kB."""
PIECE = 256 * 1024
"""Bytes read back from a spooled body at a time."""


class TooLargeError(Exception):
    """One body is over its bound (``everything`` false), or all of them together are."""

    def __init__(self, *, everything: bool) -> None:
        super().__init__("all request bodies together" if everything else "a request body")
        self.everything = everything


class Shelf:
    """Counts the bytes that all held bodies of a run take."""

    def __init__(self, limit: int = MAX_HELD, each: int = MAX_BODY) -> None:
        self._limit = limit
        self.each = each
        self.held = 0

    def take(self, size: int) -> None:
        """Reserve ``size`` bytes. Raises TooLargeError."""
        if self.held + size > self._limit:
            raise TooLargeError(everything=True)
        self.held += size


class WholeBody:
    """A request body that was read whole. ``close`` gives its bytes back to the shelf."""

    def __init__(self, shelf: Shelf, framing: Framing) -> None:
        self._shelf = shelf
        self._closed = False
        self._parts: list[bytes] = []
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self.framing = framing
        self.size = 0
        self.trailers: Sequence[Header] = ()

    def expect(self, size: int) -> None:
        """Raise TooLargeError where a body of ``size`` bytes is over its own bound."""
        if size > self._shelf.each:
            raise TooLargeError(everything=False)

    def add(self, data: bytes) -> None:
        """Take the next bytes. Raises TooLargeError, OSError where the spool has no room."""
        size = self.size + len(data)
        if size > self._shelf.each:
            self.expect(size)
        self._shelf.take(len(data))
        self.size = size
        self._digest.update(data)
        if self._file is None and size > IN_MEMORY:
            self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (closed by close)
            self._file.writelines(self._parts)
            self._parts.clear()
        if self._file is None:
            self._parts.append(data)
        else:
            self._file.write(data)

    @property
    def sha256(self) -> str:
        """64 hex characters over the bytes as sent."""
        return self._digest.hexdigest()

    def content(self) -> bytes:
        """All bytes, in memory."""
        if self._file is not None:
            self._file.seek(0)
            return self._file.read()
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0] if self._parts else b""

    def whole(self) -> bytes | None:
        """All of it where it lies in memory, else None."""
        if self._file is not None:
            return None
        return self._parts[0] if len(self._parts) == 1 else self.content()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Its bytes in order."""
        if self._file is None:
            if self.size:
                yield self.content()
            return
        at = 0
        while at < self.size:
            self._file.seek(at)
            data = self._file.read(PIECE)
            at += len(data)
            yield data

    def close(self) -> None:
        """Forget the bytes. May be called twice."""
        if not self._closed:
            self._closed = True
            self._shelf.held -= self.size
        self._parts.clear()
        if self._file is not None:
            self._file.close()


async def read_whole(body: RequestBody, shelf: Shelf) -> WholeBody:
    """Read ``body`` whole. Raises TooLargeError, ClientGoneError, WireError, OSError."""
    whole = WholeBody(shelf, body.framing)
    try:
        if body.framing.length > shelf.each:
            whole.expect(body.framing.length)
        while not body.done:
            whole.add(body.read_ready() or await body.read())
    except BaseException:
        whole.close()
        raise
    whole.trailers = body.trailers
    return whole


class StreamedBody:
    """A request body that goes on as it comes."""

    def __init__(self, body: RequestBody) -> None:
        self._body = body
        self.framing = body.framing

    @property
    def trailers(self) -> Sequence[Header]:
        return self._body.trailers

    def whole(self) -> bytes | None:
        return b"" if self._body.done and self.framing.kind == "none" else None

    async def pieces(self) -> AsyncIterator[bytes]:
        while data := await self._body.read():
            yield data
