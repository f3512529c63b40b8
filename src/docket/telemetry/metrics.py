"""Prometheus metrics of one run: a fold of durable entries, plus gauges read from the live status at each scrape.

Owns the metric names. Invariant: a counter follows from the ledger alone and never goes down; the number of series is
bounded whatever an agent sends. Sums are exact integers until they are rendered.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from docket.control.readiness import Status, reasons
from docket.ledger.chain import Entry
from docket.ledger.events import ModelCacheHit, ModelDenied, ModelError, ModelResponse, RateLimited
from docket.primitives.money import PICO
from docket.telemetry.labels import EVENT_TYPES, Labels

CALL_BUCKETS_US = tuple(int(s * 1_000_000) for s in (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600))
"""Model calls last from tens of milliseconds to minutes."""
SYNC_BUCKETS_US = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000)
"""A sync takes 0.1 ms on a good disk and seconds on a sick one."""
RATE_LIMITS = ("max_calls_per_second", "max_calls_per_minute")
BREAKER_STATES = {"closed": 0, "half-open": 1, "open": 2}
OPENMETRICS = "application/openmetrics-text"
_MICRO = 1_000_000

Key = tuple[str, ...]
"""Label values, in the order of the family's label names."""


@dataclass(slots=True)
class Histogram:
    """Counts by upper bound in microseconds, and their exact sum."""

    bounds_us: Sequence[int]
    counts: list[int] = field(default_factory=list)
    sum_us: int = 0

    def observe(self, value_us: int) -> None:
        if not self.counts:
            self.counts = [0] * (len(self.bounds_us) + 1)
        self.counts[bisect_left(self.bounds_us, value_us)] += 1
        self.sum_us += value_us

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative buckets in seconds, as the exposition wants them."""
        running, found = 0, []
        for bound, count in zip((*self.bounds_us, None), self.counts or [0] * (len(self.bounds_us) + 1), strict=True):
            running += count
            found.append(("+Inf" if bound is None else str(bound / _MICRO), float(running)))
        return found


class Fold:
    """Counters of a run, entry by entry. Constant memory."""

    def __init__(self, known_models: Iterable[str] = ()) -> None:
        """``known_models`` always keep their own label."""
        self.labels = Labels(known_models)
        self.events: Counter[Key] = Counter()
        self.calls: Counter[Key] = Counter()
        self.tokens: Counter[Key] = Counter()
        self.cost_pico: Counter[Key] = Counter()
        self.denied: Counter[Key] = Counter()
        self.breaker_refusals: Counter[Key] = Counter()
        self.rate_limited: Counter[Key] = Counter()
        self.call_seconds: dict[str, Histogram] = {}
        self.first_byte_seconds: dict[str, Histogram] = {}

    def add(self, entry: Entry) -> None:
        """Take the next durable entry."""
        self.events[(entry.type if entry.type in EVENT_TYPES else "other",)] += 1
        match entry.event:
            case ModelResponse() | ModelError() as end:
                self._add_end(end)
            case ModelCacheHit():
                self.calls["cache", "cache", "cache_hit"] += 1
            case ModelDenied() as denied:
                self._add_denied(denied)
            case RateLimited(limit=limit, count=count):
                self.rate_limited[(limit if limit in RATE_LIMITS else "other",)] += count
            case _:
                pass

    def _add_end(self, end: ModelResponse | ModelError) -> None:
        provider, model = self.labels.provider(end.provider), self.labels.model(end.model)
        self.calls[provider, model, self.labels.reason(end.reason)] += 1
        if end.duration_us is not None:
            self.call_seconds.setdefault(provider, Histogram(CALL_BUCKETS_US)).observe(end.duration_us)
        if end.first_byte_us is not None:
            self.first_byte_seconds.setdefault(provider, Histogram(CALL_BUCKETS_US)).observe(end.first_byte_us)
        if end.usage is None:
            return
        own = 0 if end.usage.cost_usd is None else end.usage.cost_usd.pico
        for item in end.usage.items:
            served = model if item.model is None else self.labels.model(item.model)
            if item.per != 1:
                self.tokens[provider, served, self.labels.kind(item.kind)] += item.quantity
            if end.usage.cost_usd is not None and item.model is not None and item.unit_usd is not None and item.per:
                part = item.unit_usd.pico_of(item.quantity, item.per)
                self.cost_pico[provider, served] += part
                own -= part
        if end.usage.cost_usd is not None:
            self.cost_pico[provider, model] += own

    def _add_denied(self, denied: ModelDenied) -> None:
        code = self.labels.code(denied.code)
        self.denied[(code,)] += denied.count
        if code == "breaker_open":
            self.breaker_refusals[(self.labels.upstream(denied.upstream or "unknown"),)] += denied.count


class Metrics:
    """The registry of one run: observes entries and syncs, renders on request."""

    def __init__(self, status: Callable[[], Status], known_models: Iterable[str] = ()) -> None:
        self._status = status
        self._fold = Fold(known_models)
        self._syncs = Histogram(SYNC_BUCKETS_US)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def observe(self, entry: Entry) -> None:
        """Count one durable entry; a writer's observer."""
        self._fold.add(entry)

    def observe_sync(self, duration_us: int) -> None:
        """Note how long one sync of the ledger took, in microseconds."""
        self._syncs.observe(duration_us)

    def render(self, accept: str | None) -> tuple[str, bytes]:
        """Content type and body for an ``Accept`` header: OpenMetrics 1.0.0 where preferred, else text 0.0.4."""
        encode, content_type = choose_encoder(negotiated(accept))
        return content_type, encode(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The families, for the registry."""
        status = self._status()
        yield from self._counters(status)
        yield from self._histograms()
        yield from self._gauges(status)

    def _counters(self, status: Status) -> Iterator[Metric]:
        """Yield the counters; a series whose labels are known beforehand starts at 0, so that a rate sees its first."""
        fold = self._fold
        events = _from_zero((*EVENT_TYPES, "other"), fold.events)
        yield _counter("docket_events", "Durable ledger events by type.", ["type"], events)
        yield _counter(
            "docket_calls",
            "Ended model calls by how they ended.",
            ["provider", "model", "outcome"],
            fold.calls,
        )
        yield _counter("docket_tokens", "Billed tokens by kind.", ["provider", "model", "kind"], fold.tokens)
        cost = {labels: pico / PICO for labels, pico in fold.cost_pico.items()}
        yield _counter("docket_cost_usd", "Cost of ended calls in US dollars.", ["provider", "model"], cost)
        denied = _from_zero((*status.caps, *RATE_LIMITS, "breaker_open"), fold.denied)
        yield _counter("docket_denied", "Refused calls by code.", ["code"], denied)
        yield _counter(
            "docket_breaker_refusals",
            "Calls refused because the breaker was open.",
            ["upstream"],
            _from_zero(status.breakers, fold.breaker_refusals),
        )
        limited = _from_zero(RATE_LIMITS, fold.rate_limited)
        yield _counter("docket_rate_limited", "Calls refused by a rate limit.", ["limit"], limited)

    def _histograms(self) -> Iterator[Metric]:
        for name, text, by_provider in (
            ("docket_call_seconds", "Time from admission to the end of a call.", self._fold.call_seconds),
            ("docket_first_byte_seconds", "Time to the first byte of the answer.", self._fold.first_byte_seconds),
        ):
            family = HistogramMetricFamily(name, text, labels=["provider"])
            for provider, histogram in sorted(by_provider.items()):
                family.add_metric([provider], histogram.buckets(), histogram.sum_us / _MICRO)
            yield family
        syncs = HistogramMetricFamily("docket_sync_seconds", "Time of one sync of the ledger.", labels=[])
        syncs.add_metric([], self._syncs.buckets(), self._syncs.sum_us / _MICRO)
        yield syncs

    def _gauges(self, status: Status) -> Iterator[Metric]:
        states = {name: BREAKER_STATES[state] for name, state in status.breakers.items()}
        yield _gauge("docket_breaker_state", "0 closed, 1 half-open, 2 open.", ["upstream"], states)
        ratios = {name: use.ratio for name, use in status.caps.items()}
        yield _gauge("docket_cap_used_ratio", "Booked part of a cap.", ["cap"], ratios)
        unwritten = CounterMetricFamily("docket_unwritten_events", "Events that could not be made durable.")
        unwritten.add_metric([], status.unwritten_events)
        yield unwritten
        for name, text, value in (
            ("docket_tasks", "Tasks of the supervisor's event loop.", _tasks()),
            ("docket_ready", "1 if another call would be admitted and recorded.", int(not reasons(status))),
            ("docket_ledger_writable", "1 while events can be made durable.", int(status.ledger_writable)),
            ("docket_ledger_intact", "0 once the record was found changed by another hand.", int(status.ledger_intact)),
            ("docket_inflight", "Calls under way.", status.inflight),
            ("docket_reserved_usd", "Dollars held for calls under way.", status.reserved_usd.pico / PICO),
            ("docket_free_bytes", "Free space where the ledger lives.", status.free_bytes),
        ):
            if value is not None:
                yield GaugeMetricFamily(name, text, value=float(value))


def _tasks() -> int | None:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # rendered outside the loop: after the run, or in a tool
        return None


def negotiated(accept: str | None) -> str:
    """The one format of ``accept`` that is served; quality values count (RFC 9110 12.5.1)."""
    best: dict[str, float] = {}
    for part in (accept or "").split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        best[kind] = max(best.get(kind, 0.0), _quality(parameters))
    text = max(best.get(kind, 0.0) for kind in ("text/plain", "text/*", "*/*"))
    if best.get(OPENMETRICS, 0.0) >= max(text, 0.001):
        return f"{OPENMETRICS}; version=1.0.0"
    return "text/plain; version=0.0.4"


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _from_zero(names: Iterable[str], counts: Mapping[Key, int]) -> dict[Key, int]:
    """Return ``counts``, with 0 for each of ``names`` that is not counted yet."""
    return {**{(name,): 0 for name in names}, **counts}


def _counter(name: str, text: str, labels: list[str], values: Mapping[Key, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _gauge(name: str, text: str, labels: list[str], values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
