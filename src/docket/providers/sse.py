"""Server-sent events, decoded incrementally (WHATWG HTML section 9.2.6, "Interpreting an event stream").

Owns the framing only: bytes in, whole events out, whatever the chunks. Invariant: memory is bounded by
``LongText.LIMIT`` for one event, however long its lines are; of a longer event nothing but its name is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from docket.providers.long_text import LongText, Piece

BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Feed it bytes, get events. CR, LF and CRLF end a line; one leading BOM is dropped; a colon line is a comment.

    It is a framing: each event is a piece, its data the text.
    """

    streamed = True

    def __init__(self) -> None:
        self._start = b""
        self._started = False
        self._after_cr = False
        self._line = LongText()
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._lost = False

    def feed(self, data: bytes) -> list[Piece]:
        """The events that ``data`` completes."""
        if not self._started:
            data = self._without_bom(data)
        if not data:
            return []
        if self._after_cr or b"\r" in data:
            data = self._with_line_feeds(data)
        *lines, last = data.split(b"\n")
        if lines and not self._line.empty:
            self._line.add(lines[0])
            events = self._read((self._line.take(), *lines[1:]))
        else:
            events = self._read(lines)
        if last:
            self._line.add(last)
        return events

    def finish(self) -> list[Piece]:
        """The event that stands unfinished at the end of the stream, if any.

        A browser drops it; whoever counts what was billed must not.
        """
        if not self._started:
            self._started = True
            self._line.add(self._start)
        return self._read((self._line.take(), b""))

    def _without_bom(self, data: bytes) -> bytes:
        self._start += data
        if len(self._start) < len(BOM) and BOM.startswith(self._start):
            return b""
        self._started = True
        start, self._start = self._start, b""
        return start.removeprefix(BOM)

    def _with_line_feeds(self, data: bytes) -> bytes:
        """``data`` with LF alone at the ends of lines; a CRLF that was cut in two is one end."""
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read(self, lines: Sequence[bytes | None]) -> list[Piece]:
        """Take whole lines, None where one was too long to keep; the events that they end."""
        events: list[Piece] = []
        for line in lines:
            if line:
                field, _, value = line.partition(b":")
                if field == b"data":
                    value = value.removeprefix(b" ")
                    self._size += len(value) + 1
                    if self._size > LongText.LIMIT + 1:
                        self._lost, self._data = True, []
                    else:
                        self._data.append(value)
                elif field == b"event":
                    self._name = value.removeprefix(b" ")
            elif line is None:
                self._lost = True
            else:
                if self._data or self._lost:
                    data = self._data
                    text = None if self._lost else data[0] if len(data) == 1 else b"\n".join(data)
                    events.append(Piece(self._name, text))
                    self._data, self._size, self._lost = [], 0, False
                self._name = b""
        return events
