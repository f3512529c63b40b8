"""Observing an answer: a framing cuts the body into documents, a fold of the protocol reads them.

The one implementation of ``Observer``. Invariant: nothing in a body raises; what cannot be read is noted and can only
lower the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Protocol

import orjson

from docket.ledger.usage import Counts
from docket.providers.call import Observation, Terminal
from docket.providers.framing import Framing
from docket.providers.json_fields import Document, text
from docket.providers.long_text import Piece
from docket.providers.usage_members import MAX_NAMED, with_the_larger

NOTHING = Counts(source="none")


class Fold(Protocol):
    """What a protocol makes of the documents of one answer, in order."""

    terminators: ClassVar[frozenset[bytes]]
    """Event texts that end a stream and are no JSON (``[DONE]``)."""
    ended: bool
    """Whether the terminal event was seen."""

    def see(self, name: bytes, document: Document) -> None:
        """Take the next document; ``name`` is its event's name."""
        ...

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        """What the documents in ``size`` bytes say; ``clean`` is false where the body ended before its framing did."""
        ...


class AnswerObserver:
    """Watches the decoded bytes of one answer."""

    def __init__(self, framing: Framing, fold: Fold) -> None:
        self._framing = framing
        self._fold = fold
        self._unread: str | None = None
        self._size = 0
        self._doubtful = False
        """Whether figures stand in the answer that were not read, or that two readers would read differently."""
        self._done = False
        self.saw_end = False

    def feed(self, data: bytes) -> None:
        self._size += len(data)
        pieces = self._framing.feed(data)
        if pieces:
            self._see(pieces)

    def finish(self, *, clean: bool) -> Observation:
        if not self._done:
            self._done = True
            self._see(self._framing.finish())
        seen = self._fold.observe(clean=clean, streamed=self._framing.streamed, size=self._size)
        if self._doubtful and seen.counts.source != "none":
            named = (*seen.counts.unread[: MAX_NAMED - 1], "usage")
            seen = replace(seen, counts=replace(seen.counts, source="partial", unread=named))
        return seen if self._unread is None else replace(seen, unread=self._unread)

    def _see(self, pieces: Iterable[Piece]) -> None:
        fold = self._fold
        for name, written in pieces:
            if written is None:
                self._unread = "too-long"
                continue
            try:
                document = orjson.loads(written)
            except orjson.JSONDecodeError:
                bare = written.strip()
                if bare in fold.terminators:
                    fold.ended = True
                elif bare:
                    self._unread = self._unread or "not-json"
                    self._doubtful = self._doubtful or b"usage" in bare.lower()
                continue
            if isinstance(document, dict):
                if written.count(b'"usage') > 1 and (twice := with_the_larger(written)) is not None:
                    self._doubtful, document = True, twice
                fold.see(name, document)
        self.saw_end = fold.ended


class ErrorFold:
    """Reads the body of an error status: the provider's error type, in the shapes that providers use."""

    terminators: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self) -> None:
        self.ended = False
        self._type: str | None = None

    def see(self, name: bytes, document: Document) -> None:
        self._type = self._type or error_type(document)

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        return Observation(terminal="error", counts=NOTHING, error_type=self._type, size=size)


def error_type(document: Document) -> str | None:
    """The type of an error object: its ``type``, ``status`` (Gemini) or ``code``, as a string."""
    error = document.get("error")
    if isinstance(error, str):
        return None
    if not isinstance(error, dict):
        return None
    code = error.get("code")
    return text(error, "type") or text(error, "status") or (str(code) if isinstance(code, str | int) else None)


def ending(*, error: bool, done: bool, finish: str | None, limits: frozenset[str], clean: bool) -> Terminal:
    """How an answer ended by a protocol that may leave its terminator out.

    ``done`` says that a terminator or a reason to finish was seen; ``limits`` are the reasons that mean an answer cut
    short by a limit.
    """
    if error:
        return "error"
    if done or (clean and finish is not None):
        return "incomplete" if finish in limits else "complete"
    return "unterminated" if clean else "truncated"
