from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.clock import Clock
from docket.control.clock_watch import ClockWatch
from docket.ledger.events import ClockStep
from docket.sim.clock import Lie, LyingClock, ManualClock

S = 1_000_000
HOUR = 3_600 * S


def test_a_manual_clock_moves_when_told_and_only_its_wall_steps() -> None:
    clock = ManualClock()
    wall = clock.unix_us()
    clock.advance(5)
    clock.step(-HOUR)
    assert (clock.monotonic_us(), clock.unix_us()) == (5, wall + 5 - HOUR)
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)


def test_lies_add_up_and_a_freeze_holds_the_wall() -> None:
    truth = ManualClock()
    wall = truth.unix_us()
    lying = LyingClock(
        truth, [Lie(after_us=2 * S, step_us=-HOUR), Lie(after_us=S, step_us=HOUR), Lie(after_us=3 * S, freeze=True)]
    )
    seen = []
    for _ in range(5):
        seen.append(lying.unix_us() - wall)
        truth.advance(S)
    assert seen == [0, S + HOUR, 2 * S, 3 * S, 3 * S]
    assert lying.monotonic_us() == 5 * S


def look(watch: ClockWatch, clock: Clock) -> ClockStep | None:
    return watch.look(clock.unix_us(), clock.monotonic_us())


def test_a_step_is_told_once_with_its_size_and_sign() -> None:
    clock = ManualClock()
    watch = ClockWatch(clock.unix_us(), clock.monotonic_us())
    told = []
    for step in (0, -HOUR, 0, HOUR, S, S + 1):
        clock.advance(S)
        clock.step(step)
        told.append(look(watch, clock))
    assert told == [None, ClockStep(step_us=-HOUR), None, ClockStep(step_us=HOUR), None, ClockStep(step_us=S + 1)]


@given(st.lists(st.integers(-500, 500), max_size=50))
def test_slewing_is_never_a_step(parts_per_million: list[int]) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock.unix_us(), clock.monotonic_us())
    for ppm in parts_per_million:
        clock.advance(S)
        clock.step(ppm)
        assert look(watch, clock) is None
