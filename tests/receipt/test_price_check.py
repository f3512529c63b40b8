"""A receipt's prices against the table that it names: compared only where the table is at hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from docket.receipt.price_check import NOT_COMPARED, compare
from docket.storage.price_file import read_prices

TABLE = read_prices(None, "2026-11-30")
ROWS = [
    {"provider": "openai", "model": "gpt-4o", "tier": "standard", "kind": "input", "unit_usd": "2.5", "per": 1_000_000},
    {"provider": "openai", "model": "gpt-4o", "tier": "standard", "kind": "output", "unit_usd": "10", "per": 1_000_000},
]


def receipt(*digests: str, rows: Any = ROWS) -> Any:
    return {
        "created_at": "2026-11-30T12:00:00.000000Z",
        "starts": [{"event": {"ts": "2026-11-30T11:00:00.000000Z"}}],
        "prices": {"tables": [{"digest": digest} for digest in digests], "rows": copy.deepcopy(rows)},
    }


def test_prices_of_a_table_at_hand_are_named_by_it() -> None:
    said = compare(receipt(TABLE.digest()), {TABLE.digest(): TABLE})
    assert said == (f"of {TABLE.source} {TABLE.date}", None)


@pytest.mark.parametrize("digests", [(), ("0" * 64,), (TABLE.digest(), "0" * 64)])
def test_nothing_is_claimed_where_a_table_is_not_at_hand(digests: tuple[str, ...]) -> None:
    assert compare(receipt(*digests), {TABLE.digest(): TABLE}) == NOT_COMPARED


@pytest.mark.parametrize(
    "change",
    [{"unit_usd": "0.25"}, {"per": 1}, {"tier": "batch-of-nobody"}, {"model": "gpt-of-nobody"}, {"kind": "gifts"}],
)
def test_a_price_that_its_own_table_does_not_have_is_named(change: dict[str, Any]) -> None:
    rows = [ROWS[0], ROWS[1] | change]
    wrong = compare(receipt(TABLE.digest(), rows=rows), {TABLE.digest(): TABLE}).wrong
    assert wrong is not None
    assert wrong.startswith("prices: receipt.prices.rows[1], ")
    assert str(next(iter(change.values()))) in wrong or change == {"per": 1}
