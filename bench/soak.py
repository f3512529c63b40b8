"""A soak: steady traffic with 1 % faults for minutes or an hour; memory, descriptors, threads, tasks and latency flat.

``python -m bench.soak --seconds 600 --out docs/measurements``. Exit status 1 where a figure is not flat or the run is
not usable.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measured import Call, about, doubts, percentiles, rows, traffic, trend
from docket.chaos.lab import Lab

FAULTS = "status=500@0.004,drop@0.003,limit_data=40@0.003"
"""One call in a hundred."""
MAX_GROWTH = 2.0
"""MiB per 10,000 calls."""
NOISE = 1.5
"""The last tenth's quick calls over the first's. Quick is the tenth percentile: the median is that of the machine's
other work, and differs by a factor of ten between a quiet and a busy minute."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=60)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="docket-soak-") as room, Lab(Path(room)) as lab:
        report = soak(lab, given.seconds, given.rate)
    print(page(report))
    if given.out is not None:
        stem = f"soak-{report['began'][:10]}-{round(given.seconds)}s"
        (given.out / f"{stem}.json").write_text(json.dumps(report, indent=1) + "\n")
        (given.out / f"{stem}.md").write_text(page(report))
    return 0 if report["usable"] and not report["not_flat"] else 1


def soak(lab: Lab, seconds: float, rate: float) -> dict[str, Any]:
    """Play it, and say what was found."""
    every = max(0.5, seconds / 600)
    run, samples, calls, beside = traffic(lab, seconds=seconds, workers=16, rate=rate, faults=FAULTS, every=every)
    first, last = (quick(calls, seconds, tenth) for tenth in (0, 9))
    settled = samples[len(samples) // 10 :]
    flat = {
        "descriptors": max(s.descriptors for s in settled) - min(s.descriptors for s in settled) <= 40,
        "threads": len({s.threads for s in settled}) == 1,
        "tasks": max(s.tasks for s in settled) <= 100,
        "latency": last <= NOISE * first,
        "memory": trend(samples).get("mib_per_10000_calls", MAX_GROWTH + 1) < MAX_GROWTH,
    }
    why = doubts(run)
    return {
        **about(run, f"python -m bench.soak --seconds {seconds:g} --rate {rate:g}"),
        "usable": not why,
        "doubts": why,
        "not_flat": [name for name, holds in flat.items() if not holds],
        "calls": run.count(),
        "faults": FAULTS,
        "latency_ms": percentiles([ms for _, ms in calls]),
        "beside_docket_ms": percentiles([ms for _, ms in beside]),
        "quick_ms": {"first_tenth": first, "last_tenth": last},
        **trend(samples),
        "samples": rows(samples),
    }


def quick(calls: Sequence[Call], seconds: float, tenth: int) -> float:
    """Tenth percentile in ms of the calls that began in one tenth of the run."""
    start, end = seconds * tenth / 10, seconds * (tenth + 1) / 10
    times = sorted(ms for at, ms in calls if start <= at < end)
    return times[len(times) // 10]


def page(report: dict[str, Any]) -> str:
    """The report for people."""
    samples = report["samples"]
    lines = [f"# Soak, {report['began'][:10]}", "", f"`{report['command']}`, {report['host']}", ""]
    lines += [f"Usable: {report['usable']} {report['doubts'] or ''}", f"Not flat: {report['not_flat'] or 'nothing'}"]
    lines += [f"Calls as the client counted them: {report['calls']}; faults `{report['faults']}`", ""]
    lines += ["| | first | last | most |", "| --- | --- | --- | --- |"]
    for name in ("rss_kib", "descriptors", "threads", "tasks"):
        values = [sample[name] for sample in samples]
        lines.append(f"| {name} | {values[0]} | {values[-1]} | {max(values)} |")
    lines += ["", f"Memory: {report.get('mib_per_10000_calls')} MiB per 10,000 calls in the second half."]
    lines += [f"Latency in ms: {report['latency_ms']}; past docket meanwhile: {report['beside_docket_ms']}"]
    lines += [f"Quick calls (tenth percentile) in ms: {report['quick_ms']}"]
    lines += [f"Receipt SHA-256: {report['receipt_sha256']}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
