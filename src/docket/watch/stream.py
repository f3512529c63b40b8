"""A run's events as server-sent events (WHATWG HTML, section 9.2), resumable by cursor.

The id of an event is its ``seq``, and the cursor; ids only grow, across restarts and resumed sessions. A reader may
also say the hash of the event at its cursor: where the ledger holds another one there, or the cursor lies ahead of it,
the reader is told by ``stream.reset``, whose id is the cursor to follow from, and gets everything from there. Only
whole, durable events are sent; nothing is left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from docket.clock import Clock
from docket.primitives.canonical import JsonObject, encode
from docket.watch.tail import START, LedgerTail, Line

RETRY_MS = 2000
"""How long a client waits before it comes back."""
HEARTBEAT_US = 15_000_000
"""A silent stream says that often that it lives; a client gives up after three of them."""
RETRY = b"retry: %d\n\n" % RETRY_MS
_CURSOR = re.compile(r"-?[0-9]{1,16}")
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader begins: behind the event ``after``; ``reset`` says why that is not where it asked to."""

    after: int
    reset: str | None = None


def place(tail: LedgerTail, since: str | None, head: str | None = None) -> Place:
    """Return where a reader that asks for ``since`` (a cursor, ``latest`` or nothing) begins.

    ``head`` is the hash of the event at the cursor, where the reader knows it.
    """
    if since is None or since == "":
        return Place(START)
    if since == "latest":
        return Place(tail.last)
    if not _CURSOR.fullmatch(since):
        return Place(START, "the cursor is no number")
    cursor = int(since)
    if cursor < START:
        return Place(START, "the cursor is negative")
    if cursor > tail.last:
        return Place(START, f"the cursor {cursor} is ahead of the last event, {tail.last}")
    if head and cursor != START:
        line = tail.line(cursor)
        if not _HASH.fullmatch(head) or line is None or line.hash != head:
            return Place(START, f"event {cursor} of this run is another one than the reader has")
    return Place(cursor)


def opening(tail: LedgerTail, begun: Place) -> bytes:
    """Return what a stream says first: how soon to come back, where it stands, and of which run it is."""
    said = RETRY + b"id: %d\n\n" % begun.after
    line = tail.line(begun.after)
    told: JsonObject = {"docket": tail.run.name, "after": begun.after, "last": tail.last, "live": tail.live}
    if line is not None:
        told["head"] = line.hash
    said += b"event: stream.open\ndata: " + encode(told) + b"\n\n"
    if begun.reset is not None:
        said += b"id: %d\nevent: stream.reset\ndata: " % begun.after
        said += encode({"reason": begun.reset, "follow": begun.after}) + b"\n\n"
    return said


def spelled(lines: tuple[Line, ...]) -> bytes:
    """Return ``lines`` as events of the stream; the data of each is the line as it stands in the ledger."""
    return b"".join(b"id: %d\nevent: ledger\ndata: %b\n\n" % (line.seq, line.content) for line in lines)


def heartbeat(cursor: int) -> bytes:
    """Return what a stream says when nothing happens."""
    return b": heartbeat\nid: %d\n\n" % cursor


class Reader:
    """One reader's way through a ledger. Pure but for the tail: the caller sends what it is given, and waits."""

    def __init__(self, tail: LedgerTail, begun: Place, clock: Clock) -> None:
        self._tail = tail
        self._clock = clock
        self._said_us = clock.monotonic_us()
        self.cursor = begun.after
        """The last event that was handed out."""

    def due(self) -> Iterator[bytes]:
        """Yield what is to be sent now: every chunk up to the last durable event, or a heartbeat when it is time."""
        if self.cursor > self._tail.last:
            reset = Place(START, f"the ledger now ends at {self._tail.last}")
            self.cursor = START
            yield opening(self._tail, reset)
        while lines := self._tail.read(self.cursor):
            self.cursor = lines[-1].seq
            self._said_us = self._clock.monotonic_us()
            yield spelled(lines)
        if self._clock.monotonic_us() - self._said_us >= HEARTBEAT_US:
            self._said_us = self._clock.monotonic_us()
            yield heartbeat(self.cursor)


async def send(
    reader: Reader, write: Callable[[bytes], Awaitable[object]], more: Callable[[], Awaitable[bool]]
) -> None:
    """Write what is due whenever ``more`` says that there may be some, until it says that the stream ends."""
    while True:
        for piece in reader.due():
            await write(piece)
        if not await more():
            return
