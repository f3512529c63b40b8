"""What a shared budget costs: calls per second and medians without one, with SQLite and with PostgreSQL, in one run.

``PYTHONPATH=tests python -m bench.shared_budget --out docs/measurements``. Rounds alternate; the budget limits calls
and is never reached, so that every lease is renewed as the rate asks for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measured import about, doubts, traffic
from docket.chaos.lab import Lab
from docket.fleet.database import connect
from docket.fleet.model import Limits
from docket.fleet.periods import Period
from docket.fleet.store import Store
from kit import postgres

WORKERS = (1, 8, 64)


def made(url: str) -> str:
    """A store with the budget ``team`` at ``url``; the policy that uses it."""
    store = Store(connect(url, create=True))
    store.init()
    store.create("team", Limits(calls=10**9), Period.parse("day"))
    store.close()
    return f'[fleet]\nbudgets = ["team"]\nstore = "{url}"\n'


@contextmanager
def policies(room: Path) -> Iterator[dict[str, str]]:
    """By name of the store: what stands in the policy."""
    with postgres.server(room / "pg") as server:
        yield {
            "none": "",
            "sqlite": made(f"sqlite://{room}/fleet.sqlite"),
            "postgresql": made(server.database("fleet")),
        }


def page(rows: list[dict[str, Any]]) -> str:
    """The report for people."""
    first = rows[0]
    lines = [f"# What a shared budget costs, {first['began'][:10]}", "", f"`{first['command']}`, {first['host']}", ""]
    lines.append("| connections | store | calls/s, median | over none, median of rounds | p50, ms |")
    lines.append("| --: | --- | --: | --: | --: |")
    for workers in WORKERS:
        mine = [row for row in rows if row["workers"] == workers]
        without = [row["calls_per_second"] for row in mine if row["store"] == "none"]
        for store in ("none", "sqlite", "postgresql"):
            found = [row for row in mine if row["store"] == store]
            rates = [row["calls_per_second"] for row in found]
            ratio = statistics.median(rate / base for rate, base in zip(rates, without, strict=True))
            p50 = statistics.median(row["p50_ms"] for row in found)
            lines.append(f"| {workers} | {store} | {statistics.median(rates):.0f} | {ratio:.3f} | {p50:.2f} |")
    doubted = sum(bool(row["doubts"]) for row in rows)
    return "\n".join([*lines, "", f"Runs with a doubt about their figures: {doubted}.", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="docket-shared-", ignore_cleanup_errors=True) as room:
        Path(room).chmod(0o755)
        with policies(Path(room)) as known, Lab(Path(room) / "lab") as lab:
            for _ in range(given.rounds):
                for workers in WORKERS:
                    for store, policy in known.items():
                        asked: dict[str, Any] = {"seconds": given.seconds, "workers": workers, "policy": policy}
                        run, _, calls, _ = traffic(lab, rate=None, faults=None, every=0.5, **asked)
                        rows.append(
                            about(run, f"python -m bench.shared_budget --seconds {given.seconds:g}")
                            | {
                                "store": store,
                                "workers": workers,
                                "calls_per_second": len(calls) / given.seconds,
                                "p50_ms": statistics.median(took for _, took in calls),
                                "doubts": doubts(run),
                            }
                        )
    print(page(rows))
    if given.out is not None:
        stem = f"shared-budget-{rows[0]['began'][:10]}"
        (given.out / f"{stem}.json").write_text(json.dumps(rows, indent=1) + "\n")
        (given.out / f"{stem}.md").write_text(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
