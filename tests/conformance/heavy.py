"""Documents that cost a careless reader most, each as large as a receipt may be (spec P-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.scene import edit_bare, put, short
from docket.primitives.canonical import encode

MAX_BYTES = 16 << 20
MAX_MARKS = 1 << 19


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _named(number: int, width: int) -> str:
    return f"{number:0{width}}"


VALUES: dict[str, Callable[[int], Any]] = {
    "numbers": lambda n: [0] * n,
    "the longest numbers": lambda n: [2**53 - 1] * n,
    "empty lists": lambda n: [[] for _ in range(n)],
    "empty objects": lambda n: [{} for _ in range(n)],
    "objects of one member": lambda n: [{"a": 0} for _ in range(n)],
    "lists 28 deep": lambda n: [_nested(27) for _ in range(n)],
    "empty strings": lambda n: [""] * n,
    "members of one object": lambda n: {_named(each, 6): 0 for each in range(n)},
    "the longest names": lambda n: {_named(each, 128): 0 for each in range(n)},
    "one text": lambda n: "x" * n,
    "one text of escapes": lambda n: "\x01" * n,
    "one text beyond ASCII": lambda n: "\U0001f600" * n,
    "short texts beyond ASCII": lambda n: ["é"] * n,
    "private members withheld": lambda n: {"private": {_named(each, 6): {"commitment": "0" * 64} for each in range(n)}},
    "private members disclosed": lambda n: {
        "private": {_named(each, 6): {"salt": "0" * 32, "value": ""} for each in range(n)}
    },
    "objects each with a private member": lambda n: [{"private": {"a": {"commitment": "0" * 64}}} for _ in range(n)],
}
"""By name: a value of a size that grows with a number."""


def _size(value: Any) -> tuple[int, int]:
    line = encode(value)
    return len(line), sum(map(line.count, (b",", b"[", b"{")))


def largest(make: Callable[[int], Any]) -> Any:
    """The largest value of ``make`` that a receipt has room for: each step adds as many bytes as the one before."""
    few, more = _size(make(1000)), _size(make(2000))
    room = (MAX_BYTES - 16_384, MAX_MARKS - 1024)  # the rest of the receipt
    steps = [
        (most - least) * 1000 // (grown - least)
        for most, least, grown in zip(room, few, more, strict=True)
        if grown > least
    ]
    return make(min(steps))


def receipts() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every such receipt, right and signed."""
    for name, make in VALUES.items():
        yield name, receipt_with(largest(make))


def receipt_with(value: Any) -> bytes:
    """A right, signed bare receipt that holds ``value``."""
    return edit_bare(short(), put("tool.x", value), sign=True)["receipt.json"]
