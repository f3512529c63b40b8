"""What a ledger comes to: totals, latency and the counts of a receipt, folded anew from the events (spec section 8).

Shares nothing with the code that writes receipts.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from docket.verify import decimals
from docket.verify.canonical import MAX_INT, Object, encode
from docket.verify.report import Violation

MAX_MODELS = 256
MAX_KEYS = 64
MAX_SURVIVORS = 100
LOSSES = ("model.request", "model.response", "model.error", "model.cache_hit")
"""The types whose disclosed loss excuses a call that lacks them."""
_UNITS = tuple(10 ** max(0, digits - 3) for digits in range(20))
"""By the number of digits of a sample: the unit of its third one."""
COUNTED_TYPES = frozenset(
    {
        "fs.snapshot",
        "net.allowed",
        "net.denied",
        "policy.violation",
        "proc.orphan",
        "tool.call",
        "tool.result",
        "model.cache_hit",
        "x-docket.breaker-open",
        "x-docket.breaker-half-open",
        "x-docket.breaker-closed",
        "x-docket.clock-step",
        "x-docket.fault-injected",
    }
)


class Tally:
    """Counts by key, at most 64 keys in order of appearance; later ones count as ``other``."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, key: str, number: int = 1) -> None:
        counts = self.counts
        if key not in counts and len(counts) >= MAX_KEYS:
            key = "other"
        counts[key] = counts.get(key, 0) + number
        if counts[key] > MAX_INT:
            raise Violation(f"the count of {key} passes 2^53-1")


def check_amount(total: int) -> None:
    """Raise Violation where ``total``, in 1e-12 USD, has more digits than an amount."""
    if total >= decimals.LIMIT:
        raise Violation("a sum of USD that is no amount: 10^15 or more")


class Bill:
    """The sums over rows: what ``totals`` says of usage."""

    def __init__(self) -> None:
        self.tokens = Tally()
        self.sources = {"none": 0, "partial": 0, "reported": 0}
        self.models: dict[tuple[str, str, str], list[Any]] = {}
        self.cost = 0
        self.rows = 0
        self.costed = 0
        self.exact = True
        self.assumed = False
        self.prices: set[tuple[Any, ...]] = set()

    def add(self, row: Object, cost: int | None) -> None:
        """Take the next row, whose usage was checked and claims ``cost``."""
        usage, provider, model = row["usage"], row["provider"], row["model"]
        self.rows += 1
        self.sources[usage["source"]] += 1
        tier, elsewhere = row["tier"], []
        for item in usage["items"]:
            per, kind = item.get("per"), item["kind"]
            if per != 1:
                self.tokens.add(kind, item["quantity"])
            if per is not None:
                served = item.get("model", model)
                self.prices.add((provider, served, item.get("tier", tier), kind, item["unit_usd"], per))
            if "model" in item:
                elsewhere.append(item)
        line = self._line(row, model)
        line[0] += 1
        if cost is not None:
            self.costed += 1
            self.cost += cost
            check_amount(self.cost)
            self.assumed = self.assumed or "assumed" in usage
            own = cost
            for item in elsewhere:
                part = decimals.rate(item["unit_usd"], item["per"]) * item["quantity"]
                own -= part
                other = self._line(row, item["model"])
                other[1] = part if other[1] is None else other[1] + part
            line[1] = own if line[1] is None else line[1] + own
        if cost is None or usage["source"] != "reported":
            self.exact = False

    def _line(self, row: Object, model: str) -> list[Any]:
        """The calls and cost of a model behind an upstream, or of ``other`` where there are too many."""
        key = (row["provider"], row["upstream"], model)
        if key not in self.models and len(self.models) >= MAX_MODELS:
            key = ("other", "other", "other")
        return self.models.setdefault(key, [0, None])

    def cost_is(self, whole: bool) -> str:
        """How the cost relates to the bill; ``whole`` says that nothing was lost, open or left unmetered."""
        if self.rows and not self.costed:
            return "none"
        if self.assumed:
            return "approximate"
        return "exact" if whole and self.exact else "lower-bound"

    def totals(self) -> Object:
        """The members of ``totals`` that follow from rows, without ``cost_is``."""
        by_model = []
        for (provider, upstream, model), (calls, cost) in sorted(self.models.items()):
            line = {"provider": provider, "upstream": upstream, "model": model, "calls": calls}
            if cost is not None:
                line["cost_usd"] = decimals.spell(cost)
            by_model.append(line)
        totals: Object = {"tokens": self.tokens.counts, "by_source": self.sources, "by_model": by_model}
        totals["cost_usd"] = decimals.spell(self.cost) if self.costed or not self.rows else None
        return totals


class Latency:
    """Nearest-rank percentiles over samples cut to three digits."""

    def __init__(self) -> None:
        self.samples: dict[int, int] = {}

    def add(self, sample: int) -> None:
        if sample >= 1000:
            sample -= sample % _UNITS[len(str(sample))]
        samples = self.samples
        samples[sample] = samples.get(sample, 0) + 1

    def document(self) -> Object:
        count = sum(self.samples.values())
        document: Object = {"count": count}
        if not count:
            return document
        wanted = [(f"p{p}", (p * count + 99) // 100) for p in (50, 95, 99)] + [("max", count)]
        seen = 0
        for value in sorted(self.samples):
            seen += self.samples[value]
            while wanted and wanted[0][1] <= seen:
                document[wanted.pop(0)[0]] = value
        return document


class Figures:
    """The fold. ``add`` takes events whose form was checked."""

    def __init__(self) -> None:
        self.bill = Bill()
        self.requests = self.ends = self.errors = self.denied = self.unmetered = self.lost = 0
        self.lost_types = dict.fromkeys(LOSSES, 0)
        self.types: Counter[str] = Counter()
        self.codes, self.classes, self.changes = Tally(), Tally(), Tally()
        self.unauthorized = self.rate_limited = 0
        self.saved = 0
        """By cache hits, in 1e-12 USD."""
        self.survivors: list[int] = []
        self.breach: Object | None = None
        self.elapsed_us = 0
        self.total, self.first_byte = Latency(), Latency()

    def add(self, event: Object) -> None:
        """Take the next event, beside its usage."""
        kind, data = event["type"], event["data"]
        self.elapsed_us = event["elapsed_us"]
        if kind == "model.request":
            self.requests += 1
        elif kind == "model.response":
            self.ends += 1
            if "duration_us" in data:
                self.total.add(data["duration_us"])
            if "first_byte_us" in data:
                self.first_byte.add(data["first_byte_us"])
        elif kind == "model.error":
            self.ends += 1
            self.errors += 1
        else:
            if kind in COUNTED_TYPES:
                self.types[kind] += 1
            other = _OTHERS.get(kind)
            if other is not None:
                other(self, event, data)
                sums = (self.denied, self.lost, self.unauthorized, self.rate_limited, *self.lost_types.values())
                if max(sums) > MAX_INT:
                    raise Violation("a sum of counts passes 2^53-1")

    def whole(self, evidence: Any) -> bool:
        """Whether a cost over these events may be exact; ``evidence`` is ``ops.evidence`` of the document."""
        return not (self.lost or self.unmetered or self.requests > self.ends) and is_whole(evidence)

    def totals(self, evidence: Any) -> Object:
        """What ``totals`` must be."""
        return self.bill.totals() | {
            "calls": self.requests,
            "errors": self.errors,
            "denied": self.denied,
            "lost": self.lost,
            "unmetered": self.unmetered,
            "cost_is": self.bill.cost_is(self.whole(evidence)),
        }

    def activity(self) -> dict[str, Any]:
        """By path: what further members of a receipt must be."""
        types = self.types
        return {
            "session.elapsed_us": self.elapsed_us,
            "session.orphans": types["proc.orphan"],
            "session.survivors": self.survivors,
            "session.drill": types["x-docket.fault-injected"] > 0,
            "files.changes": self.changes.counts,
            "files.snapshots": types["fs.snapshot"],
            "network.allowed": types["net.allowed"],
            "network.denied": types["net.denied"],
            "network.forwarded": self.classes.counts,
            "network.unauthorized": self.unauthorized,
            "tools.calls": types["tool.call"],
            "tools.results": types["tool.result"],
            "resilience.breaker.open": types["x-docket.breaker-open"],
            "resilience.breaker.half-open": types["x-docket.breaker-half-open"],
            "resilience.breaker.closed": types["x-docket.breaker-closed"],
            "resilience.clock_steps": types["x-docket.clock-step"],
            "resilience.denied_by_code": self.codes.counts,
            "resilience.faults_injected": types["x-docket.fault-injected"],
            "resilience.rate_limited": self.rate_limited,
            "enforcement.violations": types["policy.violation"],
        }

    def latency(self) -> Object:
        """What ``latency`` must be."""
        return {"total": self.total.document(), "first_byte": self.first_byte.document()}

    def _denied(self, event: Object, data: Object) -> None:
        self.denied += data["count"]
        self.codes.add(data["code"], data["count"])

    def _forwarded(self, event: Object, data: Object) -> None:
        self.classes.add(data["endpoint_class"])
        self.unmetered += data["endpoint_class"] == "unmetered"

    def _unauthorized(self, event: Object, data: Object) -> None:
        self.unauthorized += data["count"]

    def _limited(self, event: Object, data: Object) -> None:
        self.rate_limited += data["count"]

    def _orphan(self, event: Object, data: Object) -> None:
        if data["ended"] == "survived" and len(self.survivors) < MAX_SURVIVORS:
            self.survivors.append(data["pid"])

    def _gap(self, event: Object, data: Object) -> None:
        self.lost += data["lost"]["count"]
        for kind in LOSSES:
            self.lost_types[kind] += data["lost"]["types"].get(kind, 0)

    def _change(self, event: Object, data: Object) -> None:
        self.changes.add(data["change"])

    def _breach(self, event: Object, data: Object) -> None:
        if self.breach is None:
            self.breach = {name: data[name] for name in ("cap", "limit", "observed")} | {"seq": event["seq"]}

    def _cache_hit(self, event: Object, data: Object) -> None:
        self.saved += decimals.amount(data.get("saved_usd", "0"))
        check_amount(self.saved)

    def _start(self, event: Object, data: Object) -> None:
        self.breach = None


_OTHERS = {
    "model.denied": Figures._denied,
    "model.cache_hit": Figures._cache_hit,
    "x-docket.forwarded": Figures._forwarded,
    "x-docket.unauthorized": Figures._unauthorized,
    "x-docket.rate-limited": Figures._limited,
    "proc.orphan": Figures._orphan,
    "x-docket.ledger-gap": Figures._gap,
    "fs.change": Figures._change,
    "cap.exceeded": Figures._breach,
    "session.start": Figures._start,
}


def is_whole(evidence: Any) -> bool:
    """Whether ``ops.evidence`` says that every event is in the ledger."""
    return (
        type(evidence) is dict
        and evidence.get("ledger_complete") is True
        and type(evidence.get("unwritten_events")) is int
        and evidence["unwritten_events"] == 0
        and evidence.get("gaps") == {}
    )


def difference(found: Object, expected: Object, path: str) -> str | None:
    """The first member of ``expected``, by name, that ``found`` does not have as it is (None: not at all), or None."""
    for name in sorted(expected):
        if expected[name] is None:
            if name in found:
                return f"{path}.{name} is there where the record gives none"
            continue
        if name not in found:
            return f"{path}.{name} is missing"
        if encode(found[name]) != encode(expected[name]):
            return f"{path}.{name} is {_short(found[name])} where the record gives {_short(expected[name])}"
    return None


def _short(value: Any) -> str:
    text = encode(value).decode()
    return text if len(text) <= 120 else text[:117] + "..."
