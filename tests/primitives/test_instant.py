"""The spelling of the wall clock, and whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.primitives.instant import Duration, timestamp, whole_seconds


@given(st.integers(0, 4_102_444_800_000_000))
def test_timestamp_is_rfc_3339_in_utc_with_six_digits(unix_us: int) -> None:
    text = timestamp(unix_us)
    assert len(text) == len("2026-11-30T12:00:00.000000Z")
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=unix_us)


@pytest.mark.parametrize(("wait_us", "seconds"), [(0, 1), (1, 1), (1_000_000, 1), (1_000_001, 2), (59_999_999, 60)])
def test_waits_are_rounded_up_to_whole_seconds(wait_us: int, seconds: int) -> None:
    assert whole_seconds(wait_us) == seconds


def test_a_duration_gives_seconds_for_interfaces_that_want_them() -> None:
    assert Duration(1_500_000).seconds == 1.5
