"""Whether and when a failed call is tried again. Pure: time and chance are arguments.

Invariant: a call is tried again only where the provider cannot have done the work: it was never reached, or said
itself, with a whole answer, that it would not.
"""

from __future__ import annotations

from dataclasses import dataclass

from docket.control.breaker import Ended
from docket.policy.endurance import Endurance

REFUSED_WORK = frozenset((429, 500, 502, 503, 529))
"""Statuses of answers by which a provider says that it did not do the work, for a reason that passes.

Not 504: there a gateway gave up waiting, and what stands behind it may still answer and bill.
"""


def passing(ended: Ended) -> bool:
    """Whether a call that ended so may succeed when it is sent again, and cannot be billed twice by that."""
    return ended.reason == "connect" or (ended.reason == "status" and ended.status in REFUSED_WORK)


@dataclass(slots=True)
class Attempts:
    """The attempts of one call; waits in microseconds."""

    policy: Endurance
    first_failed_us: int | None = None
    made: int = 0

    def wait_us(self, now_us: int, asked_us: int | None, chance: float) -> int | None:
        """How long to wait after another failure at ``now_us``, or None where it stays with it.

        ``asked_us`` is what the provider, or docket's own breaker, asked for; ``chance`` lies in [0, 1) and spreads
        calls that failed together over the second half of each wait.
        """
        self.made += 1
        if self.first_failed_us is None:
            self.first_failed_us = now_us
        policy = self.policy
        most = policy.max_seconds.us
        step = min(most, policy.base_seconds.us * 2 ** min(self.made - 1, 40))
        wait = max(step - int(step * chance) // 2, asked_us or 0)
        if policy.outage_seconds is not None:
            left = self.first_failed_us + policy.outage_seconds.us - now_us
            return wait if wait <= left else None
        return wait if self.made < policy.attempts and wait <= most else None
