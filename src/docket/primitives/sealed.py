"""Private members: salted commitments that let one value be withheld without breaking a hash (format section 1).

A member named ``private`` is an object of ``{"salt", "value"}`` (disclosed) or ``{"commitment"}`` (withheld); its
sealed form replaces each by the string of its commitment. All hashes and signatures are over sealed forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from docket.errors import FormatError
from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.digest import commitment_hex

SALT_BYTES = 16
"""Random bytes of a salt; a guess at a withheld value cannot be confirmed without it."""

_SALT = re.compile(r"[0-9a-f]{32}")
_COMMITMENT = re.compile(r"[0-9a-f]{64}")
Entropy = Callable[[int], bytes]
"""A source of n random bytes."""


def commitment(name: str, salt: str, value: Json) -> str:
    """64 hex characters that stand for the private member ``name``."""
    return commitment_hex(encode([name, salt, value]))


def disclose(members: Mapping[str, Json], entropy: Entropy) -> JsonObject:
    """The disclosed form of ``members``, a fresh salt each."""
    return {name: {"salt": entropy(SALT_BYTES).hex(), "value": value} for name, value in members.items()}


def seal(document: JsonObject) -> JsonObject:
    """Sealed form of ``document``: every ``private`` member replaced by strings of commitments, at any depth.

    Raises FormatError for a private member that is neither disclosed nor withheld. Does not descend into values.
    """
    return {name: _seal_private(value) if name == "private" else _seal_value(value) for name, value in document.items()}


def _seal_value(value: Json) -> Json:
    if isinstance(value, dict):
        return seal(value)
    if isinstance(value, list):
        return [_seal_value(member) for member in value]
    return value


def _seal_private(private: Json) -> Json:
    if not isinstance(private, dict) or not private:
        raise FormatError("private is not an object with members")
    return {name: _commitment_of(name, member) for name, member in private.items()}


def _commitment_of(name: str, member: Json) -> str:
    if name == "private":
        raise FormatError("a private member is named private")
    if isinstance(member, dict):
        if len(member) == 2 and "value" in member:
            salt = member.get("salt")
            if isinstance(salt, str) and _SALT.fullmatch(salt):
                return commitment(name, salt, member["value"])
        elif len(member) == 1:
            withheld = member.get("commitment")
            if isinstance(withheld, str) and _COMMITMENT.fullmatch(withheld):
                return withheld
    raise FormatError(f"private member {name!r} is neither disclosed nor withheld")
