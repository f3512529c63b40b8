"""A small language of shapes: what type a member has, which members an object must have.

A shape is a function of (value, path, unknown) that raises Violation naming the path; ``unknown`` collects the names of
members that no shape speaks of, which are signed and hashed but never judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from docket.verify import decimals
from docket.verify.canonical import HEX64, MAX_INT
from docket.verify.report import Violation

Shape = Callable[[Any, str, list[str]], None]

MAX_COUNTS = 256
"""Members of an object of counts."""
MAX_UNKNOWN = 100
"""Unknown members named in an answer; more are only counted as seen."""
TIMESTAMP = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z"
)
"""RFC 3339 in UTC with microseconds (spec R-LED-5)."""
NAME = re.compile(r"[ -~]{1,64}")
"""A kind, code or class: what becomes the name of a member in totals."""


def of(pattern: re.Pattern[str], what: str) -> Shape:
    """A string that matches ``pattern`` as a whole."""

    def shape(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is not str or not pattern.fullmatch(value):
            raise Violation(f"{path}: not {what}")

    return shape


def text(value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is not str:
        raise Violation(f"{path}: not a string")


def boolean(value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is not bool:
        raise Violation(f"{path}: not true or false")


def natural(value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is not int or value < 0:
        raise Violation(f"{path}: not a whole number from 0")


def positive(value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is not int or value < 1:
        raise Violation(f"{path}: not a whole number from 1")


def amount(value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is not str or not decimals.SPELLING.fullmatch(value) or value.startswith("-"):
        raise Violation(f"{path}: not an amount")


def price(value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is not str or not decimals.PRICE.fullmatch(value):
        raise Violation(f"{path}: not a price")


def free_object(value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is not dict:
        raise Violation(f"{path}: not an object")


def one_of(*choices: Any) -> Shape:
    """One of ``choices``, and of its very type."""

    def shape(value: Any, path: str, unknown: list[str]) -> None:
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise Violation(f"{path}: not {' or '.join(map(str, choices))}")

    return shape


def listed(each: Shape, least: int = 0, most: int = MAX_INT) -> Shape:
    """A list of ``least`` to ``most`` values of one shape."""

    def shape(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is not list or not least <= len(value) <= most:
            raise Violation(f"{path}: not a list of {least} or more" + (f", at most {most}" if most < MAX_INT else ""))
        for number, member in enumerate(value):
            each(member, f"{path}[{number}]", unknown)

    return shape


def counted(value: Any, path: str, unknown: list[str]) -> None:
    """An object of counts by name."""
    free_object(value, path, unknown)
    if len(value) > MAX_COUNTS:
        raise Violation(f"{path}: more than {MAX_COUNTS} counts")
    for name, member in value.items():
        natural(member, f"{path}.{name}", unknown)


def members(required: dict[str, Shape], optional: dict[str, Shape] | None = None, *, exact: bool = False) -> Shape:
    """An object with all of ``required``, maybe ``optional``; others are unknown, or refused where ``exact``."""
    known = required | (optional or {}) | {"private": free_object}

    def shape(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is not dict:
            raise Violation(f"{path}: not an object")
        for name in required:
            if name not in value:
                raise Violation(f"{path}: no member {name}")
        for name, member in value.items():
            if name in known and not (exact and name == "private"):
                known[name](member, f"{path}.{name}", unknown)
            elif exact:
                raise Violation(f"{path}: a member {name!r} that does not belong there")
            elif len(unknown) < MAX_UNKNOWN:
                unknown.append(f"{path}.{name}")

    return shape


def reads(required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object of which only these members are looked at, and no other is named as unknown."""
    needed, possible = tuple(required.items()), tuple((optional or {}).items())

    def shape(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is not dict:
            raise Violation(f"{path}: not an object")
        for name, each in needed:
            if name not in value:
                raise Violation(f"{path}: no member {name}")
            each(value[name], name, unknown)
        for name, each in possible:
            if name in value:
                each(value[name], name, unknown)

    return shape


hex64 = of(HEX64, "64 lower-case hex characters")
hex128 = of(re.compile(r"[0-9a-f]{128}"), "128 lower-case hex characters")
timestamp = of(TIMESTAMP, "an RFC 3339 time in UTC with microseconds")
name = of(NAME, "1 to 64 characters of U+0020 to U+007E")
docket = of(re.compile(r"DKT-[0-9]{8}-[0-9A-HJKMNP-TV-Z]{10}"), "a docket number")
