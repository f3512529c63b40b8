"""The fingerprint of a request's credential: tells calls of different keys apart without keeping the key.

A keyed hash (BLAKE2b, RFC 7693) under a key that lives as long as the run, in memory only.
"""

from __future__ import annotations

import hashlib

from docket.boundary.http1.wire import Head
from docket.families import FAMILIES

CREDENTIAL_HEADERS = tuple(sorted({name for family in FAMILIES for name in family.credentials}))
"""Where clients of any family put their key."""
FINGERPRINT_BYTES = 16


def fingerprint(head: Head, key: bytes) -> str | None:
    """32 hex characters that stand for the credential in ``head`` under ``key``; None where there is none.

    ``key`` is at most 64 random bytes of the run.
    """
    digest = None
    for name in CREDENTIAL_HEADERS:
        if name in head.named:
            digest = digest or hashlib.blake2b(key=key, digest_size=FINGERPRINT_BYTES)
            for value in sorted(head.values(name)):
                digest.update(len(value).to_bytes(4, "big") + name + b"\0" + value)
    return digest.hexdigest() if digest is not None else None
