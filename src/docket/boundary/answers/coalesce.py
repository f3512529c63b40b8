"""Repeats of one refusal, summed.

Invariant: the first of a kind is durable before it is answered; repeats within ``WINDOW_SECONDS`` are answered at once
and recorded with their count at most that long after; none is lost when the boundary closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence

from docket.ledger.events import Event

WINDOW_SECONDS = 1.0
"""The newest real agents try up to six variants of a refused call within 0.1 s."""
MAX_KINDS = 1024
"""Kinds summed at once; an agent that invents model names gets each of them recorded on its own beyond it."""

Make = Callable[[int], Sequence[Event]]
"""Makes the events for so many repeats."""


class Coalescer:
    """Sums repeats. ``submit`` records an event now and returns its durability."""

    def __init__(self, submit: Callable[[Event], asyncio.Future[object]]) -> None:
        self._submit = submit
        self._counts: dict[Hashable, tuple[int, Make]] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    async def note(self, kind: Hashable, make: Make, *beside: Event) -> None:
        """Count one of ``kind``; waits for the record of a first one, with which ``beside`` is recorded."""
        await asyncio.gather(*self._count(kind, make, *beside))

    def note_later(self, kind: Hashable, make: Make) -> None:
        """Count one of ``kind``, whose record nobody waits for. Does not yield."""
        for durable in self._count(kind, make):
            durable.add_done_callback(_retrieve)

    def _count(self, kind: Hashable, make: Make, *beside: Event) -> list[asyncio.Future[object]]:
        if kind in self._counts:
            self._counts[kind] = (self._counts[kind][0] + 1, make)
            return []
        if len(self._counts) < MAX_KINDS:
            self._counts[kind] = (0, make)
            loop = asyncio.get_running_loop()
            self._timers[kind] = loop.call_later(WINDOW_SECONDS, self._flush, kind)
        return [self._submit(event) for event in (*make(1), *beside)]

    def _flush(self, kind: Hashable) -> None:
        count, make = self._counts.pop(kind)
        self._timers.pop(kind).cancel()
        if count:
            for event in make(count):
                self._submit(event).add_done_callback(_retrieve)

    async def close(self) -> None:
        """Record what is still being summed, durably."""
        pending = [event for count, make in self._counts.values() if count for event in make(count)]
        for timer in self._timers.values():
            timer.cancel()
        self._counts.clear()
        self._timers.clear()
        await asyncio.gather(*(self._submit(event) for event in pending))


def _retrieve(done: asyncio.Future[object]) -> None:
    """A failed write is the writer's to report: whoever waits next is told."""
    if not done.cancelled():
        done.exception()
