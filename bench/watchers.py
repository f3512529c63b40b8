"""What watching costs the agent: calls per second with ten watchers over calls per second without, in one run.

``python -m bench.watchers --out docs/measurements``. Rounds alternate. The watchers are ten event streams of one
``docket watch --serve`` and read all that comes; they run on the same cores as docket, agent and provider.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measured import about, doubts, traffic
from docket.chaos.lab import Lab

READER = """
import asyncio, sys, aiohttp
async def read(session, address):
    async with session.get(address) as answer:
        async for _ in answer.content.iter_any(): pass
async def main(base, token, watchers):
    headers = {"Authorization": "Bearer " + token}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as session:
        await asyncio.gather(*(read(session, base + "/docket/events") for _ in range(int(watchers))))
asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def watched(room: Path, watchers: int) -> Iterator[None]:
    """Follow the next run below ``room`` with so many streams of one server, from the moment that it begins."""
    if not watchers:
        yield
        return
    before, stop, processes = set(room.glob("*-run/latest")), threading.Event(), []

    def begin() -> None:
        while not (new := set(room.glob("*-run/latest")) - before):
            if stop.wait(0.02):
                return
        command = [sys.executable, "-m", "docket", "watch", "--serve", "--docket-dir", str(new.pop().parent)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address, _, token = server.stdout.readline().strip().partition("/?token=")
        processes.append(server)
        processes.append(subprocess.Popen([sys.executable, "-c", READER, address, token, str(watchers)]))

    thread = threading.Thread(target=begin)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for process in reversed(processes):
            process.terminate()
            process.wait()


def page(rows: list[dict[str, Any]]) -> str:
    """The report for people."""
    rates = {
        watchers: [row["calls_per_second"] for row in rows if row["watchers"] == watchers]
        for watchers in sorted({row["watchers"] for row in rows})
    }
    without, with_them = rates.values()
    ratios = [b / a for a, b in zip(without, with_them, strict=True)]
    lines = [f"# What watching costs, {rows[0]['began'][:10]}", "", f"`{rows[0]['command']}`, {rows[0]['host']}", ""]
    lines += ["| watchers | calls/s, median | min | max |", "| --- | --- | --- | --- |"]
    for watchers, found in rates.items():
        lines.append(f"| {watchers} | {statistics.median(found):.0f} | {min(found):.0f} | {max(found):.0f} |")
    lines += ["", f"Round by round, with over without: {statistics.median(ratios):.3f} in the median,"]
    lines[-1] += f" {min(ratios):.3f} to {max(ratios):.3f} over {len(ratios)} rounds."
    doubted = sum(bool(row["doubts"]) for row in rows)
    lines += ["", f"Runs with a doubt about their figures: {doubted}.", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8, help="of each round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate", type=float, help="calls per second asked for; as many as there can be unless given")
    parser.add_argument("--watchers", type=int, default=10)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="docket-watchers-") as room, Lab(Path(room)) as lab:
        for _ in range(given.rounds):
            for watchers in (0, given.watchers):
                with watched(Path(room), watchers):
                    run, _, calls, _ = traffic(
                        lab, seconds=given.seconds, workers=given.workers, rate=given.rate, faults=None, every=0.5
                    )
                pace = "" if given.rate is None else f" --rate {given.rate:g}"
                command = f"python -m bench.watchers --seconds {given.seconds:g} --workers {given.workers}{pace}"
                rows.append(
                    about(run, command)
                    | {"watchers": watchers, "calls_per_second": len(calls) / given.seconds, "doubts": doubts(run)}
                )
    print(page(rows))
    if given.out is not None:
        stem = f"watchers-{rows[0]['began'][:10]}"
        (given.out / f"{stem}.json").write_text(json.dumps(rows, indent=1) + "\n")
        (given.out / f"{stem}.md").write_text(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
