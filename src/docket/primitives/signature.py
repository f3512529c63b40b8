"""Ed25519 signatures (RFC 8032), their key ids, and the strict reading of keys that the format demands.

Refuses what lenient implementations accept: S >= L, y >= 2**255-19, and the small-order points.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_L = 2**252 + 27742317777372353535851937790883648493
_P = 2**255 - 19
_ORDER_8_Y = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER_Y = frozenset({0, 1, _P - 1, _ORDER_8_Y, _P - _ORDER_8_Y})
"""y coordinates of the eight points of small order of edwards25519 (RFC 8032 section 5.1)."""


class SigningKey:
    """A private Ed25519 key, kept in memory only."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: bytes) -> None:
        """``seed`` is 32 random bytes."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature over ``message``."""
        return self._private.sign(message)


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` (64 bytes) over ``message`` is by ``public`` (32 bytes), read strictly."""
    if len(public) != 32 or len(signature) != 64 or int.from_bytes(signature[32:], "little") >= _L:
        return False
    if not is_sound_point(public) or not is_sound_point(signature[:32]):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_sound_point(encoded: bytes) -> bool:
    """Whether the 32 bytes encode y < 2**255-19 and not a point of small order."""
    y = int.from_bytes(encoded, "little") & (2**255 - 1)
    return y < _P and y not in _SMALL_ORDER_Y
