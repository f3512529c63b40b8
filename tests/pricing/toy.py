"""The toy price list of the usage fixtures as a price table."""

from __future__ import annotations

import json
from decimal import Decimal

from docket.pricing.table import PriceTable

from ..providers.fixtures import HERE


def decimal(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def toy_document() -> bytes:
    toy = json.loads((HERE / "prices.json").read_text())
    models = []
    for model, prices in toy["models"].items():
        rows = []
        for tier, factor in toy["tiers"].items():
            name = "standard" if tier == "default" else tier
            rows += [[name, kind, decimal(Decimal(p) * Decimal(factor)), 1_000_000] for kind, p in prices.items()]
            rows.append([name, "web_search", toy["fees"]["web_search_each"], 1])
        models.append({"provider": "acme", "model": model, "periods": [{"rows": rows}]})
    table = {"format": "docket-prices/1", "source": "toy", "version": "1", "date": "2026-11-30", "models": models}
    return json.dumps(table).encode()  # noqa: TID251 - a file as a user writes it


def toy_table() -> PriceTable:
    return PriceTable.parse(toy_document(), at="2026-11-30")
