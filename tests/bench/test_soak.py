"""The soak finds growth, and refuses figures that client, ledger and receipt do not agree on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.measured import Sample, doubts, percentiles, trend
from bench.soak import MAX_GROWTH, soak

from docket.chaos.lab import Lab


def samples(kib_per_call: float) -> list[Sample]:
    return [
        Sample(
            seconds=n, rss_kib=60_000 + round(kib_per_call * 60 * n), descriptors=20, threads=3, tasks=6, calls=60 * n
        )
        for n in range(100)
    ]


def test_growth_is_told_per_ten_thousand_calls() -> None:
    assert abs(trend(samples(0.1))["mib_per_10000_calls"] - 0.977) < 0.01
    assert trend(samples(0.3))["mib_per_10000_calls"] > MAX_GROWTH
    assert trend(samples(0.0)) == {"mib_per_10000_calls": 0.0}
    assert trend([]) == {}, "nothing measured is not flat"


def test_percentiles_are_nearest_rank() -> None:
    assert percentiles([3.0, 1.0, 2.0]) == {"p50": 2.0, "p95": 3.0, "p99": 3.0}
    assert percentiles([]) == {}


def test_a_run_whose_client_counted_otherwise_is_not_usable(tmp_path: Path) -> None:
    with Lab(tmp_path) as lab:
        run = lab.run(lab.provider(), agent={"CALLS": "3"}).wait()
        assert doubts(run) == []
        count = run.directory / "count.json"
        seen = json.loads(count.read_text())
        count.write_text(json.dumps(seen | {"ok": 4}, separators=(",", ":"), sort_keys=True))  # noqa: TID251 - an agent's
        assert doubts(run) == ["ok: client 4, ledger 3"]
        count.unlink()
        assert doubts(run) == ["the client left no count"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_minutes_of_steady_traffic_with_faults_grow_nothing(tmp_path: Path) -> None:
    with Lab(tmp_path) as lab:
        report = soak(lab, 600, 60)
    assert report["doubts"] == []
    assert report["not_flat"] == [], report
