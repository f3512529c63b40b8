"""The Gate on the event loop: the clock, and the queue of calls that wait for others to settle.

Invariants: first come, first served among those that wait; a call that waits holds nothing; on waking the whole gate
is asked again. ``wait`` may be cancelled at any point; nothing else yields.
"""

from __future__ import annotations

import asyncio
from collections import deque

from docket.clock import Clock
from docket.control.admission import Gate, Proposal
from docket.control.breaker import Ended
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused, Settlement
from docket.ledger.events import CapExceeded, Event
from docket.primitives.instant import Instant
from docket.providers.call import Call, Observation

MAX_WAITING = 1024
"""Calls that wait at once; the next one is refused for now."""


class QueuedAdmission:
    """Admits the calls of one run."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()

    def admit(self, call: Call) -> Admitted | Refused | Wait:
        """Return a numbered reservation, why there is none, or that others have to settle first. Does not yield."""
        now = Instant(self._clock.monotonic_us())
        answer = self._gate.ask(call, now)
        if isinstance(answer, Refused):
            return answer
        if isinstance(answer, Proposal) and not self._waiting:
            return self._gate.take(answer, now)
        wait = answer if isinstance(answer, Wait) else Wait(self._gate.scarce())
        if self._gate.hold_wait.us == 0 or len(self._waiting) >= MAX_WAITING:
            return self._gate.gave_up(wait)
        return wait

    async def wait(self, call: Call, wait: Wait) -> Admitted | Refused:
        """Queue a call to which ``admit`` just said ``wait``; return a reservation in the step that numbers it, or why
        there is none.
        """
        since = Instant(self._clock.monotonic_us())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._gate.hold_wait.seconds):
                while True:
                    await turn
                    now = Instant(self._clock.monotonic_us())
                    answer = self._gate.ask(call, now)
                    if isinstance(answer, Refused):
                        return answer
                    if isinstance(answer, Proposal):
                        return self._gate.take(answer, now, waited_us=now - since)
                    wait, self._waiting[0] = answer, asyncio.get_running_loop().create_future()
                    turn = self._waiting[0]
        except TimeoutError:
            return self._gate.gave_up(wait)
        finally:
            self._waiting.remove(turn)
            self.wake()

    def settle(self, admitted: Admitted, call: Call, ended: Ended, observation: Observation | None) -> Settlement:
        """Book what became of an admitted call; whoever waits first is asked again. Does not yield."""
        settlement = self._gate.settle(admitted, call, ended, observation, Instant(self._clock.monotonic_us()))
        if self._waiting:
            self.wake()
        return settlement

    def answered(self, admitted: Admitted, ended: Ended) -> tuple[Event, ...]:
        """Settle the breaker of a call whose answer comes later; its hold stays. Does not yield."""
        return self._gate.answered(admitted, ended, Instant(self._clock.monotonic_us()))

    def release(self, admitted: Admitted) -> None:
        """Give back what was reserved for a call that was never sent. Does not yield."""
        self._gate.release(admitted, Instant(self._clock.monotonic_us()))
        self.wake()

    def breach(self, event: CapExceeded) -> None:
        """A cap that others watch was reached: every call is refused from now on, those that wait first of all."""
        self._gate.breach(event)
        self.wake()

    def wake(self) -> None:
        """Let the first in the queue ask again."""
        if self._waiting and not self._waiting[0].done():
            self._waiting[0].set_result(None)
