"""Thousands of generated usages priced twice: from the shipped rows, and by genai-prices from its own data.

Equal to the last digit, except for what is named here: prices that the import rounded (compared with the rounded row),
and the disagreements below.
"""

from __future__ import annotations

import copy
import random
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import data
from genai_prices.types import Usage

from docket.ledger.usage import Counts
from docket.pricing.cost import price, sum_of
from docket.pricing.price_import import DIGITS, KINDS, TIERS, table_of
from docket.pricing.table import PriceTable, Rates
from docket.storage.price_file import read_prices

DAY = "2026-11-30"
TABLE = read_prices(None, DAY)
CONTEXT = {"standard": {}, **{tier: dict(when) for when, tier in TIERS.items() if when != (("speed", "fast"),)}}
MODELS = [(provider, model) for provider in data.providers for model in provider.models]
DISAGREEMENTS = {
    "time of day": "a price that depends on the hour is the dearer one all day here",
    "audio and image in a cache": "billed as the dearer of cache and modality here; the oracle needs both priced",
    "one-hour cache writes without a price": "no price here; the oracle takes the five-minute one, which is less",
    "unknown units": "hours, pages and characters have no kind here",
}
"""Why a model or a usage is left out of the comparison."""


def comparable(model: Any) -> bool:
    """Whether every price of the model is one that rows can say (disagreement: time of day)."""
    prices = model.prices if isinstance(model.prices, list) else [model.prices]
    return all(type(getattr(each, "constraint", None)).__name__ != "TimeOfDateConstraint" for each in prices)


COMPARABLE = [(provider, model) for provider, model in MODELS if comparable(model)]
SIZES = ((0, 5000), (100_000, 600_000))


def tokens(rng: random.Random) -> int:
    return rng.randint(*rng.choice(SIZES))


def usage_of(rng: random.Random, rates: Rates) -> dict[str, int]:
    """A usage that the rates can price, both sides of every context size."""
    plain = "input" in rates
    return {
        "input": tokens(rng) if plain else 0,
        "cache_read": tokens(rng) if plain else 0,
        "cache_write_5m": tokens(rng) if plain else 0,
        "cache_write_1h": rng.randint(0, 3000) if plain and "cache_write_1h" in rates else 0,
        "output": tokens(rng) if "output" in rates and "reasoning" not in rates else 0,
        "web_search": rng.randint(0, 5) if "web_search" in rates else 0,
    }


@pytest.mark.parametrize(("seed", "day"), [(1, DAY), (2, DAY), (3, "2026-10-25"), (4, "2026-10-13"), (5, "2025-06-01")])
def test_the_rows_price_usages_as_the_source_does(seed: int, day: str) -> None:
    rng = random.Random(seed)
    table = read_prices(None, day)
    at = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    compared = 0
    for provider, model in COMPARABLE:
        found = table.resolve(provider.id, model.id)
        if found is None or found.prices.model != model.id or "requests_kcount" in vars(model.get_prices(at)):
            continue
        offered = table.tiers(found.prices)
        for tier in sorted(set(offered) & set(CONTEXT)):
            quantities = usage_of(rng, offered[tier])
            bill = price(Counts(source="reported", items=tuple(quantities.items())), table, provider.id, model.id, tier)
            priced = [item for item in bill.usage.items if item.quantity]
            assert all(item.unit_usd is not None for item in priced), (provider.id, bill)
            ours = sum_of(tuple(priced))
            assert Decimal(str(ours)) == oracle(model, tier, quantities, at), (seed, provider.id, bill)
            compared += 1
    assert compared > 1900


def oracle(model: Any, tier: str, quantities: dict[str, int], at: datetime) -> Decimal:
    """The source's own price with each unit price rounded as the import rounds it."""
    standard = model.get_prices(at)
    contexts = [CONTEXT[tier]] + ([{"speed": "fast"}] if tier == "fast" else [])
    resolved = copy.deepcopy(next((p for c in contexts if (p := model.get_prices(at, c)) != standard), standard))
    for key, value in list(vars(resolved).items()):
        if key not in KINDS:
            delattr(resolved, key)
        elif isinstance(value, Decimal):
            setattr(resolved, key, _round(value, KINDS[key][2]))
        elif value is not None:
            value.base = _round(value.base, KINDS[key][2])
            for step in value.tiers:
                step.price = _round(step.price, KINDS[key][2])
    written = quantities["cache_write_5m"] + quantities["cache_write_1h"]
    usage = Usage(
        input_tokens=quantities["input"] + quantities["cache_read"] + written,
        cache_read_tokens=quantities["cache_read"],
        cache_write_tokens=written,
        cache_write_1h_tokens=quantities["cache_write_1h"],
        output_tokens=quantities["output"],
        web_searches=quantities["web_search"],
    )
    total: Decimal = resolved.calc_price(usage)["total_price"]
    return total


def _round(value: Decimal, divided: int) -> Decimal:
    return (value / divided).quantize(DIGITS) * divided


def test_the_committed_table_is_what_the_import_makes_of_its_source() -> None:
    from importlib.metadata import version

    if version("genai-prices") != TABLE.version:
        pytest.skip(f"made from genai-prices {TABLE.version}, installed is {version('genai-prices')}")
    done = table_of(data.providers, version=TABLE.version, day=TABLE.date)
    assert done.digest == TABLE.digest()
    assert len(done.rounded) == 28
    assert all(" -> " in line for line in done.rounded)


def test_the_committed_digest_is_that_of_its_rows() -> None:
    from importlib import resources

    document = resources.files("docket.pricing").joinpath("prices.json").read_bytes()
    assert PriceTable.parse(document, at=DAY).digest() == TABLE.digest()
