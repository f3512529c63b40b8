"""What is true of a run at this moment, and whether it is ready for more. Values and one pure decision.

Owns the difference between *alive* (the process serves), *started* (the boundary listens) and *ready* (another call
would be admitted and recorded). Readiness goes red before evidence is lost: low space is a reason of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from docket.primitives.canonical import JsonObject
from docket.primitives.money import ZERO, Usd

MIN_FREE_BYTES = 16 * 1024 * 1024
"""Default of ``min_free_bytes``: room for some 16,000 more calls, so an operator has time to act."""

BreakerName = Literal["closed", "half-open", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUse:
    """A cap and what is booked against it, in the cap's own unit (USD, tokens, calls, seconds)."""

    limit: Decimal
    booked: Decimal

    @property
    def spent(self) -> bool:
        return self.booked >= self.limit

    @property
    def ratio(self) -> float:
        return float(self.booked / self.limit) if self.limit else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A moment of a run. Nothing here is secret: no token, no path, no argument."""

    docket: str
    phase: str = "running"
    """``prepared``, ``running``, ``stopping``, ``reaped`` or ``sealed``."""
    listening: bool = True
    ledger_writable: bool = True
    ledger_intact: bool = True
    ledger_events: int = 0
    unwritten_events: int = 0
    free_bytes: int | None = None
    """Free space of the volume that holds the ledger; None where it cannot be read."""
    min_free_bytes: int = MIN_FREE_BYTES
    caps: Mapping[str, CapUse] = field(default_factory=dict)
    breakers: Mapping[str, BreakerName] = field(default_factory=dict)
    """Worst state of each upstream in use."""
    inflight: int = 0
    reserved_usd: Usd = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a run is not ready: a stable ``code`` and a sentence."""

    code: str
    detail: str


def reasons(status: Status) -> tuple[Reason, ...]:
    """Why the run of ``status`` is not ready; empty means ready."""
    found: list[Reason] = []
    if not status.listening:
        found.append(Reason(code="not_listening", detail="the boundary does not listen yet or any more"))
    if status.phase not in ("prepared", "running"):
        found.append(Reason(code="stopping", detail=f"the run is {status.phase}"))
    if not status.ledger_writable:
        found.append(Reason(code="ledger_not_writable", detail="an event could not be made durable"))
    if status.free_bytes is not None and status.free_bytes < status.min_free_bytes:
        detail = f"{status.free_bytes} bytes are free where the ledger lives, fewer than {status.min_free_bytes}"
        found.append(Reason(code="low_space", detail=detail))
    for name, use in sorted(status.caps.items()):
        if use.spent:
            found.append(Reason(code="cap_spent", detail=f"{name} is spent: {use.booked} of {use.limit}"))
    if status.breakers and all(state == "open" for state in status.breakers.values()):
        names = ", ".join(sorted(status.breakers))
        found.append(Reason(code="breaker_open", detail=f"every upstream in use is given a rest: {names}"))
    return tuple(found)


def readiness(status: Status) -> JsonObject:
    """Answer of ``/docket/readyz``: ready, reasons, and each upstream in use with its breaker."""
    why = reasons(status)
    return {
        "ready": not why,
        "reasons": [{"code": reason.code, "detail": reason.detail} for reason in why],
        "upstreams": [{"name": name, "breaker": state} for name, state in sorted(status.breakers.items())],
    }


def summary(status: Status) -> JsonObject:
    """Answer of ``/docket/healthz``: readiness and the figures behind it. Amounts are decimal strings."""
    caps: JsonObject = {
        name: {"limit": f"{use.limit:f}", "booked": f"{use.booked:f}"} for name, use in sorted(status.caps.items())
    }
    return {
        "docket": status.docket,
        "phase": status.phase,
        **readiness(status),
        "calls_in_flight": status.inflight,
        "reserved_usd": str(status.reserved_usd),
        "caps": caps,
        "ledger": {
            "events": status.ledger_events,
            "writable": status.ledger_writable,
            "intact": status.ledger_intact,
            "unwritten_events": status.unwritten_events,
            **({} if status.free_bytes is None else {"free_bytes": status.free_bytes}),
        },
    }
