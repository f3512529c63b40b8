"""Percentiles by nearest rank, over samples cut to three digits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docket.receipt.latency import Histogram, cut


def _of(samples: list[int]) -> dict[str, object]:
    latency = Histogram()
    for sample in samples:
        latency.add(sample)
    return dict(latency.to_json())


def test_without_a_sample_there_is_only_the_count() -> None:
    assert _of([]) == {"count": 0}


def test_one_sample_is_every_percentile() -> None:
    assert _of([7]) == {"count": 1, "p50": 7, "p95": 7, "p99": 7, "max": 7}


def test_a_hundred_samples_have_their_ranks() -> None:
    assert _of(list(range(100, 0, -1))) == {"count": 100, "p50": 50, "p95": 95, "p99": 99, "max": 100}


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_any_samples_give_the_elements_at_the_nearest_ranks(samples: list[int]) -> None:
    ascending = sorted(map(cut, samples))
    found = _of(samples)
    for percent in (50, 95, 99):
        assert found[f"p{percent}"] == ascending[-(-percent * len(ascending) // 100) - 1]
    assert (found["count"], found["max"]) == (len(samples), ascending[-1])


@given(st.integers(0, 10**12))
def test_a_cut_sample_is_never_larger_and_loses_less_than_a_hundredth(sample: int) -> None:
    assert 0 <= sample - cut(sample) <= sample // 100
    assert len(str(cut(sample)).rstrip("0")) <= 3
