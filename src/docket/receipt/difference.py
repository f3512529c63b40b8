"""Two runs beside each other: what each came to, what differs, and whether chance alone would explain it.

Invariant: a change of prices is told apart from a change of use only where the entries allow it, and it is said where
they do not. Chance is judged as if the calls of a run were independent draws: whoever repeats a run knows better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import Literal, TypeAlias

from docket.findings.fold import Findings
from docket.findings.model import Finding
from docket.ledger.chain import Entry
from docket.ledger.events import ModelError, ModelResponse, PolicyApplied, SessionEnd, SessionStart, ToolCall
from docket.ledger.usage import Item
from docket.primitives.canonical import Json, JsonObject
from docket.primitives.money import Usd, spelled
from docket.receipt.activity import count
from docket.receipt.latency import Histogram
from docket.receipt.totals import Totals

MAX_ITEMS = 1024
"""Combinations of model, tier and kind of token whose prices are compared, in order of appearance."""
MAX_PRICES = 8
"""Different prices of one of them that are kept (tiers of context size): providers have two or three."""
SIGMAS = 2
"""A change of a sum within so many standard deviations is called noise: by chance, one of twenty goes beyond."""
QUANTILES = (("p50", 50), ("p95", 95))

PriceKey: TypeAlias = tuple[str, str, str, str, int]
"""Provider, model, tier, kind, per."""


class Profile:
    """What one run came to, for comparing: a fold in constant memory."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.findings = Findings()
        self.tools: dict[str, int] = {}
        self.outcome: str | None = None
        self.elapsed_us = 0
        self.policy: dict[str, Json] = {}
        """The last policy, a member by its dotted name; without what is withheld."""
        self.tables: dict[str, None] = {}
        self.duration, self.first_byte = Histogram(), Histogram()
        self.cost_squares = 0
        """Sum of the squares of what the calls cost, in picodollars."""
        self.token_sum = 0
        self.token_squares = 0
        self.quantities: dict[PriceKey, dict[int, int]] = {}
        """How many units were billed at which price, in picodollars."""
        self.unlisted = 0
        """Items whose price is not compared, since there are too many."""

    def add(self, entry: Entry) -> None:
        """Take the next entry. Raises FormatError where a known event is not as this version writes it."""
        self.totals.add(entry)
        self.findings.add(entry)
        self.elapsed_us = entry.elapsed_us
        match entry.event:
            case ModelResponse() | ModelError() as end:
                self._end(end)
            case ToolCall(private=private):
                said = private.get("said")
                name = said.get("name", said.get("tool")) if isinstance(said, dict) else None
                count(self.tools, name[:80] if isinstance(name, str) else "not named")
            case SessionStart(prices=prices):
                self.outcome = None
                self.tables[prices] = None
            case PolicyApplied(private=private):
                self.policy = dict(_members("", private.get("document")))
            case SessionEnd(outcome=outcome):
                self.outcome = outcome
            case _:
                pass

    @property
    def cost(self) -> Usd | None:
        """What the run cost by what is known of it; None where nothing is."""
        return None if self.cost_is == "none" else self.totals.cost

    @property
    def cost_is(self) -> str:
        """How ``cost`` relates to the bill, as in a receipt."""
        return self.totals.cost_is(whole=self.outcome is not None)

    def models(self) -> dict[str, JsonObject]:
        """Calls and cost by model, each named with its provider, and with its upstream where that is another."""
        rows: dict[str, JsonObject] = {}
        by_model: Json = self.totals.to_json()["by_model"]
        assert isinstance(by_model, list)
        for row in by_model:
            assert isinstance(row, dict)
            through = "" if row["upstream"] == row["provider"] else f" through {row['upstream']}"
            rows[f"{row['provider']} {row['model']}{through}"] = {
                "calls": row["calls"],
                "cost_usd": row.get("cost_usd"),
            }
        return rows

    def to_json(self) -> JsonObject:
        """Return the profile, for a script."""
        figures = self.totals.to_json(whole=self.outcome is not None)
        findings: list[Json] = [_short(finding) for finding in self.findings.found()]
        return {
            "outcome": self.outcome,
            "elapsed_us": self.elapsed_us,
            "cost_usd": figures.get("cost_usd"),
            "cost_is": figures["cost_is"],
            "calls": figures["calls"],
            "errors": figures["errors"],
            "denied": figures["denied"],
            "tokens": figures["tokens"],
            "models": dict(self.models()),
            "tools": dict(self.tools),
            "files": dict(self.totals.activity.changes),
            "findings": findings,
            "latency": {"unit": "us", "total": self.duration.to_json(), "first_byte": self.first_byte.to_json()},
            "price_tables": list(self.tables),
        }

    def _end(self, end: ModelResponse | ModelError) -> None:
        if isinstance(end, ModelResponse):
            if end.duration_us is not None:
                self.duration.add(end.duration_us)
            if end.first_byte_us is not None:
                self.first_byte.add(end.first_byte_us)
        usage = end.usage
        if usage is None:
            return
        if usage.cost_usd is not None:
            self.cost_squares += usage.cost_usd.pico**2
        tokens = sum(item.quantity for item in usage.items if item.per != 1)
        self.token_sum += tokens
        self.token_squares += tokens**2
        for item in usage.items:
            self._bill(end, item)

    def _bill(self, end: ModelResponse | ModelError, item: Item) -> None:
        if item.unit_usd is None or item.per is None:
            return
        key = (end.provider, item.model or end.model, item.tier or end.tier, item.kind, item.per)
        if key not in self.quantities and len(self.quantities) >= MAX_ITEMS:
            self.unlisted += 1
            return
        at = self.quantities.setdefault(key, {})
        price = item.unit_usd.pico
        if price not in at and len(at) >= MAX_PRICES:
            self.unlisted += 1
            return
        at[price] = at.get(price, 0) + item.quantity


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of both runs. ``noise`` is None where nothing can be said of it, or nothing differs."""

    name: str
    unit: Literal["usd", "count", "us"]
    a: int | None
    b: int | None
    noise: bool | None = None

    @property
    def percent(self) -> float | None:
        """How much larger B is, in percent of A; None where A is nothing or one of them is not known."""
        return None if not self.a or self.b is None else (self.b - self.a) * 100 / self.a

    def grew_over(self, percent: float) -> bool:
        """Whether B is larger by more than so many percent; any growth from nothing is."""
        if self.a is None or self.b is None:
            return False
        return (self.b - self.a) * 100 > self.a * percent

    def to_json(self) -> JsonObject:
        """Return the change; amounts are decimal strings in USD, other figures whole numbers."""
        percent = self.percent
        return {
            "name": self.name,
            "unit": self.unit,
            "a": _spell(self.unit, self.a),
            "b": _spell(self.unit, self.b),
            "percent": None if percent is None else f"{percent:.1f}",
            "noise": self.noise,
        }


@dataclass(frozen=True, slots=True)
class Prices:
    """What of the change of cost comes from other prices, and what from other use."""

    tables_differ: bool
    by_price: int | None
    """Picodollars that B cost more for its own use than that use would have at A's prices; None where not known."""
    by_use: int | None
    changed: list[tuple[str, str, str]] = field(default_factory=list)
    """What has another price: its name, the price of A and that of B."""
    unclear: list[str] = field(default_factory=list)
    """What has several prices in one of the runs, and others in the other."""

    def to_json(self) -> JsonObject:
        """Return this, amounts as decimal strings in USD."""
        changed: list[Json] = [{"of": name, "a": was, "b": now} for name, was, now in self.changed]
        return {
            "tables_differ": self.tables_differ,
            "by_price_usd": None if self.by_price is None else spelled(self.by_price),
            "by_use_usd": None if self.by_use is None else spelled(self.by_use),
            "changed": changed,
            "unclear": list(self.unclear),
        }


def changes(a: Profile, b: Profile) -> list[Change]:
    """Return the figures of both runs, each with whether chance explains the difference."""
    cost_a, cost_b = a.cost, b.cost
    return [
        _sum(
            "cost", "usd", None if cost_a is None else cost_a.pico, None if cost_b is None else cost_b.pico,
            a.cost_squares + b.cost_squares,
        ),
        _sum("calls", "count", a.totals.requests, b.totals.requests, a.totals.requests + b.totals.requests),
        _sum("errors", "count", a.totals.errors, b.totals.errors, a.totals.errors + b.totals.errors),
        _sum("refused", "count", a.totals.denied, b.totals.denied, a.totals.denied + b.totals.denied),
        _sum("tokens", "count", a.token_sum, b.token_sum, a.token_squares + b.token_squares),
        *_quantiles("latency", a.duration, b.duration),
        *_quantiles("first-byte", a.first_byte, b.first_byte),
        Change("elapsed", "us", a.elapsed_us, b.elapsed_us),
    ]  # fmt: skip


def prices(a: Profile, b: Profile) -> Prices:
    """Return what other prices did to the cost of B, as far as the entries tell."""
    changed, unclear, by_price = [], [], 0
    for key in sorted(a.quantities.keys() & b.quantities.keys()):
        was, now = a.quantities[key], b.quantities[key]
        if was.keys() == now.keys():
            continue
        name = f"{key[0]} {key[1]} {key[3]}" + ("" if key[2] == "standard" else f", {key[2]}")
        if len(was) > 1 or len(now) > 1:
            unclear.append(name)
            continue
        (before,), ((after, quantity),) = was, now.items()
        changed.append((name, spelled(before), spelled(after)))
        by_price += (after - before) * quantity // key[4]
    known = a.cost is not None and b.cost is not None and not unclear and not a.unlisted and not b.unlisted
    by_use = b.totals.cost.pico - a.totals.cost.pico - by_price if known else None
    return Prices(set(a.tables) != set(b.tables), by_price if known else None, by_use, changed, unclear)


def policies(a: Profile, b: Profile) -> list[str]:
    """Return the names of the members in which the policies differ, as far as both disclose them."""
    if not a.policy or not b.policy:
        return []
    names = sorted(a.policy.keys() | b.policy.keys())
    return [name.removeprefix(".") for name in names if a.policy.get(name) != b.policy.get(name)]


def counts(a: Mapping[str, int], b: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """Yield what is counted otherwise in B than in A: its name and both numbers."""
    for name in sorted(a.keys() | b.keys()):
        if a.get(name, 0) != b.get(name, 0):
            yield name, a.get(name, 0), b.get(name, 0)


def _members(name: str, value: Json) -> Iterator[tuple[str, Json]]:
    """Every member of a policy's document, disclosed private ones by their values: salts differ from run to run."""
    if not isinstance(value, dict):
        if name:
            yield name, value
        return
    for member, inner in value.items():
        if member != "private" or not isinstance(inner, dict):
            yield from _members(f"{name}.{member}", inner)
            continue
        for hidden, held in inner.items():
            if isinstance(held, dict) and "value" in held:
                yield f"{name}.{hidden}", held["value"]


def _sum(name: str, unit: Literal["usd", "count"], a: int | None, b: int | None, squares: int) -> Change:
    """A sum over calls: its standard deviation is the root of the sum of squares, where calls come independently."""
    if a is None or b is None or a == b:
        return Change(name, unit, a, b)
    return Change(name, unit, a, b, (b - a) ** 2 <= SIGMAS**2 * squares)


def _quantiles(name: str, a: Histogram, b: Histogram) -> Iterator[Change]:
    for label, percent in QUANTILES:
        first, second = _interval(a, percent), _interval(b, percent)
        if first is None or second is None:
            yield Change(f"{name} {label}", "us", first and first[1], second and second[1])
            continue
        noise = None if first[1] == second[1] else _overlap(first, second)
        yield Change(f"{name} {label}", "us", first[1], second[1], noise)


Interval: TypeAlias = tuple[int | None, int, int | None]
"""The figure between its bounds; a bound is None where there are too few samples for one."""


def _interval(of: Histogram, percent: int) -> Interval | None:
    """The percentile by nearest rank, and the samples between which the true one lies (of a binomial, two sigmas)."""
    if not of.count:
        return None
    rank = -(-percent * of.count // 100)
    spread = isqrt(SIGMAS**2 * of.count * percent * (100 - percent)) // 100 + 1
    low = of.at(rank - spread) if rank - spread >= 1 else None
    high = of.at(rank + spread) if rank + spread <= of.count else None
    return low, of.at(rank), high


def _overlap(first: Interval, second: Interval) -> bool:
    apart = (first[2] is not None and second[0] is not None and first[2] < second[0]) or (
        second[2] is not None and first[0] is not None and second[2] < first[0]
    )
    return not apart


def _spell(unit: str, amount: int | None) -> Json:
    return None if amount is None else spelled(amount) if unit == "usd" else amount


def _short(finding: Finding) -> JsonObject:
    return {
        "rule": finding.rule, "severity": finding.severity, "count": finding.count, "impact": finding.impact.to_json(),
    }  # fmt: skip
