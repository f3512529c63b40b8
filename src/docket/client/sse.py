"""Reading a docket event stream: the bytes to events (WHATWG HTML, section 9.2.6), and what a reader does between them.

Pure: no socket, no clock, no file. ``Follower`` holds the cursor, drops what was seen, and says how long to wait.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_EVENT = 4 << 20
"""Bytes of one event: a ledger line is at most 1 MiB."""
DEAD_SECONDS = 45.0
"""A stream without a byte for this long is dead: three heartbeats were missed."""
FIRST_SECONDS, MOST_SECONDS, JITTER = 2.0, 60.0, 0.2
"""Waits between tries double from the first to the most, each by up to a fifth shorter or longer."""
MAX_DIGITS = 17
"""Characters of a cursor: a ``seq`` is at most 2^53 - 1."""
START = "-1"
"""The cursor before the first event."""


class StreamError(Exception):
    """What came is no event stream of docket's, or the server refused for good. ``status`` is its HTTP status."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Message:
    """One server-sent event: ``id`` is the cursor at that point."""

    id: str
    event: str
    data: str

    def json(self) -> Any:
        """Return the data as decoded JSON."""
        return json.loads(self.data)


@dataclass(slots=True)
class Parser:
    """Bytes in, messages out, however they are cut. Raises StreamError where an event is longer than MAX_EVENT."""

    _rest: bytes = b""
    _id: str = ""
    _event: str = ""
    _data: list[str] = field(default_factory=list)
    _held: int = 0
    retry_seconds: float | None = None
    """What the server asked for last."""

    @property
    def last_id(self) -> str:
        """The last id that was said, whether or not an event came with it."""
        return self._id

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that ``data`` completes."""
        buffer, half = self._rest + data, b""
        if buffer.endswith(b"\r"):  # a line feed may follow
            buffer, half = buffer[:-1], b"\r"
        *whole, rest = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + half
        if len(self._rest) + self._held > MAX_EVENT:
            raise StreamError(f"an event is longer than {MAX_EVENT} bytes")
        for line in whole:
            if line:
                self._field(line)
            elif self._data:
                yield Message(self._id, self._event or "message", "\n".join(self._data))
                self._data, self._event, self._held = [], "", 0
            else:
                self._event = ""

    def _field(self, line: bytes) -> None:
        name, _, raw = line.partition(b":")
        value = raw.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(value)
            self._held += len(raw)
            if self._held > MAX_EVENT:
                raise StreamError(f"an event is longer than {MAX_EVENT} bytes")
        elif name == b"event":
            self._event = value
        elif name == b"id" and "\0" not in value:
            self._id = value
        elif name == b"retry" and value.isdigit():
            self.retry_seconds = int(value) / 1000


@dataclass(slots=True)
class Follower:
    """What a reader remembers: its cursor, the hash there, and how often in a row it failed."""

    cursor: str = START
    head: str = ""
    failures: int = 0

    def query(self) -> dict[str, str]:
        """Return the parameters by which a stream is taken up where this reader stands."""
        return {"since": self.cursor} | ({"head": self.head} if self.head else {})

    def take(self, message: Message) -> bool:
        """Note ``message`` and return whether it is news: an event seen before is not.

        ``stream.reset`` is news, and moves the cursor to where the stream goes on: what was built from earlier events
        is to be thrown away. ``stream.open`` is not.
        """
        self.failures = 0
        if message.event == "stream.reset":
            self.cursor, self.head = message.id if _is_cursor(message.id) else START, ""
            return True
        if message.event != "ledger" or not _is_cursor(message.id) or int(message.id) <= int(self.cursor):
            return False
        self.cursor = message.id
        self.head = str(message.json().get("hash", ""))
        return True

    def wait_seconds(self, random: float) -> float:
        """Return how long to wait before the next try; ``random`` is in [0, 1). Counts one more failure."""
        wait = min(FIRST_SECONDS * 2.0**self.failures, MOST_SECONDS)
        self.failures += 1
        return wait * (1 - JITTER + 2 * JITTER * random)

    def woke(self) -> None:
        """The machine slept: what failed before says nothing of now."""
        self.failures = 0

    def to_json(self) -> str:
        """Return what a later process needs to go on from here."""
        return json.dumps({"cursor": self.cursor, "head": self.head})  # noqa: TID251 - a client stands alone

    @classmethod
    def from_json(cls, text: str) -> Follower:
        """Return the reader that ``to_json`` wrote; one from the start where the text is none."""
        try:
            saved = json.loads(text)
            cursor, head = saved["cursor"], saved["head"]
        except (ValueError, KeyError, TypeError):
            return cls()
        if not isinstance(cursor, str) or not isinstance(head, str) or not _is_cursor(cursor):
            return cls()
        return cls(cursor, head)


def _is_cursor(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) <= MAX_DIGITS
