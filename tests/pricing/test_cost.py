"""The bill of every usage fixture at the toy prices, to the last digit."""

from __future__ import annotations

import pytest

from docket.ledger.usage import Counts, Part
from docket.pricing.cost import price

from ..providers.fixtures import Fixture, load
from .toy import toy_table


@pytest.mark.parametrize("fixture", load(), ids=lambda f: f.name)
def test_a_fixture_costs_what_it_says(fixture: Fixture) -> None:
    seen = fixture.observe([fixture.body])
    bill = price(seen.counts, toy_table(), "acme", seen.model or "acme-chat-1", seen.tier)
    cost = bill.usage.cost_usd
    assert (str(cost) if cost is not None else None) == fixture.expected["cost_usd"]
    if "service_tier" in fixture.expected:
        assert bill.tier == "standard"


def test_the_served_tier_decides() -> None:
    counts = Counts(source="reported", items=(("input", 1000), ("output", 100)))
    costs = {
        tier: price(counts, toy_table(), "acme", "acme-chat-1", tier).usage.cost_usd
        for tier in (None, "flex", "priority")
    }
    assert {tier: str(cost) for tier, cost in costs.items()} == {None: "0.003", "flex": "0.0015", "priority": "0.006"}


def test_a_fee_without_a_price_leaves_the_cost_out() -> None:
    counts = Counts(source="reported", items=(("input", 10), ("code_run", 2)))
    usage = price(counts, toy_table(), "acme", "acme-chat-1", None).usage
    assert usage.cost_usd is None
    assert [item.unit_usd is None for item in usage.items] == [False, True]


def test_each_part_has_the_prices_of_the_model_and_the_context_size_that_served_it() -> None:
    parts = (
        Part(None, (("input", 500), ("output", 10))),
        Part("acme-chat-2", (("input", 500), ("output", 40))),
        Part(None, (("input", 100), ("output", 5))),
    )
    counts = Counts(source="reported", items=(("input", 1100), ("output", 55)), parts=parts)
    usage = price(counts, toy_table(), "acme", "acme-chat-1", None).usage
    assert [(item.kind, item.quantity, item.model) for item in usage.items] == [
        ("input", 600, None),
        ("output", 15, None),
        ("input", 500, "acme-chat-2"),
        ("output", 40, "acme-chat-2"),
    ]
    assert str(usage.cost_usd) == "0.00415"


def test_a_model_without_a_price_among_several_leaves_the_bill_without_a_cost() -> None:
    parts = (Part(None, (("input", 5),)), Part("acme-new-1", (("input", 5),)))
    usage = price(Counts("reported", (("input", 10),), parts=parts), toy_table(), "acme", "acme-chat-1", None).usage
    assert usage.cost_usd is None
    assert usage.items[0].unit_usd is not None
