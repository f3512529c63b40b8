"""Content codings taken off a copy of a body, piece by piece (RFC 9110 section 8.4.1); the original is never touched.

Invariant: the memory for one step is bounded, and a body that expands beyond all measure is given up, not followed.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import brotli  # type: ignore[import-untyped]

from docket.boundary.http1.wire import Head

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEP = 256 * 1024
"""Most bytes that one step puts out."""
BOMB_FLOOR = 16 * 1024 * 1024
"""Decoded bytes below which no ratio is looked at: a long answer that repeats itself compresses very well."""
BOMB_RATIO = 300
"""Decoded bytes for each coded byte above which a body is a bomb: event streams of real answers stay below 60."""
MAX_CODINGS = 4
"""Codings in a row; more than one is already unheard of."""


class CodingError(Exception):
    """A body that cannot be decoded: ``reason`` is ``coding`` (unknown or broken) or ``bomb``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Coding(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _Zlib:
    """gzip with any number of members, or deflate with or without its zlib wrapper."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._start = b""
        self._inner = zlib.decompressobj(wbits=31) if gzip else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            data, self._start = self._start + data, b""
            if len(data) < 2:
                self._start = data
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0  # RFC 1950 section 2.2
            self._inner = zlib.decompressobj(wbits=15 if wrapped else -15)
        while data:
            if self._inner.eof:
                if not self._gzip:
                    return
                self._inner = zlib.decompressobj(wbits=31)
            out = self._inner.decompress(data, STEP)
            if out:
                yield out
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        while out := self._inner.decompress(b"", STEP) if not self._inner.eof else b"":
            yield out


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        out = self._inner.process(data, output_buffer_limit=STEP)
        while True:
            if out:
                yield out
            if self._inner.is_finished() or (self._inner.can_accept_more_data() and len(out) < STEP):
                return
            out = self._inner.process(b"", output_buffer_limit=STEP)


class _Zstd:
    """Any number of frames."""

    def __init__(self) -> None:
        self._inner = zstd.ZstdDecompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._inner.eof:
                if not data:
                    return
                self._inner = zstd.ZstdDecompressor()
            out = self._inner.decompress(data, STEP)
            if out:
                yield out
            if self._inner.needs_input:
                return
            data = self._inner.unused_data if self._inner.eof else b""


_CODINGS: dict[bytes, Callable[[], _Coding]] = {
    b"gzip": lambda: _Zlib(gzip=True),
    b"x-gzip": lambda: _Zlib(gzip=True),
    b"deflate": lambda: _Zlib(gzip=False),
    b"br": _Brotli,
    b"zstd": _Zstd,
}


class Decoder:
    """Takes the codings of one body off, in reverse order of their application."""

    def __init__(self, codings: Sequence[bytes]) -> None:
        """Raises CodingError for a coding that nobody here knows."""
        unknown = [name for name in codings if name not in _CODINGS]
        if unknown or len(codings) > MAX_CODINGS:
            raise CodingError("coding")
        self._chain = [_CODINGS[name]() for name in reversed(codings)]
        self._coded = self._decoded = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decoded pieces of the next bytes. Raises CodingError; no further call after that."""
        self._coded += len(data)
        try:
            yield from self._through(self._chain, data)
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError) as error:
            raise CodingError("coding") from error

    def _through(self, chain: list[_Coding], data: bytes) -> Iterator[bytes]:
        for piece in chain[0].feed(data):
            self._decoded += len(piece)
            if self._decoded > BOMB_FLOOR and self._decoded > self._coded * BOMB_RATIO:
                raise CodingError("bomb")
            if len(chain) > 1:
                yield from self._through(chain[1:], piece)
            else:
                yield piece


def content_codings(head: Head) -> list[bytes]:
    """The codings of a body in the order of their application, without ``identity``."""
    if b"content-encoding" not in head.named:
        return []
    return [name for name in head.tokens(b"content-encoding") if name != b"identity"]


def decode_whole(data: bytes, codings: Sequence[bytes], limit: int) -> bytes:
    """``data`` without its codings. Raises CodingError, ``bomb`` where it is longer than ``limit`` bytes."""
    decoder, parts, size = Decoder(codings), [], 0
    for piece in decoder.feed(data):
        size += len(piece)
        if size > limit:
            raise CodingError("bomb")
        parts.append(piece)
    return b"".join(parts)
