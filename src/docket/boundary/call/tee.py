"""A second look at every byte of an answer: digest, size, usage. It notes a defect instead of raising.

Invariant: what it is fed is what the agent receives; nothing that happens here can fail or delay a call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from docket.boundary.http1.coding import CodingError, Decoder, content_codings
from docket.boundary.http1.wire import ResponseHead
from docket.ledger.usage import Counts
from docket.providers.base import Observer
from docket.providers.call import Observation, Terminal

Watch = Callable[[int, bytes], Observer | None]
"""Makes the observer of an answer from its status and media type."""
COPIED_IN_MEMORY = 16 * 1024 * 1024
"""Most bytes of an answer that are copied for the record, whatever the policy says: they wait in memory for its end."""


class Tee:
    """Watches one answer. ``saw_end`` once its terminal event, on which SDKs act, has been seen."""

    def __init__(self, watch: Watch | None, *, record: int = 0) -> None:
        """``watch`` None looks at size and digest alone; ``record`` is how many bytes to copy for the record."""
        self._watch = watch
        self._observer: Observer | None = None
        self._decoder: Decoder | None = None
        self._digest = hashlib.sha256()
        self._wanted = min(record, COPIED_IN_MEMORY)
        self._copy = bytearray()
        self.unread: str | None = None
        self.saw_end = False
        self.size = 0

    def anew(self) -> Tee:
        """Return a tee for another answer to the same request."""
        return Tee(self._watch, record=self._wanted)

    def begin(self, head: ResponseHead) -> None:
        """Take the head of the answer."""
        if self._watch is None:
            return
        try:
            self._observer = self._watch(head.status, head.media_type)
            if b"content-encoding" in head.named and (codings := content_codings(head)):
                self._decoder = Decoder(codings)
        except CodingError as error:
            self.unread = error.reason
        except Exception:  # noqa: BLE001 (observing never fails a call)
            self._observer, self.unread = None, "observer"

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the answer; never raises."""
        self._digest.update(data)
        self.size += len(data)
        if self._wanted > len(self._copy):
            self._copy += data[: self._wanted - len(self._copy)]
        observer = self._observer
        if observer is None or self.unread is not None:
            return
        try:
            if self._decoder is None:
                observer.feed(data)
            else:
                for piece in self._decoder.feed(data):
                    observer.feed(piece)
            self.saw_end = observer.saw_end
        except CodingError as error:
            self.unread = error.reason
        except Exception:  # noqa: BLE001 (observing never fails a call)
            self.unread = "observer"

    def finish(self, *, clean: bool) -> Observation | None:
        """What was seen of the whole answer; None where nobody watched or no answer came."""
        if self._observer is None:
            return None
        try:
            seen = self._observer.finish(clean=clean and self.unread is None)
        except Exception:  # noqa: BLE001 (observing never fails a call)
            self._observer = None
            return Observation(terminal=_ended(clean), counts=Counts(source="none"), unread="observer")
        if self.unread is None:
            return seen
        return replace(seen, terminal=_ended(clean), unread=self.unread)

    @property
    def sha256(self) -> str:
        """64 hex characters over the bytes fed so far, as sent."""
        return self._digest.hexdigest()

    @property
    def recorded(self) -> bytes:
        """The bytes copied for the record, from the first on."""
        return bytes(self._copy)


def _ended(clean: bool) -> Terminal:
    return "complete" if clean else "truncated"
