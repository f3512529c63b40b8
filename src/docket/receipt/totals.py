"""The fold of a ledger into the figures of its receipt, entry by entry, in constant memory.

Invariant: the same entries give the same figures, whether they arrive while a run goes on or are read again from its
file; nothing here grows with the number of calls beyond what a receipt embeds.
"""

from __future__ import annotations

from typing import cast

from docket.primitives.canonical import Json, JsonObject
from docket.primitives.money import ZERO, Usd
from docket.receipt.activity import Activity, Recorded, count
from docket.receipt.latency import Histogram
from docket.receipt.usage_rows import UsageRows

MAX_MODELS = 256
"""Pairs of provider and model that are told apart, in order of appearance; later ones count as ``other``."""
OTHER = ("other", "other")

PriceKey = tuple[str, str, str, str, str, int]
"""Provider, model, tier, kind, unit price, per."""


class _Model:
    __slots__ = ("calls", "cost")

    def __init__(self) -> None:
        self.calls = 0
        self.cost: Usd | None = None


class Totals:
    """The figures so far. ``add`` every entry in order, from the first of the ledger."""

    def __init__(self) -> None:
        self.requests = 0
        self.ends = 0
        self.errors = 0
        self.denied = 0
        self.tokens: dict[str, int] = {}
        self.by_source = {"none": 0, "partial": 0, "reported": 0}
        self.cost = ZERO
        self.costed = 0
        """Rows with a cost."""
        self.unmetered = 0
        self.lost = 0
        self.estimated = 0
        """Rows that carry docket's own guess."""
        self.rows = UsageRows()
        self.activity = Activity()
        self._exact = True
        self._assumed = False
        self._models: dict[tuple[str, str], _Model] = {}
        self._prices: set[PriceKey] = set()
        self._total = Histogram()
        self._first_byte = Histogram()

    def add(self, entry: Recorded) -> None:
        """Take the next entry of the ledger."""
        self.activity.add(entry)
        data = entry.data
        match entry.type:
            case "model.request":
                self.requests += 1
            case "model.response":
                self._add_response(data)
                self._add_end(entry)
            case "model.error":
                self.errors += 1
                self._add_end(entry)
            case "model.denied":
                self.denied += cast(int, data["count"])
            case "x-docket.forwarded":
                self.unmetered += data["endpoint_class"] == "unmetered"
            case "x-docket.ledger-gap":
                self.lost += cast(int, cast(JsonObject, data["lost"])["count"])
            case _:
                pass

    @property
    def open_calls(self) -> int:
        """Calls whose end is not in the ledger, or never will be."""
        return max(0, self.requests - self.ends)

    def cost_is(self, *, whole: bool = True) -> str:
        """How ``cost_usd`` relates to the bill; ``whole`` says that no event is known to be missing."""
        if self.rows.size and not self.costed:
            return "none"
        if self._assumed:
            return "approximate"
        whole = whole and self._exact and not (self.lost or self.unmetered or self.open_calls)
        return "exact" if whole else "lower-bound"

    def to_json(self, *, whole: bool = True) -> JsonObject:
        """The ``totals`` of ``session.end`` and of the receipt; ``whole`` as for ``cost_is``."""
        document: JsonObject = {
            "calls": self.requests,
            "errors": self.errors,
            "denied": self.denied,
            "tokens": dict(self.tokens),
            "by_source": dict(self.by_source),
            "by_model": self._by_model(),
            "cost_is": self.cost_is(whole=whole),
            "lost": self.lost,
            "unmetered": self.unmetered,
        }
        if document["cost_is"] != "none":
            document["cost_usd"] = str(self.cost)
        return document

    def usage_tree(self) -> JsonObject:
        """``{size, root}`` over the rows."""
        return self.rows.tree()

    def price_rows(self) -> list[Json]:
        """The rows of the price tables that were used, sorted."""
        names = ("provider", "model", "tier", "kind", "unit_usd", "per")
        return [dict(zip(names, key, strict=True)) for key in sorted(self._prices)]

    def latency(self) -> JsonObject:
        """Percentiles over calls with a ``model.response``: of the whole call, and to the first byte."""
        return {"unit": "us", "total": self._total.to_json(), "first_byte": self._first_byte.to_json()}

    def _add_response(self, data: JsonObject) -> None:
        for name, histogram in (("duration_us", self._total), ("first_byte_us", self._first_byte)):
            sample = data.get(name)
            if type(sample) is int:
                histogram.add(sample)

    def _add_end(self, entry: Recorded) -> None:
        self.ends += 1
        data = entry.data
        usage = data.get("usage")
        if not isinstance(usage, dict):
            return
        self.rows.add(
            {
                "call": data["call"],
                "model": data["model"],
                "provider": data["provider"],
                "seq": entry.seq,
                "tier": data["tier"],
                "usage": usage,
            }
        )
        provider, model = str(data["provider"]), str(data["model"])
        self.by_source[str(usage["source"])] += 1
        self.estimated += "estimate" in usage
        for item in cast("list[JsonObject]", usage["items"]):
            self._add_item(provider, model, str(data["tier"]), item)
        self._add_cost(provider, self._model(provider, model), usage)

    def _add_item(self, provider: str, model: str, tier: str, item: JsonObject) -> None:
        kind, per = str(item["kind"]), item.get("per")
        model, tier = str(item.get("model", model)), str(item.get("tier", tier))
        if per != 1:
            count(self.tokens, kind, cast(int, item["quantity"]))
        if per is not None:
            self._prices.add((provider, model, tier, kind, str(item["unit_usd"]), cast(int, per)))

    def _add_cost(self, provider: str, model: _Model, usage: JsonObject) -> None:
        model.calls += 1
        cost = usage.get("cost_usd")
        if cost is not None:
            own = Usd.parse(str(cost))
            self.cost += own
            self.costed += 1
            self._assumed = self._assumed or "assumed" in usage
            for item in cast("list[JsonObject]", usage["items"]):
                if "model" in item:
                    part = Usd.parse(str(item["unit_usd"])).times(cast(int, item["quantity"]), cast(int, item["per"]))
                    own = Usd(own.pico - part.pico)
                    other = self._model(provider, str(item["model"]))
                    other.cost = (other.cost or ZERO) + part
            model.cost = (model.cost or ZERO) + own
        if cost is None or usage["source"] != "reported":
            self._exact = False

    def _model(self, provider: str, model: str) -> _Model:
        key = (provider, model)
        if key not in self._models and len(self._models) >= MAX_MODELS:
            key = OTHER
        return self._models.setdefault(key, _Model())

    def _by_model(self) -> list[Json]:
        listed: list[Json] = []
        for (provider, model), of in sorted(self._models.items()):
            line: JsonObject = {"provider": provider, "model": model, "calls": of.calls}
            if of.cost is not None:
                line["cost_usd"] = str(of.cost)
            listed.append(line)
        return listed
