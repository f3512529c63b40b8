"""The itemised bill of one call (evidence format section 4), as values.

``Counts`` is what a provider said; ``Usage`` is that, priced. Unknown is never zero: a figure that was not given is
absent.
"""

from __future__ import annotations

from typing import Literal

from docket.primitives.canonical import JsonObject
from docket.primitives.frozen import value
from docket.primitives.money import Usd

Source = Literal["reported", "partial", "none"]
"""The provider's final figure; the last figure before the stream ended early; unknown."""


@value
class Counts:
    """Billed quantities by kind as the provider gave them; kinds never overlap, and ``none`` has no items."""

    source: Source
    items: tuple[tuple[str, int], ...] = ()
    inconsistent: bool = False


@value
class Item:
    """A quantity of one kind and its unit price in USD per ``per`` units; both or neither of the price members."""

    kind: str
    quantity: int
    unit_usd: Usd | None = None
    per: int | None = None

    def to_json(self) -> JsonObject:
        if self.unit_usd is None or self.per is None:
            return {"kind": self.kind, "quantity": self.quantity}
        return {"kind": self.kind, "quantity": self.quantity, "unit_usd": str(self.unit_usd), "per": self.per}


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

    def to_json(self) -> JsonObject:
        document: JsonObject = {"source": self.source, "items": [item.to_json() for item in self.items]}
        if self.cost_usd is not None:
            document["cost_usd"] = str(self.cost_usd)
        if self.estimate is not None:
            document["estimate"] = self.estimate.to_json()
        if self.inconsistent:
            document["inconsistent"] = True
        return document
