"""The protocol that every provider file fulfils: read a request, observe a response.

Observing is incremental and bounded, and can only lower the evidence, never fail the call.
"""

from __future__ import annotations

from typing import Protocol

from docket.providers.call import Call, Observation, Sent


class Observer(Protocol):
    """Watches the decoded bytes of one answer."""

    @property
    def saw_end(self) -> bool:
        """Whether the bytes fed so far hold the terminal event, on which SDKs act; an ended answer stays ended."""
        ...

    def feed(self, data: bytes) -> None:
        """Take the next decoded bytes; never raises because of them."""
        ...

    def finish(self, *, clean: bool) -> Observation:
        """What was seen; ``clean`` says whether the body ended as its framing promised. May be asked again."""
        ...


class Provider(Protocol):
    """One wire protocol."""

    protocol: str

    def call(self, sent: Sent) -> Call:
        """What a request asks for; an unreadable body gives a call with ``parsed`` false."""
        ...

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer | None:
        """A fresh observer for the answer to ``call``, None where nothing reads it.

        ``media_type`` is in lower case, empty where none is stated.
        """
        ...
