"""Pricing counts: each item gets the unit price of its row, and the cost is the exact sum.

Invariant: ``cost_usd`` is there exactly when every item has a price and the source is not ``none``.
"""

from __future__ import annotations

from collections.abc import Mapping

from docket.ledger.usage import Counts, Item, Quantities, Usage
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
    asked = STANDARD if tier is None else tier_name(tier)
    if counts.source == "none":
        return Bill(unpriced(counts), asked)
    if not counts.parts:
        served, rates = _served(counts.items, table, provider, model, asked)
        own: list[Item] = []
        for kind, quantity in counts.items:
            rate = rates.get(kind)
            own.append(_item(kind, quantity, rates) if rate is None else Item(kind, quantity, rate.unit_usd, rate.per))
        if "request" in rates:
            own.append(_item("request", 1, rates))
        return Bill(_usage(counts, tuple(own)), served)
    return _of_parts(counts, table, provider, model, asked)


def _served(items: Quantities, table: PriceTable, provider: str, model: str, tier: str) -> tuple[str, Rates]:
    """The tier at which so much was served, with its context size where that has its own prices, and its rates."""
    found = table.resolve(provider, model)
    if found is None:
        return tier, {}
    served = sized_tier(found.tiers, tier, input_tokens(items)) if found.sized else tier
    return served, found.tiers.get(served, {})


def _item(kind: str, quantity: int, rates: Rates, model: str | None = None, tier: str | None = None) -> Item:
    rate = rate_of(kind, rates)
    if rate is None:
        return Item(kind, quantity, None, None, model, tier)
    return Item(kind, quantity, rate.unit_usd, rate.per, model, tier)


def _of_parts(counts: Counts, table: PriceTable, provider: str, model: str, asked: str) -> Bill:
    name: str | None = None
    items: dict[tuple[str, str | None, str | None], Item] = {}
    fee: Rates = {}
    for part in counts.parts:
        served, rates = _served(part.items, table, provider, part.model or model, asked)
        if name is None:
            name, fee = served, rates
        other_model = part.model if part.model != model else None
        other_tier = served if served != name else None
        for kind, quantity in part.items:
            key = (kind, other_model, other_tier)
            known = items.get(key)
            items[key] = _item(kind, quantity + (known.quantity if known else 0), rates, other_model, other_tier)
    if "request" in fee:
        items["request", None, None] = _item("request", 1, fee)
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
    tokens = 0
    for kind, quantity in items:
        if kind.startswith(("input", "cache_")):
            tokens += quantity
    return tokens


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
    pico, whole = 0, counts.source != "none"
    for item in items:
        if item.unit_usd is None or item.per is None:
            whole = False
            break
        cost, rest = divmod(item.unit_usd.pico * item.quantity, item.per)
        pico += item.unit_usd.pico_of(item.quantity, item.per) if rest else cost
    return Usage(
        counts.source,
        items,
        Usd(pico) if whole else None,
        None,
        counts.inconsistent,
        counts.unread,
        counts.assumed,
        counts.stated_usd,
    )
