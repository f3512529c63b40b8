"""Reading counters out of decoded JSON, where anything may stand in any place.

Unknown is never zero: an absent or null counter is None, and one that cannot be (negative, fractional, huge, not a
number) raises Malformed, which makes the whole usage unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Document: TypeAlias = "Mapping[str, object]"

MAX_QUANTITY = 10**9
"""The largest quantity of the evidence format (section 1)."""


class Malformed(ValueError):
    """A counter is not a count."""


def counter(document: Document, *names: str) -> int | None:
    """The first of ``names`` that is present and not null. Raises Malformed where that is no count."""
    for name in names:
        value = document.get(name)
        if value is None:
            continue
        if type(value) is int and 0 <= value <= MAX_QUANTITY:
            return value
        if isinstance(value, float) and value.is_integer() and 0 <= value <= MAX_QUANTITY:
            return int(value)
        raise Malformed(name)
    return None


def limit(document: Document, *names: str) -> int | None:
    """The largest limit that a request sets under ``names``; one that is no count counts as not given.

    Servers differ in which of several names they read.
    """
    found: int | None = None
    for name in names:
        given = document.get(name)
        if given is None:
            continue
        try:
            value = given if type(given) is int and 0 <= given <= MAX_QUANTITY else counter(document, name)
        except Malformed:
            continue
        if value is not None and (found is None or value > found):
            found = value
    return found


def member(document: Document, name: str) -> Document:
    """The object that stands under ``name``, or an empty one."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def members(document: Document, name: str) -> list[Document]:
    """The objects in the list that stands under ``name``."""
    value = document.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(document: Document, name: str) -> str | None:
    """The string that stands under ``name``; an empty one counts as absent."""
    value = document.get(name)
    return value if isinstance(value, str) and value else None
