"""Amounts against Python's decimals."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import FormatError
from docket.primitives.money import DECIMAL, PICO, ZERO, Usd

picos = st.integers(-(10**27) + 1, 10**27 - 1)


@given(picos)
def test_spelling_is_the_one_the_format_defines_and_reads_back(pico: int) -> None:
    text = str(Usd(pico))
    assert DECIMAL.fullmatch(text)
    assert Usd.parse(text) == Usd(pico)
    with localcontext() as context:
        context.prec = 60
        assert Decimal(text) * PICO == pico


@given(picos, picos)
def test_sums_and_differences_are_exact(left: int, right: int) -> None:
    assert (Usd(left) + Usd(right)).pico == left + right
    assert (Usd(left) - Usd(right)).pico == left - right


@given(st.integers(0, 10**15), st.integers(0, 10**9))
def test_a_price_per_million_times_any_quantity_is_exact(micros: int, quantity: int) -> None:
    price = Usd(micros * 10**6)
    with localcontext() as context:
        context.prec = 80
        exact = Decimal(str(price)) * quantity / 1_000_000
        assert Decimal(str(price.times(quantity, 1_000_000))) == exact


def test_a_product_that_is_not_exact_is_never_rounded() -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        Usd(1).times(1, 1_000_000)


@pytest.mark.parametrize(
    "text",
    ["", "-0", "00", "01", "1.", ".5", "1.0", "0.10", "1e3", "+1", " 1", "1\n", "0.0000000000001", "-", "1" * 16],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        Usd.parse(text)


def test_only_zero_is_false() -> None:
    assert not ZERO
    assert Usd(1)
