"""A drill: the ports of one run, made to misbehave by a specification and a seed.

Invariant: every injection is an ``x-docket.fault-injected`` event, the plan itself the first of them, so that a drill
can never pass for an ordinary run.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from docket.boundary.call.ports import Recorder, Upstream
from docket.chaos.upstream import DrillUpstream
from docket.clock import SystemClock
from docket.errors import LedgerError
from docket.ledger.events import FaultInjected
from docket.sim.clock import Lie, LyingClock
from docket.sim.drill_disk import DrillDisk
from docket.sim.faults import Fault, Plan
from docket.storage.durable import SystemDisk
from docket.supervisor.ports import Disclose, Ports

STEP_AFTER_US = 1_000_000
"""When the wall clock of a drill steps: once the agent is at work."""


class Drill:
    """One drill, for one run."""

    def __init__(self, plan: Plan, specification: str) -> None:
        self._plan = plan
        self._specification = specification
        self._disclose: Disclose | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[FaultInjected] = []

    def ports(self) -> Ports:
        """What the run is given in place of the world."""
        disk = DrillDisk(SystemDisk(), self._plan, sleep=_dawdle, note=self._struck)
        return Ports(
            clock=LyingClock(SystemClock(), [_lie(fault) for fault in self._plan.of("clock")]),
            disk=disk if self._plan.of("disk") else SystemDisk(),
            around=self._around,
            begin=self._begin,
        )

    def _around(self, inner: Upstream, recorder: Recorder) -> Upstream:
        async def record(event: FaultInjected) -> None:
            await recorder.submit(event)

        return DrillUpstream(inner, self._plan, record)

    def _begin(self, disclose: Disclose) -> None:
        self._loop = asyncio.get_running_loop()
        self._disclose = disclose
        self._tell(FaultInjected(fault="plan", detail={"faults": self._specification, "seed": self._plan.seed}))
        for fault in self._plan.of("clock"):
            self._tell(FaultInjected(fault=fault.name, detail={"magnitude": fault.magnitude}))
        for event in self._early:
            self._tell(event)

    def _struck(self, fault: Fault, number: int) -> None:
        """A disk fault, in the writer's thread."""
        event = FaultInjected(fault=fault.name, detail={"magnitude": fault.magnitude, "operation": number})
        if self._loop is None:
            self._early.append(event)
        else:
            self._loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: FaultInjected) -> None:
        assert self._disclose is not None
        with suppress(LedgerError):  # the fault may have broken the ledger; the plan's event is in it already
            self._disclose(event)


def _lie(fault: Fault) -> Lie:
    if fault.name == "clock_freeze":
        return Lie(after_us=fault.magnitude, freeze=True)
    return Lie(after_us=STEP_AFTER_US, step_us=fault.magnitude)


def _dawdle(seconds: float) -> None:
    """Let the writer's thread wait, as a slow disk does."""
    threading.Event().wait(seconds)
