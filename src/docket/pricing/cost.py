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
    """A priced usage and the tier whose prices its first part has, with its context size where that has its own."""

    usage: Usage
    tier: str


def price(counts: Counts, table: PriceTable, provider: str, model: str, tier: str | None) -> Bill:
    """``counts`` at the prices of the models and the tier that served them; without a price the items have none.

    Each part is priced on its own: its own model, and its own context size where prices depend on that.
    """
    asked = tier_name(tier)
    if counts.source == "none":
        return Bill(unpriced(counts), asked)
    name: str | None = None
    items: dict[tuple[str, str | None, str | None], Item] = {}
    fee: Price | None = None
    for part in counts.billed:
        found = table.resolve(provider, part.model or model)
        served = asked
        rates: Rates = {}
        if found is not None:
            served = sized_tier(found.tiers, asked, input_tokens(part.items)) if found.sized else asked
            rates = found.tiers.get(served, {})
        if name is None:
            name, fee = served, rates.get("request")
        other_model = part.model if part.model != model else None
        for kind, quantity in part.items:
            key = (kind, other_model, served if served != name else None)
            known = items.get(key)
            rate = rate_of(kind, rates)
            if known is not None:
                quantity += known.quantity
            unit, per = (rate.unit_usd, rate.per) if rate is not None else (None, None)
            items[key] = Item(kind, quantity, unit, per, *key[1:])
    if fee is not None:
        items["request", None, None] = Item("request", 1, fee.unit_usd, fee.per)
    return Bill(_usage(counts, tuple(items.values())), name or asked)


def unpriced(counts: Counts) -> Usage:
    """``counts`` as a bill without any price, for subscriptions."""
    return _usage(counts, tuple(Item(kind, quantity) for kind, quantity in counts.items))


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


def _usage(counts: Counts, items: tuple[Item, ...]) -> Usage:
    whole = counts.source != "none" and all(item.unit_usd is not None for item in items)
    return Usage(
        counts.source,
        items,
        sum_of(items) if whole else None,
        None,
        counts.inconsistent,
        counts.unread,
        counts.assumed,
        counts.stated_usd,
    )
