"""What a run did beside its calls, as counts: the members of a receipt that follow from the types of its events.

Invariant: every figure is a plain count over the ledger (spec section 9), kept in constant memory.
"""

from __future__ import annotations

from docket.errors import FormatError
from docket.ledger.chain import Entry
from docket.ledger.events import (
    BreakerClosed,
    BreakerHalfOpen,
    BreakerOpen,
    CapExceeded,
    ClockStep,
    Event,
    Fact,
    FaultInjected,
    Forwarded,
    FsChange,
    FsSnapshot,
    LedgerGap,
    ModelCacheHit,
    ModelDenied,
    ModelError,
    ModelRequest,
    ModelResponse,
    ProcOrphan,
    RateLimited,
    SessionStart,
    ToolCall,
    ToolResult,
    Unauthorized,
)
from docket.primitives.canonical import Json, JsonObject

MAX_NAMED = 100
"""Survivors named, entries of changed files listed: the first ones; the counts are of all."""
MAX_KEYS = 64
"""Distinct kinds, codes and the like that are counted apart, in order of appearance; the rest count as ``other``."""


def count(counts: dict[str, int], key: str, more: int = 1) -> None:
    """Add ``more`` to ``counts[key]``, or to ``other`` where there are ``MAX_KEYS`` keys without it."""
    if key not in counts and len(counts) >= MAX_KEYS:
        key = "other"
    counts[key] = counts.get(key, 0) + more


class Activity:
    """Counts of events beside model calls."""

    def __init__(self) -> None:
        self.types: dict[str, int] = {}
        self.denied_by_code: dict[str, int] = {}
        self.forwarded: dict[str, int] = {}
        self.changes: dict[str, int] = {}
        self.first_changes: list[Json] = []
        self.uncovered: list[Json] = []
        self.unauthorized = 0
        self.rate_limited = 0
        self.survivors: list[int] = []
        self.lost: dict[str, int] = {}
        self.breach: JsonObject | None = None
        self.sessions = 0
        self.elapsed_us = 0

    def add(self, entry: Entry, event: Event) -> None:
        """Take the next entry of the ledger, and the event that it holds."""
        self.elapsed_us = entry.elapsed_us
        match event:
            case ModelRequest() | ModelResponse() | ModelError():
                return
            case ModelDenied():
                count(self.denied_by_code, event.code, event.count)
                return
            case ModelCacheHit():
                count(self.types, event.type)
                return
            case _:
                if entry.type.startswith("model."):
                    return
        count(self.types, entry.type)
        match event:
            case SessionStart():
                self.sessions += 1
                self.breach = None
            case CapExceeded():
                if self.breach is None:
                    self.breach = {"cap": event.cap, "limit": event.limit, "observed": event.observed, "seq": entry.seq}
            case Forwarded():
                count(self.forwarded, event.endpoint_class)
            case Unauthorized():
                self.unauthorized += event.count
            case RateLimited():
                self.rate_limited += event.count
            case ProcOrphan():
                if event.ended == "survived" and len(self.survivors) < MAX_NAMED:
                    self.survivors.append(event.pid)
            case LedgerGap():
                self._add_gap(event.lost)
            case FsChange():
                self._add_change(event)
            case FsSnapshot():
                self._add_uncovered(event)
            case _:
                pass

    @property
    def drill(self) -> bool:
        """Whether a fault was injected on purpose."""
        return self.of(FaultInjected) > 0

    def of(self, kind: type[Fact]) -> int:
        """Number of events of type ``kind``."""
        return self.types.get(kind.type, 0)

    def files(self) -> tuple[JsonObject, dict[str, Json]]:
        """Counts by kind of change; privately the first changed paths, and what was not covered."""
        public: JsonObject = {"changes": dict(self.changes), "snapshots": self.of(FsSnapshot)}
        lists: dict[str, Json] = {"first": self.first_changes, "uncovered": self.uncovered}
        return public, {name: value for name, value in lists.items() if value}

    def network(self) -> JsonObject:
        """Requests that are no model call, by class; refused connections."""
        return {
            "allowed": self.types.get("net.allowed", 0),
            "denied": self.types.get("net.denied", 0),
            "forwarded": dict(self.forwarded),
            "unauthorized": self.unauthorized,
        }

    def tools(self) -> JsonObject:
        """What the agent said of its tools."""
        return {"calls": self.of(ToolCall), "results": self.of(ToolResult)}

    def resilience(self) -> JsonObject:
        """Breaker transitions, limiter refusals, injected faults, clock steps, and refusals by code."""
        return {
            "breaker": {
                "open": self.of(BreakerOpen),
                "half-open": self.of(BreakerHalfOpen),
                "closed": self.of(BreakerClosed),
            },
            "clock_steps": self.of(ClockStep),
            "denied_by_code": dict(self.denied_by_code),
            "faults_injected": self.of(FaultInjected),
            "rate_limited": self.rate_limited,
        }

    def _add_gap(self, lost: JsonObject) -> None:
        types = lost.get("types")
        if isinstance(types, dict):
            for name, number in types.items():
                count(self.lost, name, whole(number))

    def _add_change(self, event: FsChange) -> None:
        count(self.changes, event.change)
        if "path" in event.private and len(self.first_changes) < MAX_NAMED:
            self.first_changes.append({"change": event.change, "path": event.private["path"]})

    def _add_uncovered(self, event: FsSnapshot) -> None:
        items = event.private.get("uncovered")
        if isinstance(items, list):
            self.uncovered.extend(items[: MAX_NAMED - len(self.uncovered)])


def whole(value: Json) -> int:
    """Return ``value``, a count inside a member that is JSON. Raises FormatError where it is no whole number."""
    if type(value) is not int:
        raise FormatError(f"{value!r} is not a whole number")
    return value
