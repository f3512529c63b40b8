"""Whether and when a failed call is tried again."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.control.breaker import Ended
from docket.control.endurance import Attempts, passing
from docket.ledger.events import EndReason
from docket.policy.endurance import Endurance
from docket.primitives.instant import Duration

SECOND = 1_000_000


def policy(attempts: int = 1, base: float = 1, most: float = 60, outage: float | None = None) -> Endurance:
    return Endurance(
        attempts=attempts,
        base_seconds=Duration(int(base * SECOND)),
        max_seconds=Duration(int(most * SECOND)),
        outage_seconds=None if outage is None else Duration(int(outage * SECOND)),
    )


@pytest.mark.parametrize("reason", get_args(EndReason))
@pytest.mark.parametrize("status", [None, 200, 400, 401, 404, 408, 409, 429, 500, 502, 503, 504, 529])
def test_only_what_was_never_reached_or_refused_the_work_is_tried_again(reason: EndReason, status: int | None):
    may = reason == "connect" or (reason == "status" and status in (429, 500, 502, 503, 529))
    assert passing(Ended(reason, status)) is may


@given(
    st.integers(1, 20),
    st.floats(0.01, 10),
    st.floats(0.01, 100),
    st.lists(st.tuples(st.integers(0, 100 * SECOND), st.none() | st.integers(0, 200 * SECOND), st.floats(0, 0.999))),
)
def test_no_wait_is_longer_than_allowed_and_no_attempt_beyond_the_last(
    attempts: int, base: float, most: float, failures: list[tuple[int, int | None, float]]
):
    made, now, waits = Attempts(policy(attempts, base, most)), 0, 0
    for after, asked, chance in failures:
        now += after
        wait = made.wait_us(now, asked, chance)
        if wait is None:
            assert made.made >= attempts or (asked or 0) > int(most * SECOND)
            break
        waits += 1
        assert (asked or 0) <= wait <= max(int(most * SECOND), asked or 0)
        assert wait <= int(most * SECOND)
    assert waits <= attempts - 1


@given(st.floats(1, 5000), st.lists(st.tuples(st.integers(0, 90 * SECOND), st.floats(0, 0.999)), min_size=1))
def test_in_an_outage_calls_go_on_for_its_length_and_never_beyond(outage: float, failures: list[tuple[int, float]]):
    made, now = Attempts(policy(outage=outage)), 7
    for number, (after, chance) in enumerate(failures):
        now += after if number else 0
        wait = made.wait_us(now, None, chance)
        first = made.first_failed_us
        assert first == 7
        if wait is None:
            assert now + 60 * SECOND > first + int(outage * SECOND)
            return
        assert now + wait <= first + int(outage * SECOND)
        now += wait


def test_waits_double_to_their_bound_and_chance_takes_half_of_each_at_most():
    made = Attempts(policy(attempts=100, most=8))
    assert [made.wait_us(0, None, 0) for _ in range(5)] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 8 * SECOND]
    made = Attempts(policy(attempts=100, most=8))
    assert made.wait_us(0, None, 0.999999) == pytest.approx(SECOND / 2, rel=0.01)


def test_a_provider_that_asks_for_more_than_is_allowed_is_left_alone_unless_an_outage_is_ridden_out():
    assert Attempts(policy(attempts=3, most=60)).wait_us(0, 61 * SECOND, 0) is None
    assert Attempts(policy(outage=3600)).wait_us(0, 600 * SECOND, 0) == 600 * SECOND


def test_off_is_off():
    assert not Endurance().on
    assert Attempts(Endurance()).wait_us(0, None, 0) is None
    assert policy(attempts=2).on
    assert policy(outage=5).on
