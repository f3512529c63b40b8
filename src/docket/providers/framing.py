"""The framings in which providers send JSON: one document, server-sent events, one document a line, a JSON array.

Owns the cut of decoded body bytes into documents. Invariant: the same documents come out however the bytes are cut,
and memory stays bounded; a document that was too long to keep is given as None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from docket.providers.long_text import LongText, Piece
from docket.providers.sse import SseDecoder


class Framing(Protocol):
    """Cuts a body into pieces."""

    @property
    def streamed(self) -> bool:
        """Whether the body is made of several documents, so that its end is a matter of the protocol."""
        ...

    def feed(self, data: bytes) -> Iterable[Piece]:
        """The pieces that ``data`` completes, to be taken before the next ``feed``."""
        ...

    def finish(self) -> Iterable[Piece]:
        """What stands unfinished at the end of the body."""
        ...


class Lines:
    """One document a line (NDJSON); empty lines mean nothing."""

    streamed = True

    def __init__(self) -> None:
        self._line = LongText()

    def feed(self, data: bytes) -> Iterator[Piece]:
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._line.add(line)
            yield from self.finish()
        self._line.add(rest)

    def finish(self) -> Iterator[Piece]:
        text = self._line.take()
        if text is None or text.strip():
            yield Piece(b"", text)


class Document:
    """A body that is one document."""

    streamed = False

    def __init__(self) -> None:
        self._text = LongText()

    def feed(self, data: bytes) -> Iterable[Piece]:
        self._text.add(data)
        return ()

    def finish(self) -> Iterable[Piece]:
        return () if self._text.empty else (Piece(b"", self._text.take()),)


class Sniffed:
    """Takes the framing from the first byte that is no white space: ``{`` or ``[`` starts a document."""

    __slots__ = ("_chosen", "_document", "_text", "streamed")

    def __init__(self, document: Framing | None) -> None:
        """``document`` is how a protocol frames what is no event stream, where that is not one document."""
        self._document = document
        self._chosen: Framing | None = None
        self._text: LongText | None = None
        """Of the one document, where it is one."""
        self.streamed = False

    def feed(self, data: bytes) -> Iterable[Piece]:
        if self._text is not None:
            self._text.add(data)
            return ()
        if self._chosen is None:
            data = data.lstrip()
            if not data:
                return ()
            if data[:1] not in (b"{", b"["):
                self._chosen = SseDecoder()
            elif self._document is None:
                self._text = LongText(data)
                return ()
            else:
                self._chosen = self._document
            self.streamed = self._chosen.streamed
        return self._chosen.feed(data)

    def finish(self) -> Iterable[Piece]:
        if self._text is not None:
            text, self._text = self._text, LongText()
            return () if text.empty else (Piece(b"", text.take()),)
        return () if self._chosen is None else self._chosen.finish()


def framing_of(media_type: bytes, document: Framing | None = None) -> Framing:
    """The framing that a media type announces; where it announces none that is known, the first byte decides.

    ``document`` is how this protocol frames what is no event stream.
    """
    if media_type == b"text/event-stream":
        return SseDecoder()
    return Sniffed(document)
