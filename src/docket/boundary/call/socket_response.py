"""The answer to one message of the agent on a WebSocket, as its call sees it.

Invariant: a message of the provider that cannot be read can only lower the evidence: what is known of the answer is
then ``partial``, and names a message as unread.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import orjson

from docket.boundary.call.desk import Desk
from docket.boundary.call.open_call import Arrived, reason_of
from docket.control.breaker import Ended
from docket.ledger.events import EndReason
from docket.ledger.usage import Counts
from docket.primitives.canonical import Json
from docket.providers import registry
from docket.providers.call import Call
from docket.providers.long_text import LongText
from docket.providers.usage_members import MAX_NAMED

EVENT_STREAM = b"text/event-stream"
"""A message is read as the event of a stream that it would be over HTTP."""
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""A message goes to its observer as one line of an event stream."""


class StreamedResponse:
    """The answer to one ``response.create``; the WebSocket carrier of an open call."""

    def __init__(self, desk: Desk, call: Call) -> None:
        self._desk = desk
        self._observer = registry.observer_of(call, status=200, media_type=EVENT_STREAM)
        self._digest = hashlib.sha256()
        self._size = 0
        self._first_byte_at: int | None = None
        self._unreadable = False
        self.reason: EndReason | None = "client-gone"
        """Why the answer is not whole; None once it is."""

    @property
    def lost(self) -> bool:
        """Whether its end cannot be told: it may have stood in a message that could not be read."""
        return self._unreadable

    def feed(self, payload: bytes) -> bool:
        """Take the next message. Return whether it ends the answer."""
        if self._first_byte_at is None:
            self._first_byte_at = self._desk.clock.monotonic_us()
        self._size += len(payload)
        self._digest.update(payload)
        if self._observer is None:
            return False
        self._unreadable = self._unreadable or not _is_readable(payload)
        self._observer.feed(b"data: " + payload.translate(_ONE_LINE) + b"\n\n")
        if self._observer.saw_end:
            self.reason = None
        return self._observer.saw_end

    @property
    def states_usage(self) -> bool:
        """Whether what arrived says what the answer costs."""
        seen = self.arrived().seen
        return seen is not None and seen.counts.source != "none"

    def arrived(self) -> Arrived:
        """Return what arrived so far. Does not yield."""
        seen = self._observer.finish(clean=self.reason is None) if self._observer is not None else None
        if seen is not None and self._unreadable:
            seen = replace(seen, counts=_in_part(seen.counts), unread=seen.unread or "not-json")
        ended = Ended(self.reason or reason_of(seen), error_type=seen.error_type if seen is not None else None)
        private: dict[str, Json] = {"response_sha256": self._digest.hexdigest()} if self._size else {}
        return Arrived(ended, seen, self._size, self._first_byte_at, private)


def _is_readable(payload: bytes) -> bool:
    """Whether an event of the provider is a JSON object of a length that is read."""
    try:
        return len(payload) <= LongText.LIMIT and isinstance(orjson.loads(payload), dict)
    except orjson.JSONDecodeError:
        return False


def _in_part(counts: Counts) -> Counts:
    """``counts`` of an answer of which a message could not be read."""
    source = "partial" if counts.source == "reported" else counts.source
    return replace(counts, source=source, unread=(*counts.unread, "message")[:MAX_NAMED])
