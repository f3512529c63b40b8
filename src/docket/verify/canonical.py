"""The canonical form and the sealed form, as a reader demands them (spec sections 2 and 3).

Invariant: what ``read`` returns is exactly what the bytes say, and no other bytes say it.
"""

from __future__ import annotations

import hashlib
import re
from operator import is_not
from typing import Any

import orjson

from docket.verify.report import Violation

Object = dict[str, Any]

MAX_INT = 2**53 - 1
MAX_DEPTH = 32
MAX_NAME = 128
WITHHELD_BYTES = 81
"""Bytes of ``{"commitment":"<64 hex>"}``, the longer form of a short private value (spec R-LED-2)."""
DISCLOSED_BYTES = 52
"""Bytes of ``{"salt":"<32 hex>","value":}`` around a value."""

HEX64 = re.compile(r"[0-9a-f]{64}")
HEX32 = re.compile(r"[0-9a-f]{32}")
known_names: set[str] = set()
"""Names found good before; bounded by ``MAX_NAMES``."""
MAX_NAMES = 4096


def read(line: bytes) -> Object:
    """The object whose canonical bytes are ``line``. Raises Violation for anything else."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Violation(f"not JSON: {error.msg} at byte {error.pos}") from None
    if type(value) is not dict:
        raise Violation("not an object")
    walk(value, 1)
    if encode(value) != line:
        raise Violation("not in canonical form")
    return value


def encode(value: Any) -> bytes:
    """Canonical bytes of a value that ``walk`` accepts."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def walk(value: Object, depth: int) -> None:
    """Raise Violation where ``value``, standing at level ``depth``, breaks a rule that bytes alone do not show."""
    if depth > MAX_DEPTH:
        raise Violation(f"nested deeper than {MAX_DEPTH}")
    for name, member in value.items():
        if name not in known_names:
            check_name(name)
        kind = type(member)
        if kind is str:
            continue
        if kind is int:
            if not -MAX_INT <= member <= MAX_INT:
                raise Violation(f"{name}: integer beyond 2^53-1")
        elif kind is dict:
            walk(member, depth + 1)
        elif kind is list:
            _walk_list(member, depth + 1)
        elif kind is float:
            raise Violation(f"{name}: a number that is not an integer")


def seal(value: Object, withheld: dict[str, int] | None = None) -> Object:
    """The sealed form of ``value``, which is ``value`` itself where nothing in it is private.

    Counts withheld members by name. Raises Violation for a bad ``private``.
    """
    sealed = value
    for name, member in value.items():
        new = seal_private(member, withheld) if name == "private" else seal_any(member, withheld)
        if new is not member:
            if sealed is value:
                sealed = dict(value)
            sealed[name] = new
    return sealed


def seal_private(private: Any, withheld: dict[str, int] | None) -> dict[str, str]:
    """The commitments of a ``private`` object by name."""
    if type(private) is not dict or not private:
        raise Violation("private is not an object with at least one member")
    sealed = {}
    for name, member in private.items():
        if type(member) is dict and name != "private":
            if len(member) == 2 and "value" in member:
                salt = member.get("salt")
                if type(salt) is str and HEX32.fullmatch(salt):
                    opened = b"\x02" + encode([name, salt, member["value"]])
                    sealed[name] = hashlib.sha256(opened).hexdigest()
                    continue
            elif len(member) == 1:
                commitment = member.get("commitment")
                if type(commitment) is str and HEX64.fullmatch(commitment):
                    sealed[name] = commitment
                    if withheld is not None and (name in withheld or len(withheld) < MAX_NAMES):
                        withheld[name] = withheld.get(name, 0) + 1
                    continue
        raise Violation(f"private member {name!r} is neither disclosed nor withheld")
    return sealed


def longer_form(value: Any) -> int:
    """How many bytes the private members of ``value`` would add if the short ones were withheld."""
    if type(value) is list:
        return sum(map(longer_form, value))
    if type(value) is not dict:
        return 0
    more = 0
    for name, member in value.items():
        if name != "private":
            more += longer_form(member)
        elif type(member) is dict:
            for each in member.values():
                if type(each) is dict and "value" in each:
                    more += max(0, WITHHELD_BYTES - DISCLOSED_BYTES - len(encode(each["value"])))
    return more


def check_name(name: str) -> None:
    """Raise Violation where ``name`` is not the name of a member."""
    if not 1 <= len(name) <= MAX_NAME or not name.isascii() or not name.isprintable():
        raise Violation("a member name is not 1 to 128 characters of U+0020 to U+007E")
    if len(known_names) < MAX_NAMES:
        known_names.add(name)


def _walk_list(value: list[Any], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Violation(f"nested deeper than {MAX_DEPTH}")
    for member in value:
        kind = type(member)
        if kind is dict:
            walk(member, depth + 1)
        elif kind is list:
            _walk_list(member, depth + 1)
        elif kind is int:
            if not -MAX_INT <= member <= MAX_INT:
                raise Violation("integer beyond 2^53-1")
        elif kind is float:
            raise Violation("a number that is not an integer")


def seal_any(value: Any, withheld: dict[str, int] | None) -> Any:
    """As ``seal``, for any value."""
    if type(value) is dict:
        return seal(value, withheld)
    if type(value) is list:
        sealed = [seal_any(each, withheld) for each in value]
        return sealed if any(map(is_not, sealed, value)) else value
    return value
