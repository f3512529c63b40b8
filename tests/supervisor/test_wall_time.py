"""The cap on time under a clock that a test moves; with real processes it is in tests/e2e."""

from __future__ import annotations

import asyncio
import io
from typing import Any, cast

import pytest

from docket.ledger.events import CapExceeded, CapWarning, Event
from docket.policy.model import Caps
from docket.primitives.instant import Duration
from docket.sim.clock import ManualClock
from docket.supervisor.announce import Announcer
from docket.supervisor.wall_time import WallTime

S = 1_000_000


class Recorded:
    """A recorder whose disk is instant."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def submit(self, event: Event) -> None:
        self.events.append(event)

    async def append(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """A clock that every sleep of the watch moves by exactly what it asked for."""
    moved = ManualClock()

    async def sleep(seconds: float) -> None:
        moved.advance(round(seconds * S))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return moved


def watched(
    clock: ManualClock, *, used_us: int = 0, limit_us: int | None = 10 * S
) -> tuple[list[Event], list[CapExceeded]]:
    recorded, breaches = Recorded(), []
    caps = Caps(max_wall_seconds=Duration(limit_us) if limit_us is not None else None)
    time = WallTime(caps, clock, used_us=used_us)
    announcer = Announcer(quiet=True, stream=io.StringIO())
    asyncio.run(time.watch(cast(Any, recorded), announcer, breaches.append))
    return recorded.events, breaches


def test_the_warning_comes_at_its_part_of_the_cap_and_the_breach_at_the_cap(clock: ManualClock):
    events, breaches = watched(clock)
    assert events == [
        CapWarning(cap="max_wall_seconds", limit="10", observed="8"),
        CapExceeded(cap="max_wall_seconds", limit="10", observed="10"),
    ]
    assert breaches == events[1:]


def test_the_breach_is_recorded_before_it_is_acted_on(clock: ManualClock):
    order: list[str] = []

    class Slow(Recorded):
        async def append(self, event: Event) -> None:
            order.append("durable")

    time = WallTime(Caps(max_wall_seconds=Duration(S)), clock)
    announcer = Announcer(quiet=True, stream=io.StringIO())
    asyncio.run(time.watch(cast(Any, Slow()), announcer, lambda event: order.append("acted")))
    assert order == ["durable", "acted"]


@pytest.mark.parametrize("step", [-3_600 * S, 3_600 * S])
def test_no_step_of_the_wall_clock_moves_the_breach(clock: ManualClock, step: int):
    before = clock.monotonic_us()
    clock.step(step)
    watched(clock)
    assert clock.monotonic_us() - before == 10 * S


def test_what_earlier_sessions_took_counts(clock: ManualClock):
    before = clock.monotonic_us()
    events, _ = watched(clock, used_us=9 * S)
    assert clock.monotonic_us() - before == S
    assert [type(event) for event in events] == [CapWarning, CapExceeded]


def test_without_a_cap_nothing_is_watched(clock: ManualClock):
    assert watched(clock, limit_us=None) == ([], [])
