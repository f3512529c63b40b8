"""The elements of a JSON array as they arrive (Gemini's stream without ``alt=sse``), or one object.

Owns the cut of a growing array into its elements; memory is bounded for one element, not for the array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docket.providers.long_text import LongText, Piece

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class Elements:
    """A framing whose pieces are the objects at the top level, or in the array that stands there."""

    def __init__(self) -> None:
        self.streamed = False
        self._first = True
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._text = LongText()

    def feed(self, data: bytes) -> Iterator[Piece]:
        at = 0
        if self._first and data:
            self._first = False
            if data[:1] == b"[":
                self.streamed, at = True, 1
        start = at
        while (end := self._next(data, at)) is not None:
            at = end
            if self._depth == 0 and not self._in_string and data[end - 1 : end] == b"}":
                self._text.add(data[start:end])
                start = end
                yield Piece(b"", self._taken())
        self._text.add(data[start:])

    def finish(self) -> Iterator[Piece]:
        text = self._taken()
        if text is None or text.strip(b" \t\r\n,]"):
            yield Piece(b"", text)

    def _taken(self) -> bytes | None:
        text = self._text.take()
        return None if text is None else text.lstrip(b" \t\r\n,")

    def _next(self, data: bytes, at: int) -> int | None:
        """The position after the next byte that matters; keeps depth and string state."""
        if self._escaped:
            if at >= len(data):
                return None
            self._escaped = False
            return at + 1
        found = (_INSIDE if self._in_string else _OUTSIDE).search(data, at)
        if found is None:
            return None
        byte = found.group()
        if byte == b'"':
            self._in_string = not self._in_string
        elif byte == b"\\":
            self._escaped = True
        elif byte in (b"{", b"["):
            self._depth += 1
        elif self._depth:
            self._depth -= 1
        return found.end()
