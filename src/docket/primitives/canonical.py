"""Canonical JSON: RFC 8785 on the strict subset of the evidence format (section 1).

Owns the one encoder and the one strict decoder of hashed documents. Invariant: ``encode(decode(line)) == line`` in
bytes, so a hash over the canonical bytes is a hash over what is stored. Numbers are integers with |n| <= 2**53-1;
strings hold Unicode scalar values; member names are 1 to 128 characters of U+0020 to U+007E; nothing stands deeper
than ``MAX_DEPTH``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import orjson

from docket.errors import FormatError

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"

MAX_INT = 2**53 - 1
"""The largest integer that every JSON library keeps exactly (RFC 8785 section 3.2.2.3)."""
MAX_DEPTH = 32
"""The deepest level at which an object or array may stand, the top-level value being at 1: bounds recursion."""
MAX_NAME = 128
"""Longest member name, in characters."""

_NAMES: set[object] = set()
"""Member names that were found good: nearly all names are the format's own, seen for every event."""
_MAX_NAMES = 1024
"""Names remembered at most, which bounds memory whatever a document holds."""
_HARMLESS = frozenset({str, bool, int, type(None)})
"""Types all of whose values have a canonical form, or are refused by the encoder."""
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER


def encode(value: Json, depth: int = 1) -> bytes:
    """Canonical bytes of ``value``, without a line feed; ``depth`` is the level at which it will stand.

    Raises FormatError where the value has no canonical form.
    """
    if type(value) not in _HARMLESS:
        _check(value, depth)
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        if str(error).startswith("Integer exceeds"):
            raise FormatError("integer beyond 2^53-1") from error
        raise FormatError(f"no canonical form: {error}") from error


def encode_checked(value: Json) -> bytes:
    """As ``encode``, for a value that was decoded or encoded before: nothing is looked at again."""
    return orjson.dumps(value, option=_OPTIONS)


def decode(line: bytes) -> Json:
    """The value whose canonical bytes are exactly ``line`` (no line feed).

    Raises FormatError for anything else: BOM, duplicate names, floats, NaN, white space, trailing bytes, bad UTF-8.
    """
    try:
        value: Json = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg}", where=f"byte {error.pos}") from error
    if encode(value) != line:
        raise FormatError("not in canonical form")
    return value


def decode_object(line: bytes) -> JsonObject:
    """As ``decode``, for a document that must be an object."""
    value = decode(line)
    if not isinstance(value, dict):
        raise FormatError("not an object")
    return value


def is_canonical(value: object) -> bool:
    """Whether ``value`` has a canonical form: what the agent supplied may have none and is then kept as bytes."""
    try:
        encode(value)  # type: ignore[arg-type]
    except (FormatError, RecursionError):
        return False
    return True


def _check(value: Json, depth: int) -> None:
    """Raise FormatError where ``value``, which is not harmless, breaks a rule that the encoder does not enforce."""
    pending = [(value, depth)]
    for value, depth in pending:  # grows as it is walked
        if depth > MAX_DEPTH and type(value) in (dict, list):
            raise FormatError(f"nested deeper than {MAX_DEPTH}")
        members: Iterable[Json]
        if type(value) is dict:
            if not (_NAMES.issuperset(value) or all(map(_is_name, value))):
                raise FormatError("member name is not 1 to 128 characters of U+0020 to U+007E")
            members = value.values()
        elif type(value) is list:
            members = value
        else:
            raise FormatError(f"{type(value).__name__} is not a value of the format")
        for member in members:
            if type(member) not in _HARMLESS:
                pending.append((member, depth + 1))


def _is_name(name: object) -> bool:
    good = type(name) is str and 1 <= len(name) <= MAX_NAME and name.isascii() and name.isprintable()
    if good and len(_NAMES) < _MAX_NAMES:
        _NAMES.add(name)
    return good
