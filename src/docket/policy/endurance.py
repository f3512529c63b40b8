"""``[endurance]``: which failed calls docket itself tries again. docs/endurance.md tells it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from docket.policy.keys import key
from docket.policy.kinds import Count, Optional, Seconds
from docket.primitives.instant import Duration

DAY = Decimal(86_400)
MAX_ATTEMPTS = 100
"""Beyond that, what is wanted is ``outage_seconds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endurance:
    """Which calls are tried again that failed for a passing reason before the agent saw a byte of an answer.

    Each attempt is a call of its own, held, capped, billed and recorded; the agent waits as on a slow provider.
    """

    attempts: int = key(
        Count(1, MAX_ATTEMPTS), "How often a call is tried in all. 1: once, a failure is the agent's.", default=1
    )
    base_seconds: Duration = key(
        Seconds(Decimal("0.01"), DAY), "Wait before the second attempt; doubled for each further one.",
        default=Duration(1_000_000),
    )  # fmt: skip
    max_seconds: Duration = key(
        Seconds(Decimal("0.01"), DAY),
        "No wait is longer. A provider that asks for more is not tried again, but for outage_seconds.",
        default=Duration(60_000_000),
    )
    outage_seconds: Duration | None = key(
        Optional(Seconds(Decimal(1), 14 * DAY)),
        "Ride out an outage: a call is tried again for so long after its first failure, whatever attempts says. An open"
        " breaker is waited for too.",
        default=None,
        example="7200",
    )

    @property
    def on(self) -> bool:
        """Whether anything is tried again."""
        return self.attempts > 1 or self.outage_seconds is not None
