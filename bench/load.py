"""The load point: more and more workers, each as fast as it can, until the rate no longer grows.

``python -m bench.load --out docs/measurements``. The scripted provider is Python too and shares the machine: the
figures say what a whole run on this machine carries, not what docket alone could; that is compared elsewhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.measured import about, doubts, percentiles, traffic
from docket.chaos.lab import Lab

WORKERS = (1, 2, 4, 8, 16, 32, 64)
KNEE = 1.1
"""A step that brings less than a tenth more calls per second is past the load point."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of each step")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    steps: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="docket-load-") as room, Lab(Path(room)) as lab:
        for workers in WORKERS:
            run, _, calls, _ = traffic(lab, seconds=given.seconds, workers=workers, rate=None, faults=None, every=0.5)
            why = doubts(run)
            rate = len(calls) / given.seconds
            command = f"python -m bench.load --seconds {given.seconds:g}"
            times = percentiles([ms for _, ms in calls])
            steps.append(about(run, command) | {"workers": workers, "calls_per_second": round(rate, 1), **times,
                                                "usable": not why, "doubts": why})  # fmt: skip
    print(page(steps))
    if given.out is not None:
        stem = f"load-{steps[0]['began'][:10]}"
        (given.out / f"{stem}.json").write_text(json.dumps(steps, indent=1) + "\n")
        (given.out / f"{stem}.md").write_text(page(steps))
    return 0 if all(step["usable"] for step in steps) else 1


def load_point(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The last step that was worth it."""
    point = steps[0]
    for step in steps[1:]:
        if step["calls_per_second"] < KNEE * point["calls_per_second"]:
            break
        point = step
    return point


def page(steps: list[dict[str, Any]]) -> str:
    """The report for people."""
    lines = [f"# Load, {steps[0]['began'][:10]}", "", f"`{steps[0]['command']}`, {steps[0]['host']}", ""]
    lines += ["| workers | calls/s | p50 ms | p95 ms | p99 ms | usable |", "| --- | --- | --- | --- | --- | --- |"]
    for step in steps:
        cells = (step["workers"], step["calls_per_second"], step["p50"], step["p95"], step["p99"], step["usable"])
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    point = load_point(steps)
    lines += ["", f"Load point: {point['workers']} workers, {point['calls_per_second']} calls/s.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
