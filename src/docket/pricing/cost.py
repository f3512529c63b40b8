"""Pricing counts: each item gets the unit price of its row, and the cost is the exact sum.

Invariant: ``cost_usd`` is there exactly when every item has a price and the source is not ``none``.
"""

from __future__ import annotations

from collections.abc import Mapping

from docket.ledger.usage import Counts, Item, Usage
from docket.pricing.table import STANDARD, Price, PriceTable, Rates
from docket.primitives.frozen import value
from docket.primitives.money import Usd

STANDARD_SPELLINGS = frozenset({"default", "standard", "auto", "on_demand", "standard_only", "unspecified"})
"""What providers write for the tier that is nobody's choice."""
FALLBACKS: Mapping[str, tuple[str, ...]] = {
    "cache_read": ("input",),
    "cache_write_5m": ("input",),
    "input_audio": ("input",),
    "input_image": ("input",),
    "input_video": ("input",),
    "output_audio": ("output",),
    "output_image": ("output",),
    "output_video": ("output",),
    "cache_read_audio": ("cache_read", "input_audio", "input"),
    "cache_read_image": ("cache_read", "input_image", "input"),
    "cache_read_video": ("cache_read", "input_video", "input"),
    "reasoning": ("output",),
}
"""Kinds that a provider without a price of their own for them bills as the kinds named; of several the dearest.

A one-hour cache write is not among them: whoever sells it charges more than for any other input.
"""


@value
class Bill:
    """A priced usage and the tier whose prices were taken, with its context size where that has its own."""

    usage: Usage
    tier: str


def price(counts: Counts, table: PriceTable, provider: str, model: str, tier: str | None) -> Bill:
    """``counts`` at the prices of the model and tier that served them; without a price the items have none."""
    name = tier_name(tier)
    found = table.resolve(provider, model)
    if found is None or counts.source == "none":
        return Bill(unpriced(counts), name)
    if found.sized:
        name = sized_tier(found.tiers, name, input_tokens(counts.items))
    rates = found.tiers.get(name, {})
    quantities = counts.items
    if "request" in rates:
        quantities = (*quantities, ("request", 1))
    return Bill(_usage(counts, quantities, rates), name)


def unpriced(counts: Counts) -> Usage:
    """``counts`` as a bill without any price, for subscriptions."""
    return _usage(counts, counts.items, {})


def tier_name(tier: str | None) -> str:
    """The table's name of a tier as a provider spells it."""
    return STANDARD if tier is None or tier.lower() in STANDARD_SPELLINGS else tier.lower()[:64]


def sized_tier(offered: Mapping[str, Rates], tier: str, tokens: int) -> str:
    """``tier``, or its variant for contexts above the largest size that ``tokens`` of input exceed."""
    sizes = [int(name.partition(">")[2]) for name in offered if name.startswith(f"{tier}>")]
    over = [size for size in sizes if tokens > size]
    return f"{tier}>{max(over)}" if over else tier


def input_tokens(items: tuple[tuple[str, int], ...]) -> int:
    """All tokens of the context: fresh, read from a cache or written to it."""
    return sum([quantity for kind, quantity in items if kind.startswith(("input", "cache_"))])


def rate_of(kind: str, rates: Rates) -> Price | None:
    """The price of ``kind``, its own or that of what it is billed as."""
    own = rates.get(kind)
    if own is not None:
        return own
    instead = [rates[other] for other in FALLBACKS.get(kind, ()) if other in rates]
    return max(instead, key=lambda price: price.unit_usd.pico) if instead else None


def sum_of(items: tuple[Item, ...]) -> Usd:
    """The exact cost of the items that have a price."""
    pico = 0
    for item in items:
        if item.unit_usd is not None and item.per is not None:
            pico += item.unit_usd.pico_of(item.quantity, item.per)
    return Usd(pico)


def _usage(counts: Counts, quantities: tuple[tuple[str, int], ...], rates: Rates) -> Usage:
    items: list[Item] = []
    pico, whole = 0, counts.source != "none"
    for kind, quantity in quantities:
        rate = rate_of(kind, rates)
        if rate is None:
            items.append(Item(kind, quantity))
            whole = False
        else:
            items.append(Item(kind, quantity, rate.unit_usd, rate.per))
            pico += rate.unit_usd.pico_of(quantity, rate.per)
    return Usage(counts.source, tuple(items), Usd(pico) if whole else None, None, counts.inconsistent)
