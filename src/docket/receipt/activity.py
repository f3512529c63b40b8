"""What a run did beside its calls, as counts: the members of a receipt that follow from the types of its events.

Invariant: every figure is a plain count over the ledger (spec section 9), kept in constant memory.
"""

from __future__ import annotations

from typing import Protocol

from docket.primitives.canonical import Json, JsonObject

MAX_NAMED = 100
"""Survivors named, entries of changed files listed: the first ones; the counts are of all."""
MAX_KEYS = 64
"""Distinct kinds, codes and the like that are counted apart, in order of appearance; the rest count as ``other``."""


class Recorded(Protocol):
    """What a fold reads of a ledger entry."""

    @property
    def seq(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def elapsed_us(self) -> int: ...
    @property
    def data(self) -> JsonObject: ...
    @property
    def private(self) -> JsonObject | None: ...


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
        self.survivors: list[int] = []
        self.lost: dict[str, int] = {}
        self.breach: JsonObject | None = None
        self.sessions = 0
        self.elapsed_us = 0

    def add(self, entry: Recorded) -> None:
        """Take the next entry of the ledger."""
        kind, data = entry.type, entry.data
        self.elapsed_us = entry.elapsed_us
        if kind.startswith("model."):
            if kind == "model.denied":
                count(self.denied_by_code, str(data["code"]), _int(data["count"]))
            elif kind == "model.cache_hit":
                count(self.types, kind)
            return
        count(self.types, kind)
        match kind:
            case "session.start":
                self.sessions += 1
                self.breach = None
            case "cap.exceeded":
                if self.breach is None:
                    self.breach = {name: data[name] for name in ("cap", "limit", "observed")} | {"seq": entry.seq}
            case "x-docket.forwarded":
                count(self.forwarded, str(data["endpoint_class"]))
            case "x-docket.unauthorized":
                self.unauthorized += _int(data["count"])
            case "proc.orphan":
                if data["ended"] == "survived" and len(self.survivors) < MAX_NAMED:
                    self.survivors.append(_int(data["pid"]))
            case "x-docket.ledger-gap":
                self._add_gap(data["lost"])
            case "fs.change":
                self._add_change(entry)
            case "fs.snapshot":
                self._add_uncovered(entry)
            case _:
                pass

    @property
    def drill(self) -> bool:
        """Whether a fault was injected on purpose."""
        return self.of("x-docket.fault-injected") > 0

    def of(self, kind: str) -> int:
        """Number of events of type ``kind``."""
        return self.types.get(kind, 0)

    def files(self) -> tuple[JsonObject, dict[str, Json]]:
        """Counts by kind of change; privately the first changed paths, and what was not covered."""
        public: JsonObject = {"changes": dict(self.changes), "snapshots": self.of("fs.snapshot")}
        lists: dict[str, Json] = {"first": self.first_changes, "uncovered": self.uncovered}
        return public, {name: value for name, value in lists.items() if value}

    def network(self) -> JsonObject:
        """Requests that are no model call, by class; refused connections."""
        return {
            "allowed": self.of("net.allowed"),
            "denied": self.of("net.denied"),
            "forwarded": dict(self.forwarded),
            "unauthorized": self.unauthorized,
        }

    def tools(self) -> JsonObject:
        """What the agent said of its tools."""
        return {"calls": self.of("tool.call"), "results": self.of("tool.result")}

    def resilience(self) -> JsonObject:
        """Breaker transitions, limiter refusals, injected faults, clock steps, and refusals by code."""
        return {
            "breaker": {name: self.of(f"x-docket.breaker-{name}") for name in ("open", "half-open", "closed")},
            "clock_steps": self.of("x-docket.clock-step"),
            "denied_by_code": dict(self.denied_by_code),
            "faults_injected": self.of("x-docket.fault-injected"),
            "rate_limited": self.of("x-docket.rate-limited"),
        }

    def _add_gap(self, lost: Json) -> None:
        if isinstance(lost, dict) and isinstance(lost.get("types"), dict):
            for name, number in lost["types"].items():  # type: ignore[union-attr]
                count(self.lost, name, _int(number))

    def _add_change(self, entry: Recorded) -> None:
        change = str(entry.data["change"])
        count(self.changes, change)
        path = (entry.private or {}).get("path")
        if isinstance(path, dict) and "value" in path and len(self.first_changes) < MAX_NAMED:
            self.first_changes.append({"change": change, "path": path["value"]})

    def _add_uncovered(self, entry: Recorded) -> None:
        listed = (entry.private or {}).get("uncovered")
        items = listed.get("value") if isinstance(listed, dict) else None
        if isinstance(items, list):
            self.uncovered.extend(items[: MAX_NAMED - len(self.uncovered)])


def _int(value: Json) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value
