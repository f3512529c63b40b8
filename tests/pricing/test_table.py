"""The rules by which a name finds its prices, and which of several prices counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docket.errors import FormatError
from docket.pricing.cost import sized_tier
from docket.pricing.table import PriceTable
from docket.primitives.money import Usd


def _model(model: str, price: str, *names: str, provider: str = "acme", **more: Any) -> dict[str, Any]:
    rows = [["standard", "input", price, 1_000_000], ["standard", "output", price, 1_000_000]]
    return {"provider": provider, "model": model, "names": list(names), "periods": [{"rows": rows}]} | more


def _document(*models: dict[str, Any]) -> bytes:
    head = {"format": "docket-prices/1", "source": "toy", "version": "1", "date": "2026-11-30"}
    return json.dumps(head | {"models": list(models)}).encode()  # noqa: TID251 a file as a user writes it


def _table(*models: dict[str, Any], at: str = "2026-11-30") -> PriceTable:
    return PriceTable.parse(_document(*models), at=at)


@pytest.mark.parametrize(
    ("name", "model", "rule"),
    [
        ("chat", "chat", "exact"),
        ("CHAT", "chat", "exact"),
        ("talk", "chat", "exact"),
        ("vendor/chat", "chat", "prefix"),
        ("chat@latest", "chat", "version"),
        ("chat@default", "chat", "version"),
        ("chat-latest", "chat", "version"),
        ("dated@2026-01-01", "dated-20260101", "version"),
        ("dated-2026-01-01", "dated-20260101", "version"),
        ("chat-2026-05-05", "chat", "date"),
    ],
)
def test_a_name_resolves_by_the_first_rule_that_applies(name: str, model: str, rule: str) -> None:
    found = _table(_model("chat", "2", "talk"), _model("dated-20260101", "3")).resolve("acme", name)
    assert found is not None
    assert (found.prices.model, found.rule) == (model, rule)


@pytest.mark.parametrize("name", ["chat-2", "chatter", "chat@other", "", "vendor/", "chat-mini"])
def test_a_name_that_no_rule_knows_has_no_price(name: str) -> None:
    assert _table(_model("chat", "2")).resolve("acme", name) is None


def test_of_several_dated_versions_the_dearest_counts_for_an_unknown_date() -> None:
    table = _table(_model("chat-2026-01-01", "2"), _model("chat-2026-02-02", "9"), _model("chat-2026-03-03", "5"))
    found = table.resolve("acme", "chat-2026-04-04")
    assert found is not None
    assert (found.prices.model, found.rule) == ("chat-2026-02-02", "date")


def test_a_dated_version_that_is_listed_in_another_spelling_is_itself_and_not_the_dearest() -> None:
    found = _table(_model("chat-20260101", "2"), _model("chat-20260202", "9")).resolve("acme", "chat-2026-01-01")
    assert found is not None
    assert (found.prices.model, found.rule) == ("chat-20260101", "version")


def test_a_name_of_one_provider_means_nothing_at_another() -> None:
    assert _table(_model("chat", "2")).resolve("other", "chat") is None


def test_the_dearest_is_by_kind_over_the_standard_tiers_of_one_provider() -> None:
    big = {"standard>200000": "7", "batch": "99"}
    rows = [[tier, "input", price, 1_000_000] for tier, price in big.items()] + [["standard", "output", "1", 1_000_000]]
    table = _table(_model("a", "5"), _model("b", "3", periods=[{"rows": rows}]), _model("c", "88", provider="other"))
    rates = table.dearest("acme")
    assert {kind: price.unit_usd for kind, price in rates.items()} == {
        "input": Usd.parse("7"),
        "output": Usd.parse("5"),
    }
    assert table.dearest("nobody") == {}


@pytest.mark.parametrize(("tokens", "tier"), [(0, "standard"), (200_000, "standard"), (200_001, "standard>200000")])
def test_a_context_size_begins_above_its_number(tokens: int, tier: str) -> None:
    offered = {name: {} for name in ("standard", "standard>200000", "standard>400000", "batch>100")}
    assert sized_tier(offered, "standard", tokens) == tier
    assert sized_tier(offered, "standard", 400_001) == "standard>400000"
    assert sized_tier(offered, "batch", 100) == "batch"


@pytest.mark.parametrize(("at", "price"), [("2026-06-30", "1"), ("2026-07-01", "2"), ("2025-01-01", "1")])
def test_the_period_in_force_on_the_day_counts(at: str, price: str) -> None:
    periods = [
        {"from": "2026-01-01", "rows": [["standard", "input", "1", 1_000_000]]},
        {"from": "2026-07-01", "rows": [["standard", "input", "2", 1_000_000]]},
    ]
    table = _table(_model("chat", "9", periods=periods), at=at)
    model = table.resolve("acme", "chat")
    assert model is not None
    found = table.tiers(model.prices).get("standard", {}).get("input")
    assert found is not None
    assert found.unit_usd == Usd.parse(price)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "docket-prices/2"},
        {"source": ""},
        {"models": {}},
        {"models": ["chat"]},
        {"models": [{"provider": "acme"}]},
        {"models": [_model("m", "2", max_output=0)]},
        {"models": [_model("m", "2", periods=[])]},
        {"models": [_model("m", "-2")]},
        {"models": [_model("m", "0.1234567")]},
        {"models": [_model("m", "2", periods=[{"from": "soon", "rows": []}])]},
        {"models": [_model("m", "2", periods=[{"rows": [["standard", "input", "2", 7]]}])]},
        {
            "models": [
                _model("m", "2", periods=[{"from": "2026-02-01", "rows": []}, {"from": "2026-01-01", "rows": []}])
            ]
        },
    ],
)
def test_what_is_no_table_is_refused(change: dict[str, Any]) -> None:
    document = json.loads(_document(_model("chat", "2"))) | change
    with pytest.raises(FormatError):
        PriceTable.parse(json.dumps(document).encode(), at="2026-11-30")  # noqa: TID251


def test_names_are_all_under_which_a_model_is_listed_as_they_are_spelled() -> None:
    table = _table(_model("Chat", "2", "Talk"), _model("other", "3", provider="zeta"))
    assert table.names() == {"Chat", "Talk", "other"}
