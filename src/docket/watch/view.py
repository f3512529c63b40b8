"""What a person wants to see of a run while it goes on: one fold over its lines, kept as plain JSON.

Constant memory: open calls, and the newest of whatever there may be many of. The state can be written down and taken up
again at its cursor, so that a long ledger is folded once. Amounts are what caps count, by the rule of the specification
(section 4): a bill where there is one, else the larger of a partial figure and the hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import orjson

from docket.ledger.events import (
    BreakerClosed,
    BreakerHalfOpen,
    BreakerOpen,
    CapExceeded,
    CapWarning,
    FaultInjected,
    FsChange,
    FsSnapshot,
    LedgerGap,
    ModelCacheHit,
    ModelDenied,
    ModelError,
    ModelRequest,
    ModelResponse,
    PolicyApplied,
    PolicyViolation,
    RateLimited,
    SessionEnd,
    SessionStart,
)
from docket.watch.tail import START, Line

RECENT = 200
"""Events that are kept for the list of the last ones."""
FINISHED = 50
"""Calls that are kept after their end."""
PACE_US = 300_000_000
"""How far back the rate of spending looks."""
PACE_STEPS = 60
"""Parts of that time, each with the sum of what was booked in it."""
MAX_NAMES = 100
"""Different models, codes, upstreams and kinds that are counted apart; the rest counts as other."""
QUIET = frozenset({ModelRequest.type, ModelResponse.type})
"""Types that are too many to stand in the list of the last events of a busy run, unless nothing else happened."""
VERSION = 1


@dataclass(slots=True)
class View:
    """The state of one run's view. Every member is JSON as it stands."""

    cursor: int = START
    head: str = ""
    docket: str = ""
    started: str = ""
    ts: str = ""
    elapsed_us: int = 0
    session: int = 0
    sessions: int = 0
    label: str | None = None
    argv: list[str] = field(default_factory=list)
    limits: dict[str, Any] = field(default_factory=dict)
    """The caps of the policy: max_usd, max_tokens, max_model_calls, max_wall_seconds, where it is disclosed."""
    outcome: str | None = None
    exit: dict[str, Any] | None = None
    calls: int = 0
    errors: int = 0
    denied: dict[str, int] = field(default_factory=dict)
    usd: str = "0"
    tokens: int = 0
    unpriced: int = 0
    """Calls that ended without a price or without usage: what they cost is not in ``billed_usd``."""
    billed_usd: str = "0"
    kinds: dict[str, int] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    open: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Calls under way by number: model, upstream, since_us, hold."""
    finished: list[dict[str, Any]] = field(default_factory=list)
    cache_hits: int = 0
    saved_usd: str = "0"
    breakers: dict[str, str] = field(default_factory=dict)
    limited: int = 0
    warnings: list[dict[str, Any]] = field(default_factory=list)
    breach: dict[str, Any] | None = None
    changes: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    violations: list[str] = field(default_factory=list)
    faults: int = 0
    pace: list[list[Any]] = field(default_factory=list)
    """Pairs of a step of time and what was booked in it, USD."""
    recent: list[dict[str, Any]] = field(default_factory=list)

    def feed(self, lines: tuple[Line, ...]) -> None:
        """Fold the next ``lines``."""
        for line in lines:
            self.add(orjson.loads(line.content))

    def add(self, event: dict[str, Any]) -> None:
        """Fold one event."""
        self.cursor, self.head = event["seq"], event["hash"]
        self.ts, self.elapsed_us = event["ts"], event["elapsed_us"]
        fold = _FOLDS.get(event["type"])
        if fold is not None:
            fold(self, event["data"], event)
        if event["type"] not in QUIET:
            _remember(self.recent, {"seq": event["seq"], "ts": event["ts"], "type": event["type"]} | _said(event))

    @property
    def reserved_usd(self) -> Decimal:
        """What calls under way keep reserved."""
        return sum((Decimal(call["hold"].get("usd", "0")) for call in self.open.values()), Decimal(0))

    def usd_per_hour(self) -> Decimal | None:
        """What was booked over the last minutes, as a rate; None where there is too little to tell."""
        newest = self.elapsed_us // (PACE_US // PACE_STEPS)
        steps = [(step, Decimal(usd)) for step, usd in self.pace if newest - step <= PACE_STEPS]
        span_us = min(self.elapsed_us, PACE_US)
        if not steps or span_us < PACE_US // PACE_STEPS:
            return None
        return sum((usd for _, usd in steps), Decimal(0)) * 3_600_000_000 / span_us

    def seconds_left(self) -> float | None:
        """How long the money lasts at this rate; None where there is no cap or no rate."""
        rate, limit = self.usd_per_hour(), self.limits.get("max_usd")
        if not rate or limit is None:
            return None
        return max(0.0, float((Decimal(limit) - Decimal(self.usd)) / rate * 3600))

    def to_json(self) -> dict[str, Any]:
        """Return the state, for a later process or a page."""
        return {"version": VERSION} | {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, saved: Any) -> View | None:
        """Return the view that was saved, or None where it is of another version or no view."""
        if not isinstance(saved, dict) or saved.pop("version", None) != VERSION or set(saved) != set(cls.__slots__):
            return None
        return cls(**saved)

    def _book(self, usd: Decimal) -> None:
        self.usd = plain(Decimal(self.usd) + usd)
        step = self.elapsed_us // (PACE_US // PACE_STEPS)
        if self.pace and self.pace[-1][0] == step:
            self.pace[-1][1] = plain(Decimal(self.pace[-1][1]) + usd)
        else:
            self.pace.append([step, plain(usd)])
            del self.pace[: -(PACE_STEPS + 1)]

    def _start(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.docket, self.session, self.sessions = data["docket"], data["session"], data["session"] + 1
        self.started = self.started or event["ts"]
        self.outcome = self.exit = None
        private = event.get("private", {})
        self.label = private.get("label", {}).get("value")
        self.argv = private.get("argv", {}).get("value") or []

    def _policy(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        document = event.get("private", {}).get("document", {}).get("value") or {}
        self.limits = {name: value for name, value in document.get("caps", {}).items() if name.startswith("max_")}

    def _end(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.outcome, self.exit = data["outcome"], data["exit"]
        self.open.clear()

    def _request(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.calls += 1
        self.open[str(data["call"])] = {
            "model": data["model"],
            "upstream": data["upstream"],
            "since_us": event["elapsed_us"],
            "hold": data["hold"],
            "stream": data["stream"],
        }

    def _answer(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        begun = self.open.pop(str(data["call"]), None) or {"hold": {}, "upstream": "", "since_us": event["elapsed_us"]}
        failed = event["type"] == ModelError.type
        self.errors += failed
        bill = data.get("usage") or {}
        cost = Decimal(bill["cost_usd"]) if "cost_usd" in bill else None
        held = begun["hold"]
        booked = cost if cost is not None else Decimal(0)
        tokens = sum(item["quantity"] for item in bill.get("items", ()) if item.get("per") != 1)
        if bill and (cost is None or bill.get("source") != "reported"):
            booked = max(booked, Decimal(held.get("usd", "0")))
            self.unpriced += cost is None
            tokens = max(tokens, held.get("tokens", 0)) if bill.get("source") != "reported" else tokens
        self._book(booked)
        self.tokens += tokens
        if cost is not None:
            self.billed_usd = plain(Decimal(self.billed_usd) + cost)
        for item in bill.get("items", ()):
            _count(self.kinds, item["kind"], item["quantity"])
        name = data["model"] if data["model"] in self.models or len(self.models) < MAX_NAMES else "other"
        row = self.models.setdefault(name, {"calls": 0, "errors": 0, "usd": "0"})
        row["calls"] += 1
        row["errors"] += failed
        row["usd"] = plain(Decimal(row["usd"]) + booked)
        done = {
            "call": data["call"],
            "model": data["model"],
            "upstream": begun["upstream"],
            "since_us": begun["since_us"],
            "duration_us": data.get("duration_us"),
            "first_byte_us": data.get("first_byte_us"),
            "reason": data["reason"],
            "status": data.get("status"),
            "usd": plain(booked),
        }
        _remember(self.finished, done, FINISHED)

    def _denied(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        _count(self.denied, data["code"], data["count"])

    def _cache_hit(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.cache_hits += 1
        self.saved_usd = plain(Decimal(self.saved_usd) + Decimal(data.get("saved_usd", "0")))

    def _breaker(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        if data["upstream"] in self.breakers or len(self.breakers) < MAX_NAMES:
            self.breakers[data["upstream"]] = event["type"].removeprefix("x-docket.breaker-")

    def _limiter(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.limited += data["count"]

    def _warning(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        _remember(self.warnings, data | {"elapsed_us": event["elapsed_us"]}, MAX_NAMES)

    def _exceeded(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.breach = self.breach or data | {"elapsed_us": event["elapsed_us"], "seq": event["seq"]}

    def _change(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        _count(self.changes, data["change"], 1)

    def _snapshot(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        if data.get("changes"):
            self.changes = dict(data["changes"])

    def _gap(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.lost += data["lost"]["count"]

    def _violation(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        if len(self.violations) < MAX_NAMES:
            self.violations.append(data["rule"])

    def _fault(self, data: dict[str, Any], event: dict[str, Any]) -> None:
        self.faults += 1


_FOLDS: dict[str, Callable[[View, dict[str, Any], dict[str, Any]], None]] = {
    SessionStart.type: View._start,
    PolicyApplied.type: View._policy,
    SessionEnd.type: View._end,
    ModelRequest.type: View._request,
    ModelResponse.type: View._answer,
    ModelError.type: View._answer,
    ModelDenied.type: View._denied,
    ModelCacheHit.type: View._cache_hit,
    BreakerOpen.type: View._breaker,
    BreakerHalfOpen.type: View._breaker,
    BreakerClosed.type: View._breaker,
    RateLimited.type: View._limiter,
    CapWarning.type: View._warning,
    CapExceeded.type: View._exceeded,
    FsChange.type: View._change,
    FsSnapshot.type: View._snapshot,
    LedgerGap.type: View._gap,
    PolicyViolation.type: View._violation,
    FaultInjected.type: View._fault,
}


def _said(event: dict[str, Any]) -> dict[str, Any]:
    """What one line says of an event: its public members that are a word or a number."""
    return {
        "said": " ".join(
            f"{name}={value}"
            for name, value in event["data"].items()
            if isinstance(value, str | int) and len(str(value)) <= 64
        )
    }


def _remember(kept: list[dict[str, Any]], row: dict[str, Any], most: int = RECENT) -> None:
    kept.append(row)
    if len(kept) > most:
        del kept[: len(kept) - most]


def _count(counts: dict[str, int], name: str, more: int) -> None:
    if name not in counts and len(counts) >= MAX_NAMES:
        name = "other"
    counts[name] = counts.get(name, 0) + more


def plain(amount: Decimal) -> str:
    """An amount in the spelling of the format: no exponent, no trailing zeros."""
    text = format(amount, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
