"""An earlier manifest of the tree that is walked again: what of it still holds need not be read a second time."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

from docket.snapshot.manifest import MAX_LINE, RUN_OF_LINES, Header, from_line, order


class Earlier:
    """An earlier manifest of the same tree, read in step with a walk; a line that still holds is not even parsed."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises FormatError for a bad header."""
        self._file = file
        first = file.readline(MAX_LINE)
        self._digest = hashlib.sha256(first)
        self._passed: list[bytes] = []
        self.header = Header.from_line(first[:-1])
        self._line = b""
        self._next()

    def _next(self) -> None:
        self._line = self._file.readline(MAX_LINE)
        self._passed.append(self._line)
        if len(self._passed) >= RUN_OF_LINES:
            self._digest.update(b"".join(self._passed))
            self._passed.clear()

    def line_of(self, path: str, head: bytes, tail: bytes) -> bytes | None:
        """The line of ``path`` if it is ``head``, 64 characters and ``tail``. Paths must come in order.

        Raises FormatError for a line that is none.
        """
        if not self._line.startswith(head):
            key = order(path)
            while self._line and order(from_line(self._line[:-1]).path) < key:
                self._next()
        line = self._line
        if len(line) == len(head) + 64 + len(tail) and line.startswith(head) and line.endswith(tail):
            self._next()
            return line
        return None

    def pass_over(self, line: bytes) -> None:
        """Step on where ``line`` is what stands here, which is cheaper than to find out later."""
        if self._line == line:
            self._next()

    def finish(self) -> str:
        """Read the rest; SHA-256 in hex of the whole manifest, to be compared with what was written."""
        while self._line:
            self._next()
        self._digest.update(b"".join(self._passed))
        return self._digest.hexdigest()
