"""SHA-256 with domain separation: one function per domain, so that no hash of one kind can stand for another.

0x00 is a leaf, 0x01 an inner node (RFC 9162 section 2.1.1), 0x02 a commitment (evidence format section 1).
"""

from __future__ import annotations

import hashlib

SIZE = 32
"""Bytes of a digest."""
LEAF, NODE, COMMITMENT = b"\x00", b"\x01", b"\x02"
"""What stands before the bytes of each kind: the paths of a call put it there themselves."""


def sha256(data: bytes) -> bytes:
    """Plain SHA-256, 32 bytes."""
    return hashlib.sha256(data).digest()


def sha256_hex(data: bytes) -> str:
    """Plain SHA-256, 64 lower-case hex characters."""
    return hashlib.sha256(data).hexdigest()


def leaf_hash(data: bytes) -> bytes:
    """Hash of a Merkle leaf; for an event this is its ``hash``."""
    return hashlib.sha256(LEAF + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner Merkle node over two 32-byte hashes."""
    return hashlib.sha256(NODE + left + right).digest()


def commitment_hex(data: bytes) -> str:
    """Hash of canonical ``[name, salt, value]`` in hex: what stands for a private member when it is withheld."""
    return hashlib.sha256(COMMITMENT + data).hexdigest()
