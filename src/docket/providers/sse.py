"""Server-sent events, decoded incrementally (WHATWG HTML section 9.2.6, "Interpreting an event stream").

Owns the framing only: bytes in, whole events out, whatever the chunks. Invariant: memory is bounded by
``LongText.LIMIT`` for one event, however long its lines are; of a longer event nothing but its name is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from docket.providers.long_text import LongText

BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One dispatched event. ``data`` is None where it was longer than can be kept."""

    name: bytes
    data: bytes | None


class SseDecoder:
    """Feed it bytes, get events. CR, LF and CRLF end a line; one leading BOM is dropped; a colon line is a comment."""

    def __init__(self) -> None:
        self._start = b""
        self._started = False
        self._after_cr = False
        self._line = LongText()
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._has_data = False
        self._lost = False

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events that ``chunk`` completes."""
        if not self._started:
            chunk = self._without_bom(chunk)
        if not chunk:
            return
        if self._after_cr and chunk[0] == 0x0A:
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return
        self._after_cr = chunk[-1] == 0x0D
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = chunk.split(b"\n")
        if not rest:
            self._line.add(first)
            return
        last = rest.pop()
        if self._line.empty:
            event = self._take(first)
        else:
            self._line.add(first)
            event = self._take(self._line.take())
        if event is not None:
            yield event
        for line in rest:
            event = self._take(line)
            if event is not None:
                yield event
        self._line.add(last)

    def finish(self) -> Iterator[SseEvent]:
        """The event that stands unfinished at the end of the stream, if any.

        A browser drops it; whoever counts what was billed must not.
        """
        if not self._started:
            self._started = True
            self._line.add(self._start)
        for line in (self._line.take(), b""):
            event = self._take(line)
            if event is not None:
                yield event

    def _without_bom(self, chunk: bytes) -> bytes:
        self._start += chunk
        if len(self._start) < len(BOM) and BOM.startswith(self._start):
            return b""
        self._started = True
        start, self._start = self._start, b""
        return start.removeprefix(BOM)

    def _take(self, line: bytes | None) -> SseEvent | None:
        """Take one line, None where it was too long to keep; the event that it ends."""
        if line is None:
            self._lost = True
        elif not line:
            return self._dispatch()
        elif line[0] != 0x3A:
            field, _, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
            if field == b"data":
                self._keep(value)
            elif field == b"event":
                self._name = value

        return None

    def _dispatch(self) -> SseEvent | None:
        event = None
        if self._has_data or self._lost:
            event = SseEvent(self._name, None if self._lost else b"\n".join(self._data))
        self._name, self._data, self._size, self._has_data, self._lost = b"", [], 0, False, False
        return event

    def _keep(self, value: bytes) -> None:
        self._has_data = True
        self._size += len(value) + 1
        if self._size > LongText.LIMIT + 1:
            self._lost, self._data = True, []
        else:
            self._data.append(value)
