"""Periods of budgets: by the calendar of their zone, and rolling ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import UsageError
from docket.fleet.periods import HOUR, SECOND, Period

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Africa/Cairo")
periods = st.builds(
    Period.parse,
    st.sampled_from(["day", "week", "month", "total", "rolling:1h", "rolling:24h"]),
    st.sampled_from(ZONES),
)
moments = st.integers(1_700_000_000, 1_900_000_000).map(lambda second: second * SECOND)


def us(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * SECOND


@given(periods, moments)
def test_every_moment_lies_in_its_slot_and_that_counts_until_it_ends(period: Period, now: int):
    slot, ends = period.slot(now), period.ends(now)
    assert slot <= now
    assert slot >= period.since(now)
    if ends is not None:
        assert ends > now
        assert period.slot(ends - 1) >= period.slot(now)
        assert period.since(ends - SECOND) <= slot
        assert period.since(ends) > slot


@given(periods, moments, moments)
def test_later_never_lies_in_an_earlier_slot(period: Period, one: int, other: int):
    first, second = sorted((one, other))
    assert period.slot(first) <= period.slot(second)


@given(st.integers(1, 48), moments, st.integers(0, 48 * HOUR))
def test_what_was_spent_within_a_rolling_period_counts(hours: int, now: int, ago: int):
    period = Period.parse(f"rolling:{hours}h")
    if ago <= hours * HOUR:
        assert period.slot(now - ago) >= period.since(now)


def test_days_weeks_and_months_begin_where_the_zone_says():
    berlin = Period.parse("day", "Europe/Berlin")
    now = us("2026-12-01T00:30", "Europe/Berlin")
    assert berlin.slot(now) == us("2026-12-01T00:00", "Europe/Berlin") == us("2026-11-30T23:00")
    assert Period.parse("week", "Europe/Berlin").slot(now) == us("2026-11-30T00:00", "Europe/Berlin")
    assert Period.parse("month").slot(now) == us("2026-11-01T00:00")
    assert Period.parse("month", "Europe/Berlin").ends(now) == us("2027-01-01T00:00", "Europe/Berlin")


def test_a_day_with_a_change_of_the_clock_is_one_day():
    period = Period.parse("day", "Europe/Berlin")
    start = us("2026-03-29T00:00", "Europe/Berlin")
    assert period.ends(start) == us("2026-03-30T00:00", "Europe/Berlin") == start + 23 * HOUR
    assert datetime.fromtimestamp(start // SECOND, UTC) + timedelta(hours=23) == datetime(2026, 3, 29, 22, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "year", "rolling:", "rolling:0h", "rolling:9000h", "rolling:24", "Day"])
def test_what_is_no_period_is_refused(text: str):
    with pytest.raises(UsageError, match="is no period"):
        Period.parse(text)


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd", "/etc/localtime"])
def test_what_is_no_zone_is_refused(zone: str):
    with pytest.raises(UsageError, match="no time zone"):
        Period.parse("day", zone)
