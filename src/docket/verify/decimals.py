"""Decimal strings as whole numbers of 1e-12, and exact products: none of the arithmetic that writes receipts.

Twelve fractional digits are the format's limit, and a price has at most six of them, per million or per one: every
product and every sum is such a whole number, and nothing is ever rounded.
"""

from __future__ import annotations

import re
from functools import lru_cache

from docket.verify.report import Violation

SPELLING = re.compile(r"(0|-?[1-9][0-9]{0,14}(\.[0-9]{0,11}[1-9])?|-?0\.[0-9]{0,11}[1-9])")
"""The one spelling of a decimal (spec C-8)."""
PRICE = re.compile(r"(0|[1-9][0-9]{0,14}(\.[0-9]{0,5}[1-9])?|0\.[0-9]{0,5}[1-9])")
"""A price: not negative, at most six fractional digits."""
DIGITS = 12
LIMIT = 10 ** (15 + DIGITS)
"""What an amount is below, in 1e-12: it has at most 15 whole digits."""


@lru_cache(maxsize=4096)
def rate(unit: str, per: int) -> int:
    """What one piece costs at ``unit`` USD per ``per`` (1 or 1000000) of them, in 1e-12 USD.

    Raises Violation where ``unit`` is not the spelling of a price.
    """
    if not PRICE.fullmatch(unit):
        raise Violation(f"{unit[:40]!r} is not a price")
    return _scaled(unit) if per == 1 else _scaled(unit) // 1_000_000


def amount(text: str) -> int:
    """The amount, not negative, that ``text`` spells, in 1e-12. Raises Violation for any other spelling."""
    if not SPELLING.fullmatch(text) or text[0] == "-":
        raise Violation(f"{text[:40]!r} is not an amount")
    return _scaled(text)


def spell(value: int) -> str:
    """The one spelling of ``value``, in 1e-12 and not negative."""
    digits = str(value).zfill(DIGITS + 1)
    return f"{digits[:-DIGITS]}.{digits[-DIGITS:]}".rstrip("0").rstrip(".")


def _scaled(text: str) -> int:
    whole, _, fraction = text.partition(".")
    return int(whole + fraction.ljust(DIGITS, "0"))
