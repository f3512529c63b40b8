"""Exact amounts of US dollars, and their decimal strings (evidence format section 1).

An amount is an integer number of picodollars (1e-12 USD): a price has at most 6 fractional digits and is per million
tokens, so every product of a price and a quantity is a whole number of them. Nothing here ever rounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from docket.errors import FormatError

PICO = 10**12
"""Picodollars in a dollar: twelve fractional digits, the format's limit."""
DECIMAL = re.compile(r"(0|-?[1-9][0-9]{0,14}(\.[0-9]{0,11}[1-9])?|-?0\.[0-9]{0,11}[1-9])")
"""The one spelling of every decimal of the format."""


@lru_cache(maxsize=4096)
def spelled(pico: int) -> str:
    """The decimal string of so many picodollars; remembered, since unit prices recur in every event of a run."""
    whole, fraction = divmod(abs(pico), PICO)
    digits = f"{fraction:012d}".rstrip("0")
    sign = "-" if pico < 0 else ""
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


@dataclass(frozen=True, slots=True, order=True)
class Usd:
    """An exact amount; ``pico`` is in 1e-12 USD."""

    pico: int = 0

    @classmethod
    def parse(cls, text: str) -> Usd:
        """The amount that the decimal string ``text`` spells. Raises FormatError for any other spelling."""
        if not DECIMAL.fullmatch(text):
            raise FormatError(f"not a decimal of the format: {text!r}")
        sign = -1 if text.startswith("-") else 1
        whole, _, fraction = text.lstrip("-").partition(".")
        return cls(sign * (int(whole) * PICO + int(fraction.ljust(12, "0"))))

    def __str__(self) -> str:
        return spelled(self.pico)

    def __add__(self, other: Usd) -> Usd:
        return Usd(self.pico + other.pico)

    def __sub__(self, other: Usd) -> Usd:
        return Usd(self.pico - other.pico)

    def __bool__(self) -> bool:
        return self.pico != 0

    def times(self, quantity: int, per: int) -> Usd:
        """This price for ``quantity`` units, priced per ``per`` of them. Raises ValueError if that is not exact."""
        return Usd(self.pico_of(quantity, per))

    def pico_of(self, quantity: int, per: int) -> int:
        """As ``times``, in picodollars."""
        pico, rest = divmod(self.pico * quantity, per)
        if rest:
            raise ValueError(f"{self} x {quantity} / {per} is not a whole number of picodollars")
        return pico


ZERO = Usd(0)
