"""The itemised bill of one call (evidence format section 4), as values.

``Counts`` is what a provider said; ``Usage`` is that, priced. Unknown is never zero: a figure that was not given is
absent.
"""

from __future__ import annotations

from typing import Literal

from docket.primitives.canonical import Json, JsonObject
from docket.primitives.frozen import value
from docket.primitives.money import Usd, spelled

Source = Literal["reported", "partial", "none"]
"""The provider's final figure; the last figure before the stream ended early; unknown."""


Quantities = tuple[tuple[str, int], ...]
"""Quantities by kind; kinds never overlap."""


@value
class Part:
    """What one model of several served, or one attempt of several; ``model`` None is the call's own."""

    model: str | None
    items: Quantities


@value
class Counts:
    """Billed quantities by kind as the provider gave them; ``none`` has no items."""

    source: Source
    items: Quantities = ()
    inconsistent: bool = False
    unread: tuple[str, ...] = ()
    """Members of the provider's figures that are not zero and have no price here; never beside ``reported``."""
    assumed: tuple[str, ...] = ()
    """Breakdowns that the provider did not give and that were read as the dearest."""
    stated_usd: Usd | None = None
    """The cost by the word of whoever answered; never docket's own figure."""
    parts: tuple[Part, ...] = ()
    """``items`` as they were served, where models or attempts were several: each has prices of its own."""


@value
class Item:
    """A quantity of one kind and its unit price in USD per ``per`` units; both or neither of the price members."""

    kind: str
    quantity: int
    unit_usd: Usd | None = None
    per: int | None = None
    model: str | None = None
    """The model that served it, where that is not the call's."""
    tier: str | None = None
    """The tier that served it, where that is not the call's."""

    def to_json(self) -> JsonObject:
        document: JsonObject = {"kind": self.kind, "quantity": self.quantity}
        if self.unit_usd is not None and self.per is not None:
            document |= {"unit_usd": str(self.unit_usd), "per": self.per}
        if self.model is not None:
            document["model"] = self.model
        if self.tier is not None:
            document["tier"] = self.tier
        return document


@value
class Estimate:
    """docket's own guess where the provider's figure is missing; moves caps, never enters a cost."""

    items: tuple[Item, ...]
    cost_usd: Usd | None
    method: str

    def to_json(self) -> JsonObject:
        document: JsonObject = {"items": [item.to_json() for item in self.items], "method": self.method}
        if self.cost_usd is not None:
            document["cost_usd"] = str(self.cost_usd)
        return document


@value
class Usage:
    """A priced bill; ``cost_usd`` is present exactly when the source is not ``none`` and every item has a price."""

    source: Source
    items: tuple[Item, ...] = ()
    cost_usd: Usd | None = None
    estimate: Estimate | None = None
    inconsistent: bool = False
    unread: tuple[str, ...] = ()
    """As in ``Counts``, and so are the next two."""
    assumed: tuple[str, ...] = ()
    stated_usd: Usd | None = None

    def to_json(self) -> JsonObject:
        items: list[Json] = []
        for item in self.items:
            if item.unit_usd is None or item.per is None or item.model is not None or item.tier is not None:
                items.append(item.to_json())
            else:  # as nearly every one
                unit = spelled(item.unit_usd.pico)
                items.append({"kind": item.kind, "quantity": item.quantity, "unit_usd": unit, "per": item.per})
        document: JsonObject = {"source": self.source, "items": items}
        if self.cost_usd is not None:
            document["cost_usd"] = spelled(self.cost_usd.pico)
        if self.estimate is not None:
            document["estimate"] = self.estimate.to_json()
        if self.inconsistent:
            document["inconsistent"] = True
        if self.unread:
            document["unread"] = list(self.unread)
        if self.assumed:
            document["assumed"] = list(self.assumed)
        if self.stated_usd is not None:
            document["stated_usd"] = str(self.stated_usd)
        return document
