"""One event in words: on a line beside others, or by itself with every member. Judges nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

MAX_SAID = 64
"""Characters of a member that stands on a line with others; what is longer is cut, and ends in an ellipsis."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLACE = ("seq", "type", "by", "ts", "elapsed_us", "prev", "hash")
"""Members of the envelope, which the heading tells."""


def line(event: dict[str, Any]) -> str:
    """Return ``event`` as one line: its ``seq``, the time of day, its type, and what its short members say."""
    return f"{event['seq']:>6}  {event['ts'][11:23]}  {event['type']:<16}  {said(event)}".rstrip()


def said(event: dict[str, Any]) -> str:
    """Return the members of ``event`` that are a short word or a number, and what its bill comes to."""
    data = event["data"]
    parts = [f"{name}={word}" for name, value in data.items() if (word := _word(value)) is not None]
    bill = data.get("usage")
    if isinstance(bill, dict):
        parts.append(f"usd={bill.get('cost_usd', 'unknown')}")
    private = event.get("private", {})
    if isinstance(private, dict):
        for name, member in private.items():
            word = _word(member["value"]) if isinstance(member, dict) and "value" in member else None
            if word is not None:
                parts.append(f"{name}={word}")
    return " ".join(parts)


def details(event: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of ``event`` by itself: its place in the record, and every member under its dotted name."""
    yield f"event {event['seq']}: {event['type']}, by {event['by']}"
    yield f"at     {event['ts']}, {event['elapsed_us'] / 1_000_000:.6f} s into the run"
    yield f"prev   {event['prev']}"
    yield f"hash   {event['hash']}"
    rows = [
        row
        for name, value in event.items()
        if name not in _PLACE
        for row in _rows(name, value, private=name == "private")
    ]
    width = max((len(name) for name, _ in rows), default=0)
    if rows:
        yield ""
    for name, text in rows:
        yield f"{name:<{width}}  {text}"


def _rows(name: str, value: Any, *, private: bool = False) -> Iterator[tuple[str, str]]:
    if private and isinstance(value, dict):
        for member, held in value.items():
            if isinstance(held, dict) and "value" in held:
                yield from _rows(f"{name}.{member}", held["value"])
            else:
                yield f"{name}.{member}", f"withheld: {held.get('commitment') if isinstance(held, dict) else held}"
    elif isinstance(value, dict) and value:
        for member, inner in value.items():
            yield from _rows(f"{name}.{member}", inner, private=member == "private")
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for at, inner in enumerate(value):
            yield from _rows(f"{name}.{at}", inner)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, orjson.dumps(value).decode()


def _word(value: Any) -> str | None:
    """The value where it is short and tells a person something, else None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and not _DIGEST.fullmatch(value):
        return value if len(value) <= MAX_SAID else value[: MAX_SAID - 1] + "…"
    return None
