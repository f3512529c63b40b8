"""RFC 9162 Merkle trees, computed while appending.

A ``Frontier`` holds log2(n) hashes, whatever the number of leaves. A ``ProofBuilder`` grows the inclusion proof of one
leaf as later leaves arrive, so that no list of leaves is ever kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from docket.primitives.digest import NODE, node_hash, sha256

EMPTY_ROOT = sha256(b"")
"""Root of the tree without leaves (RFC 9162 section 2.1.1)."""


class Frontier:
    """The right edge of a growing tree: one hash per set bit of its size, largest subtree first."""

    __slots__ = ("_last_watched", "_proofs", "_stack", "size")

    def __init__(self) -> None:
        self.size = 0
        self._stack: list[tuple[int, bytes]] = []  # (number of leaves, hash)
        self._proofs: list[ProofBuilder] = []
        self._last_watched = -1

    def append(self, leaf: bytes) -> None:
        """Add the 32-byte hash ``leaf`` of the next leaf."""
        stack, size = self._stack, self.size
        count, right = 1, leaf
        while size & count:  # the subtree before it is as large
            _, left = stack.pop()
            start = size + 1 - 2 * count
            if start <= self._last_watched:  # most merges lie behind every watched leaf
                for proof in self._proofs:
                    proof._merge(start, count, left, right)
            right = hashlib.sha256(NODE + left + right).digest()
            count *= 2
        stack.append((count, right))
        self.size = size + 1

    def root(self) -> bytes:
        """Root over all leaves so far."""
        if not self._stack:
            return EMPTY_ROOT
        stack = iter(reversed(self._stack))
        _, root = next(stack)
        for _, left in stack:
            root = node_hash(left, root)
        return root

    def append_watched(self, leaf: bytes) -> ProofBuilder:
        """Append ``leaf`` and grow its inclusion proof from here on."""
        proof = ProofBuilder(self.size)
        self._proofs.append(proof)
        self._last_watched = self.size
        self.append(leaf)
        return proof

    def unwatch(self, builder: ProofBuilder) -> None:
        """Let ``builder`` grow no further."""
        self._proofs.remove(builder)

    def mark(self) -> Mark:
        """This state, to come back to if the leaves appended next do not last."""
        lengths = [len(proof.hashes) for proof in self._proofs] if self._proofs else ()
        return Mark(self.size, tuple(self._stack), tuple(zip(self._proofs, lengths, strict=True)))

    def reset(self, mark: Mark) -> None:
        """Forget every leaf, and every watch, since ``mark``."""
        self.size = mark.size
        self._stack = list(mark.stack)
        self._proofs = [proof for proof, _ in mark.proofs]
        for proof, length in mark.proofs:
            del proof.hashes[length:]

    def proof(self, builder: ProofBuilder) -> list[bytes]:
        """The inclusion proof of ``builder``'s leaf in the tree of the present size (RFC 9162 section 2.1.3.1)."""
        number = self._subtree_of(builder.index)
        hashes = list(builder.hashes)
        later = self._stack[number + 1 :]
        if later:
            _, right = later[-1]
            for _, left in reversed(later[:-1]):
                right = node_hash(left, right)
            hashes.append(right)
        hashes.extend(subtree for _, subtree in reversed(self._stack[:number]))
        return hashes

    def _subtree_of(self, index: int) -> int:
        end = 0
        for number, (count, _) in enumerate(self._stack):
            end += count
            if index < end:
                return number
        raise IndexError(f"no leaf {index} in a tree of {self.size}")


class ProofBuilder:
    """The inclusion proof of one leaf inside its own complete subtree; grown by its Frontier."""

    __slots__ = ("hashes", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.hashes: list[bytes] = []

    def _merge(self, start: int, count: int, left: bytes, right: bytes) -> None:
        if start <= self.index < start + count:
            self.hashes.append(right)
        elif start + count <= self.index < start + 2 * count:
            self.hashes.append(left)


class Mark(NamedTuple):
    """A state of a Frontier; the proofs that it had grown then, by their length."""

    size: int
    stack: tuple[tuple[int, bytes], ...]
    proofs: tuple[tuple[ProofBuilder, int], ...]


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Root over the 32-byte leaf hashes ``leaves``."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()
