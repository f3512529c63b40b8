"""JSON text of any length in bounded memory: what is too long to keep whole loses the insides of its long strings.

Owns one rule: up to ``LongText.PLAIN`` bytes are kept as they are. Beyond, a string longer than ``STRING`` bytes
becomes empty (it is prose or an image, never a figure), and of a long row of numbers the first few stay. Text still
longer than ``LIMIT`` is given up as a whole.
"""

from __future__ import annotations

import re
from typing import ClassVar, NamedTuple

STRING = 512
"""Longest string kept of a long text, in bytes: longer than any model name, id or reason."""
NUMBERS = 64
"""Bytes kept of a row of numbers and commas: an embedding has thousands, a figure stands alone."""
_RUNS = re.compile(rb"[-+0-9.eE,\s]+|[^-+0-9.eE,\s]+")
_NUMERIC = frozenset(b"-+0123456789.eE, \t\r\n")
_SPACE = b" \t\r\n"
_IN_STRING = re.compile(rb'["\\]')


class Piece(NamedTuple):
    """One document's text, None where it was too long to keep, and its event's name, empty where there are none."""

    name: bytes
    text: bytes | None


class LongText:
    """Bytes that are added piece by piece and taken once."""

    PLAIN: ClassVar[int] = 256 * 1024
    """Kept whole up to here: nearly every event and answer of a provider."""
    LIMIT: ClassVar[int] = 1024 * 1024
    """Most that is kept of one text, in bytes; bounds the memory of a call."""

    __slots__ = ("_condenser", "_pieces", "_size")

    def __init__(self, begun: bytes = b"") -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._condenser: _Condenser | None = None
        if begun:
            self.add(begun)

    @property
    def empty(self) -> bool:
        return not self._size and self._condenser is None

    def add(self, piece: bytes) -> None:
        if not piece:
            return
        if self._condenser is not None:
            self._condenser.add(piece)
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self.PLAIN:
            self._condenser = _Condenser(self.LIMIT)
            for kept in self._pieces:
                self._condenser.add(kept)
            self._pieces.clear()

    def take(self) -> bytes | None:
        """The text, and start anew; None where even the cut text was too long."""
        text = b"".join(self._pieces) if self._condenser is None else self._condenser.text()
        self._pieces.clear()
        self._size, self._condenser = 0, None
        return text


class _Condenser:
    """Copies JSON text, empties strings longer than STRING bytes and cuts rows of numbers longer than NUMBERS."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._out = bytearray()
        self._in_string = False
        self._kept = 0
        self._escape = False
        self._row = 0
        self._open_row = False
        self._full = False

    def add(self, piece: bytes) -> None:
        at = 0
        while at < len(piece) and not self._full:
            at = self._string(piece, at) if self._in_string else self._plain(piece, at)
            if len(self._out) > self._limit:
                self._full = True
                self._out.clear()

    def text(self) -> bytes | None:
        return None if self._full else bytes(self._out)

    def _plain(self, piece: bytes, at: int) -> int:
        quote = piece.find(b'"', at)
        end = len(piece) if quote < 0 else quote
        for run in _RUNS.finditer(piece, at, end):
            if piece[run.start()] in _NUMERIC:
                self._numbers(run.group())
            else:
                self._close_row()
                self._out += run.group()
        if quote < 0:
            return end
        self._close_row()
        self._out += b'"'
        self._in_string, self._kept = True, 0
        return end + 1

    def _numbers(self, run: bytes) -> None:
        run = run.translate(None, _SPACE)
        left = NUMBERS + 1 - self._row
        if left > 0:
            self._out += run[:left]
        self._row += len(run)
        self._open_row = run.endswith(b",") if run else self._open_row

    def _close_row(self) -> None:
        """End a row of numbers: one that was cut goes back to its last whole number."""
        if self._row > NUMBERS:
            comma = self._out.rfind(b",", len(self._out) - NUMBERS - 1)
            del self._out[comma if comma >= 0 else len(self._out) - NUMBERS - 1 :]
            if comma < 0:
                self._out += b"0"
            if self._open_row:
                self._out += b","
        self._row = 0

    def _string(self, piece: bytes, at: int) -> int:
        if self._escape:
            self._escape = False
            self._keep(piece[at : at + 1])
            return at + 1
        found = _IN_STRING.search(piece, at)
        end = len(piece) if found is None else found.start()
        self._keep(piece[at:end])
        if found is None:
            return end
        if found.group() == b'"':
            self._close()
        else:
            self._escape = True
            self._keep(b"\\")
        return end + 1

    def _keep(self, part: bytes) -> None:
        if self._kept <= STRING:
            self._out += part[: STRING + 1 - self._kept]
        self._kept += len(part)

    def _close(self) -> None:
        if self._kept > STRING:
            del self._out[len(self._out) - STRING - 1 :]
        self._out += b'"'
        self._in_string = False
