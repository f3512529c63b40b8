"""The fold of a ledger into the figures of its receipt, entry by entry, in constant memory.

Invariant: the same entries give the same figures, whether they arrive while a run goes on or are read again from its
file; nothing here grows with the number of calls beyond what a receipt embeds.
"""

from __future__ import annotations

from docket.ledger.chain import Entry
from docket.ledger.events import Forwarded, LedgerGap, ModelDenied, ModelError, ModelRequest, ModelResponse
from docket.ledger.usage import Item, Usage
from docket.primitives.canonical import Json, JsonObject
from docket.primitives.money import ZERO, Usd, spelled
from docket.receipt.activity import Activity, count, whole
from docket.receipt.latency import Histogram
from docket.receipt.usage_rows import UsageRows

MAX_MODELS = 256
"""Pairs of provider and model that are told apart, in order of appearance; later ones count as ``other``."""
OTHER = ("other", "other", "other")

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
        self._models: dict[tuple[str, str, str], _Model] = {}
        self._prices: set[PriceKey] = set()
        self._total = Histogram()
        self._first_byte = Histogram()

    def add(self, entry: Entry) -> None:
        """Take the next entry of the ledger."""
        event = entry.event
        if isinstance(event, ModelRequest | ModelResponse | ModelError):  # none of which is activity beside calls
            self.activity.elapsed_us = entry.elapsed_us
        else:
            self.activity.add(entry, event)
        match event:
            case ModelRequest():
                self.requests += 1
            case ModelResponse():
                if event.duration_us is not None:
                    self._total.add(event.duration_us)
                if event.first_byte_us is not None:
                    self._first_byte.add(event.first_byte_us)
                self._add_end(entry, event)
            case ModelError():
                self.errors += 1
                self._add_end(entry, event)
            case ModelDenied(count=refused):
                self.denied += refused
            case Forwarded(endpoint_class=treated):
                self.unmetered += treated == "unmetered"
            case LedgerGap(lost=lost):
                self.lost += whole(lost["count"])
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

    def _add_end(self, entry: Entry, end: ModelResponse | ModelError) -> None:
        self.ends += 1
        usage = end.usage
        if usage is None:
            return
        self.rows.add(
            {
                "call": end.call,
                "model": end.model,
                "provider": end.provider,
                "seq": entry.seq,
                "tier": end.tier,
                "upstream": end.upstream,
                "usage": entry.data["usage"],  # as it stands in the ledger, with what a newer version put in
            }
        )
        self.by_source[usage.source] += 1
        self.estimated += usage.estimate is not None
        self._add_items(end, usage.items)
        self._add_cost(end, self._model(end, end.model), usage)

    def _add_items(self, end: ModelResponse | ModelError, items: tuple[Item, ...]) -> None:
        tokens, prices = self.tokens, self._prices
        for item in items:
            kind, per = item.kind, item.per
            if per != 1:
                if kind in tokens:
                    tokens[kind] += item.quantity
                else:
                    count(tokens, kind, item.quantity)
            if item.unit_usd is not None and per is not None:
                model, tier = item.model or end.model, item.tier or end.tier
                prices.add((end.provider, model, tier, kind, spelled(item.unit_usd.pico), per))

    def _add_cost(self, end: ModelResponse | ModelError, model: _Model, usage: Usage) -> None:
        model.calls += 1
        if usage.cost_usd is not None:
            own = usage.cost_usd.pico
            self.cost = Usd(self.cost.pico + own)
            self.costed += 1
            self._assumed = self._assumed or bool(usage.assumed)
            for item in usage.items:
                if item.model is not None and item.unit_usd is not None and item.per is not None:
                    part = item.unit_usd.times(item.quantity, item.per)
                    own -= part.pico
                    other = self._model(end, item.model)
                    other.cost = (other.cost or ZERO) + part
            model.cost = Usd((ZERO if model.cost is None else model.cost).pico + own)
        if usage.cost_usd is None or usage.source != "reported":
            self._exact = False

    def _model(self, end: ModelResponse | ModelError, model: str) -> _Model:
        key = (end.provider, end.upstream, model)
        known = self._models.get(key)
        if known is not None:
            return known
        if len(self._models) >= MAX_MODELS:
            key = OTHER
        return self._models.setdefault(key, _Model())

    def _by_model(self) -> list[Json]:
        listed: list[Json] = []
        for (provider, upstream, model), of in sorted(self._models.items()):
            line: JsonObject = {"provider": provider, "upstream": upstream, "model": model, "calls": of.calls}
            if of.cost is not None:
                line["cost_usd"] = str(of.cost)
            listed.append(line)
        return listed
