"""The decision on one call: admitted with a hold, or refused with a reason. Values only.

A refusal charges nothing and counts for nothing; an admission is a reservation that is settled or released exactly
once.
"""

from __future__ import annotations

from dataclasses import dataclass

from docket.ledger.events import CallNumber, CapExceeded, CapWarning, CarriageCode, DeniedCode, Event, Hold, RateLimited
from docket.ledger.usage import Usage
from docket.primitives.frozen import value


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a call is not forwarded. ``retry_after`` (seconds, rounded up) is present exactly when it is temporary."""

    code: DeniedCode | CarriageCode
    message: str
    retry_after: int | None = None
    limit: str | None = None
    observed: str | None = None
    estimated: bool = False
    """Whether ``retry_after`` is docket's guess."""
    limited: RateLimited | None = None
    """What is recorded beside the ``model.denied`` event, with the same count: the limiter's state."""
    breaches: tuple[CapExceeded, ...] = ()
    """Caps that this refusal itself breaches: recorded beside it, acted on once it was answered."""

    @property
    def final(self) -> bool:
        return self.retry_after is None


@value
class Admitted:
    """A reservation for one call."""

    call: CallNumber
    hold: Hold
    waited_us: int = 0
    events: tuple[Event, ...] = ()
    """What is recorded before the ``model.request`` event: the breaker's step to half-open."""


@value
class Settlement:
    """What became of an admission: its priced bill, and the cap events that booking it caused (at most one a cap)."""

    usage: Usage | None
    """None where nothing was billed: no answer head, or an error answer without usage."""
    model: str
    tier: str
    warnings: tuple[CapWarning, ...] = ()
    breaches: tuple[CapExceeded, ...] = ()
    events: tuple[Event, ...] = ()
    """What is recorded after the call's end event: the breaker's transitions."""
