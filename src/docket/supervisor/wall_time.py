"""The cap on time: monotonic, from the start of the run, over all its sessions.

Invariant: no step of the wall clock makes or prevents a breach; time in which the agent, or docket itself, is stopped
counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from docket.clock import Clock
from docket.errors import LedgerError
from docket.ledger.events import CapExceeded, CapName, CapWarning
from docket.policy.model import Caps
from docket.primitives.instant import Duration
from docket.supervisor.announce import Announcer
from docket.supervisor.recorder import RunRecorder

CAP: CapName = "max_wall_seconds"


class WallTime:
    """Watches the time of one run."""

    def __init__(self, caps: Caps, clock: Clock, *, used_us: int = 0) -> None:
        """``used_us`` is what earlier sessions took."""
        self._caps = caps
        self._clock = clock
        self._started_us = clock.monotonic_us() - used_us

    def elapsed_us(self) -> int:
        """Microseconds since the run started."""
        return self._clock.monotonic_us() - self._started_us

    async def watch(
        self, recorder: RunRecorder, announcer: Announcer, on_breach: Callable[[CapExceeded], None]
    ) -> None:
        """Record the warning, then the breach; ``on_breach`` once that is durable, or cannot be.

        Returns at once without a cap.
        """
        if self._caps.max_wall_seconds is None:
            return
        limit_us = self._caps.max_wall_seconds.us
        await self._until(int(limit_us * self._caps.warn_at))
        warning = CapWarning(cap=CAP, limit=_seconds(limit_us), observed=_seconds(self.elapsed_us()))
        with suppress(LedgerError):  # a record that is broken has said so itself
            recorder.submit(warning)
        announcer.warned(warning)
        await self._until(limit_us)
        breach = CapExceeded(cap=CAP, limit=_seconds(limit_us), observed=_seconds(self.elapsed_us()))
        with suppress(LedgerError):
            await recorder.append(breach)
        on_breach(breach)

    async def _until(self, elapsed_us: int) -> None:
        while (left := elapsed_us - self.elapsed_us()) > 0:  # noqa: ASYNC110 (it is time itself that is waited for)
            await asyncio.sleep(left / 1e6)


def _seconds(us: int) -> str:
    return str(Duration(us))
