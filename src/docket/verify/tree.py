"""RFC 9162 Merkle trees as a verifier needs them: roots while reading, and inclusion proofs."""

from __future__ import annotations

import hashlib

_EMPTY = hashlib.sha256(b"").digest()


class Tree:
    """A tree that is read leaf by leaf: ``level[i]`` is the root of a full subtree of 2**i leaves, if there is one."""

    __slots__ = ("_levels", "size")

    def __init__(self) -> None:
        self.size = 0
        self._levels: list[bytes | None] = []

    def add(self, leaf: bytes) -> None:
        """Take the 32-byte hash of the next leaf."""
        levels, node, level, sha256 = self._levels, leaf, 0, hashlib.sha256
        for level, left in enumerate(levels):
            if left is None:
                levels[level] = node
                break
            node = sha256(b"\x01" + left + node).digest()
            levels[level] = None
        else:
            levels.append(node)
        self.size += 1

    def root(self) -> bytes:
        """Root over the leaves so far (RFC 9162 section 2.1.1)."""
        node: bytes | None = None
        for left in self._levels:
            if left is not None:
                node = left if node is None else hashlib.sha256(b"\x01" + left + node).digest()
        return _EMPTY if node is None else node


def root_from_proof(leaf: bytes, index: int, size: int, hashes: list[bytes]) -> bytes | None:
    """The root that an inclusion proof leads to (RFC 9162 section 2.1.3.2), or None if it does not fit its tree."""
    if not 0 <= index < size:
        return None
    at, last, node = index, size - 1, leaf
    for sibling in hashes:
        if last == 0:
            return None
        if at & 1 or at == last:
            node = hashlib.sha256(b"\x01" + sibling + node).digest()
            while not at & 1 and at:
                at >>= 1
                last >>= 1
        else:
            node = hashlib.sha256(b"\x01" + node + sibling).digest()
        at >>= 1
        last >>= 1
    return node if last == 0 else None
