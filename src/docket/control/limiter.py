"""The rate limiter: a token bucket (calls per second) and a sliding minute. A pure state machine.

It owns how often the agent may call. Invariant: over any window never more calls than burst + rate x window pass the
bucket, and never more than the limit in any 60 seconds pass the minute. Integers only, so nothing drifts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

from docket.control.decision import Refused
from docket.ledger.events import RateLimited, RateName
from docket.policy.resilience import MAX_PER_MINUTE, MAX_PER_SECOND, Resilience
from docket.primitives.canonical import JsonObject
from docket.primitives.instant import Instant, whole_seconds

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


@dataclass(slots=True)
class Bucket:
    """A token bucket in the form of GCRA: ``full_at`` is when it is full again if nothing more is taken.

    A token comes every ``interval_us``, rounded up, so the rate is never exceeded; ``burst`` is one second of steady
    traffic, at least one token.
    """

    interval_us: int
    burst: int
    full_at: Instant | None = None

    @classmethod
    def per_second(cls, rate: Fraction) -> Bucket:
        """A bucket for ``rate`` calls a second. Raises ValueError unless 0 < rate <= MAX_PER_SECOND."""
        if not 0 < rate <= MAX_PER_SECOND:
            raise ValueError(f"rate {rate} is not between 0 and {MAX_PER_SECOND}")
        return cls(interval_us=-(-SECOND_US * rate.denominator // rate.numerator), burst=max(1, int(rate)))

    def wait_us(self, now: Instant) -> int:
        """Microseconds until a token is there; 0 if one is."""
        if self.full_at is None:
            return 0
        return max(0, self.full_at - (self.burst - 1) * self.interval_us - now)

    def take(self, now: Instant) -> None:
        """Take one token; only when ``wait_us`` is 0."""
        self.full_at = Instant(max(now, self.full_at if self.full_at is not None else now) + self.interval_us)

    def state(self, now: Instant) -> JsonObject:
        missing = 0 if self.full_at is None else max(0, self.full_at - now)
        return {"burst": self.burst, "interval_us": self.interval_us, "full_in_us": missing}


@dataclass(slots=True)
class Minute:
    """At most ``limit`` calls in any 60 seconds: the instants of those of the last minute."""

    limit: int
    taken: deque[Instant] = field(default_factory=deque)

    def wait_us(self, now: Instant) -> int:
        """Microseconds until the oldest of a full window leaves it; 0 if there is room."""
        self._forget(now)
        return 0 if len(self.taken) < self.limit else self.taken[0] + MINUTE_US - now

    def take(self, now: Instant) -> None:
        """Count one call; only when ``wait_us`` is 0."""
        self.taken.append(now)

    def state(self, now: Instant) -> JsonObject:
        self._forget(now)
        return {"limit": self.limit, "calls": len(self.taken)}

    def _forget(self, now: Instant) -> None:
        while self.taken and self.taken[0] + MINUTE_US <= now:
            self.taken.popleft()


class Limiter:
    """Both limits of ``[resilience]``; an absent one never refuses. The gate asks, and takes once all agree."""

    def __init__(self, *, per_second: Fraction | None = None, per_minute: int | None = None) -> None:
        """Raises ValueError for a limit that is not positive or above its ceiling."""
        if per_minute is not None and not 0 < per_minute <= MAX_PER_MINUTE:
            raise ValueError(f"limit {per_minute} is not between 1 and {MAX_PER_MINUTE}")
        self._parts: list[tuple[RateName, Bucket | Minute]] = []
        if per_second is not None:
            self._parts.append(("max_calls_per_second", Bucket.per_second(per_second)))
        if per_minute is not None:
            self._parts.append(("max_calls_per_minute", Minute(per_minute)))

    @classmethod
    def of(cls, keys: Resilience) -> Limiter:
        """The limiter that ``[resilience]`` states."""
        rate = keys.max_calls_per_second
        return cls(per_second=None if rate is None else Fraction(rate), per_minute=keys.max_calls_per_minute)

    @property
    def limits_anything(self) -> bool:
        """Whether any limit is set."""
        return bool(self._parts)

    def ask(self, now: Instant) -> Refused | None:
        """The temporary refusal of a call at ``now``, or None. The wait is the longer one: who obeys is admitted."""
        if not self._parts:
            return None
        name, part = max(self._parts, key=lambda limit: limit[1].wait_us(now))
        wait_us = part.wait_us(now)
        if wait_us == 0:
            return None
        seconds = whole_seconds(wait_us)
        return Refused(
            code=name,
            message=f"{name} reached; try again in {seconds} s",
            retry_after=seconds,
            limited=RateLimited(limit=name, retry_after=seconds, state={**part.state(now), "wait_us": wait_us}),
        )

    def take(self, now: Instant) -> None:
        """Count one admitted call; only after ``ask`` gave None at the same ``now``."""
        for _, part in self._parts:
            part.take(now)
