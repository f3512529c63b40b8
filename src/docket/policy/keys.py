"""One row a key: its kind, its default, and the comment that teaches it. The dataclasses of ``model`` hold the rows.

A key is declared once, as a field of its table's dataclass; parser, flags, ``docket init``, the policy document and
docs/policy.md are all derived from that row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from docket.policy.kinds import Kind

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Key:
    """What is known about one key of the policy file."""

    name: str
    kind: Kind[Any]
    default: Any
    """None: absent, which ``comment`` explains; ``REQUIRED``: the table must have it."""
    comment: str
    private: bool
    """Whether the value is a host or path, and stands in the policy document as a private member."""
    example: str | None
    """TOML that ``docket init`` shows commented out where there is no default to show."""


REQUIRED: Any = object()
"""Default of a key that has none."""
_MARK = "docket.policy.key"


def key(kind: Kind[T], comment: str, *, default: T = REQUIRED, private: bool = False, example: str | None = None) -> T:
    """A dataclass field that is a key of the policy file."""
    row = {"kind": kind, "comment": comment, "private": private, "example": example, "default": default}
    if default is REQUIRED:
        declared: T = field(metadata={_MARK: row})
    else:
        declared = field(default=default, metadata={_MARK: row})
    return declared


def keys_of(table: type) -> Iterator[Key]:
    """The keys of a table's dataclass, in order of declaration."""
    for member in fields(table):
        if _MARK in member.metadata:
            yield Key(name=member.name, **member.metadata[_MARK])
