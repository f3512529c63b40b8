"""Steps of the wall clock: noticed above a second, in both directions, once."""

from __future__ import annotations

import pytest

from docket.control.clock_watch import ClockWatch

START = 1_796_040_000_000_000


@pytest.mark.parametrize("step_us", [1_000_001, -1_000_001, 3_600_000_000, -3_600_000_000])
def test_a_step_above_a_second_is_told_once(step_us: int) -> None:
    watch = ClockWatch(START, 0)
    assert watch.look(START + 5_000_000, 5_000_000) is None
    told = watch.look(START + 6_000_000 + step_us, 6_000_000)
    assert told is not None
    assert told.step_us == step_us
    assert watch.look(START + 7_000_000 + step_us, 7_000_000) is None


@pytest.mark.parametrize("step_us", [0, 1, 1_000_000, -1_000_000])
def test_up_to_a_second_is_no_step(step_us: int) -> None:
    assert ClockWatch(START, 0).look(START + 1_000_000 + step_us, 1_000_000) is None
