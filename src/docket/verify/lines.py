"""Bytes in chunks to lines, bounded: a reader of any ledger needs the memory of one line.

Invariant: only what ends in LF is a line; what follows the last LF is a fragment, never an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MAX_LINE = 1 << 20
"""Longest line of a ledger with its LF, in bytes (spec R-LED-2)."""


class Lines:
    """An iterator over the lines of ``chunks``, without their LF; ``rest`` is the fragment once it ended."""

    def __init__(self, chunks: Iterable[bytes], limit: int = MAX_LINE) -> None:
        self._chunks = chunks
        self._limit = limit
        self.rest = b""
        """Bytes after the last LF, at most the limit of them."""
        self.oversize = False
        """Whether a line without an end passed the limit: nothing after it was read."""

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self._chunks:
            *whole, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            yield from whole
            if len(rest) >= self._limit:
                self.oversize = True
                break
        self.rest = rest
