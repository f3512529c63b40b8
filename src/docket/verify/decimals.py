"""Decimal strings and exact products, on the decimal module: none of the arithmetic that writes receipts."""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, Overflow
from functools import lru_cache

from docket.verify.report import Violation

SPELLING = re.compile(r"(0|-?[1-9][0-9]{0,14}(\.[0-9]{0,11}[1-9])?|-?0\.[0-9]{0,11}[1-9])")
"""The one spelling of a decimal (spec R-DEC-1)."""
PRICE = re.compile(r"(0|[1-9][0-9]{0,14}(\.[0-9]{0,5}[1-9])?|0\.[0-9]{0,5}[1-9])")
"""A price: not negative, at most six fractional digits."""
ZERO = Decimal(0)
_EXACT = Context(prec=80, traps=[Inexact, Overflow])


@lru_cache(maxsize=4096)
def price(text: str) -> Decimal:
    """The price that ``text`` spells. Raises Violation for any other spelling."""
    if not PRICE.fullmatch(text):
        raise Violation(f"{text[:40]!r} is not a price")
    return Decimal(text)


def amount(text: str) -> Decimal:
    """The amount, not negative, that ``text`` spells. Raises Violation for any other spelling."""
    if not SPELLING.fullmatch(text) or text.startswith("-"):
        raise Violation(f"{text[:40]!r} is not an amount")
    return Decimal(text)


def product(unit: Decimal, quantity: int, per: int) -> Decimal:
    """``unit`` x ``quantity`` / ``per``, exactly; ``per`` is 1 or 1000000."""
    whole = _EXACT.multiply(unit, Decimal(quantity))
    return whole if per == 1 else _EXACT.scaleb(whole, -6)


def add(left: Decimal, right: Decimal) -> Decimal:
    """The exact sum."""
    return _EXACT.add(left, right)


def spell(value: Decimal) -> str:
    """The one spelling of ``value``."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
