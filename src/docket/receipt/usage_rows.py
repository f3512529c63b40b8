"""The usage tree and its rows: one row for every metered event, in order (evidence format section 4).

Invariant: the tree covers every row; the rows themselves are kept, deflated, only while there are few enough to embed,
so that memory is bounded whatever the length of a run.
"""

from __future__ import annotations

import zlib
from hashlib import sha256

from docket.primitives.canonical import JsonObject, decode, encode_checked
from docket.primitives.digest import LEAF
from docket.primitives.merkle import Frontier

MAX_ROWS = 10_000
"""Rows that a receipt embeds; above it a verifier needs the ledger (spec R-USE-4)."""
MAX_ROW_BYTES = 8 << 20
"""Canonical bytes of rows that a receipt embeds: half of what a reader accepts (spec P-1)."""
MAX_ROW_MARKS = 3 << 17
"""Bytes ``,``, ``[`` and ``{`` of rows that a receipt embeds: three quarters of what a reader accepts (spec P-1)."""


class UsageRows:
    """The rows so far."""

    __slots__ = ("_bytes", "_deflated", "_deflater", "_marks", "_tree")

    def __init__(self) -> None:
        self._tree = Frontier()
        self._deflater: zlib._Compress | None = zlib.compressobj(1, wbits=13)
        self._deflated = bytearray()
        self._bytes = self._marks = 0

    def add(self, row: JsonObject) -> None:
        """Take the next row ``{call, model, provider, seq, tier, usage}``."""
        leaf = encode_checked(row)  # its parts stand in an event
        self._tree.append(sha256(LEAF + leaf).digest())
        if self._deflater is None:
            return
        self._bytes += len(leaf)
        self._marks += sum(map(leaf.count, (b",", b"[", b"{"))) + 1
        if self._tree.size > MAX_ROWS or self._bytes > MAX_ROW_BYTES or self._marks > MAX_ROW_MARKS:
            self._deflater = None
            self._deflated = bytearray()
        else:
            self._deflated += self._deflater.compress(leaf + b"\n")

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._tree.size

    @property
    def embedded(self) -> bool:
        """Whether a receipt holds the rows."""
        return self._deflater is not None

    def tree(self) -> JsonObject:
        """``{size, root}`` of the usage tree."""
        return {"size": self._tree.size, "root": self._tree.root().hex()}

    def to_json(self) -> JsonObject:
        """The ``usage`` member of a receipt: the tree, and the rows where they are few enough."""
        document = self.tree()
        if self._deflater is not None:
            spooled = zlib.decompressobj(wbits=13).decompress(self._deflated + self._deflater.copy().flush())
            document["rows"] = [decode(line) for line in spooled.splitlines()]
        return document
