"""The protocol that every provider file fulfils: recognise a request, observe a response.

Observing is incremental and bounded, and can only lower the evidence, never fail the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from docket.providers.call import Call, Endpoint, Observation


class Observer(Protocol):
    """Watches the decoded bytes of one answer."""

    saw_end: bool
    """Whether the bytes fed so far hold the terminal event, on which SDKs act; an ended answer stays ended."""

    def feed(self, data: bytes) -> None:
        """Take the next decoded bytes; never raises because of them."""
        ...

    def finish(self, *, clean: bool) -> Observation:
        """What was seen; ``clean`` says whether the body ended as its framing promised."""
        ...


class Provider(Protocol):
    """One wire protocol."""

    protocol: str

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        """The endpoint that ``path`` (without the query, as sent) names, or None if this protocol does not know it."""
        ...

    def call(self, *, upstream: str, provider: str, endpoint: Endpoint, body: bytes, path: str) -> Call:
        """What the decoded request ``body`` asks for; an unreadable body gives a call with ``parsed`` false."""
        ...

    def observer(self, call: Call, *, status: int, headers: Sequence[tuple[bytes, bytes]]) -> Observer:
        """A fresh observer for the answer to ``call`` with this head."""
        ...
