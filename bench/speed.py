"""docket's boundary beside a bare reverse proxy, in interleaved rounds of one run (``make bench``).

Compiles the load generator and the upstream (C, so that neither is the bottleneck), starts a bare aiohttp proxy and
docket's boundary with its real gate and a real ledger on this disk, and measures both in turn, round after round.
Ratios are those of the medians over the rounds. Writes a table and the raw data; exit status 1 where a call failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PATH = "/v1/chat/completions"
PACE = 50
"""Calls a second of the paced measurement."""
UPSTREAM_US = 20_000
"""What its upstream takes."""
GAP_US = 2_000
"""Between the events of a stream whose first byte is looked at."""
SLOW_SYNC_MS = 5


@dataclass(frozen=True)
class Target:
    """Something that takes calls: a port, a path, and the process whose time it costs."""

    port: int
    path: str
    pid: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, directory: Path, stack: ExitStack, seconds: float, rounds: int) -> None:
        self._directory = directory
        self._stack = stack
        self._seconds = seconds
        self._rounds = rounds
        self._ledgers = 0
        self.raw: list[dict[str, Any]] = []
        for name in ("load", "upstream"):
            command = ["cc", "-O2", "-o", str(directory / name), str(HERE / f"{name}.c")]
            subprocess.run(command, check=True)

    def _start(self, *command: str) -> tuple[list[str], int]:
        process = self._stack.enter_context(started(command))
        assert process.stdout is not None
        return process.stdout.readline().split(), process.pid

    def upstream(self, delay_us: int = 0, gap_us: int = 0) -> int:
        words, _ = self._start(str(self._directory / "upstream"), "0", str(delay_us), str(gap_us))
        return int(words[0])

    def bare(self, upstream: int) -> Target:
        words, pid = self._start(sys.executable, str(HERE / "bare.py"), str(upstream))
        return Target(int(words[0]), PATH, pid)

    def docket(self, upstream: int, *flags: str) -> Target:
        self._ledgers += 1
        ledger = str(self._directory / f"docket-{self._ledgers}")
        words, pid = self._start(sys.executable, str(HERE / "subject.py"), str(upstream), ledger, *flags)
        return Target(int(words[0]), words[1], pid)

    def measure(
        self, what: str, targets: dict[str, Target], connections: int, *, stream: bool = False, rate: int = 0
    ) -> dict[str, dict[str, float]]:
        """All targets in turn, round after round; the median of each figure for each target."""
        found: dict[str, list[dict[str, float]]] = {name: [] for name in targets}
        for number in range(self._rounds):
            for name, target in targets.items():
                figures = self._once(target, connections, stream, rate)
                self.raw.append({"what": what, "round": number, "target": name, **figures})
                found[name].append(figures)
        return {name: {key: statistics.median(f[key] for f in all_) for key in all_[0]} for name, all_ in found.items()}

    def _once(self, target: Target, connections: int, stream: bool, rate: int) -> dict[str, float]:
        before = target.cpu_seconds()
        command = [self._directory / "load", target.port, target.path, connections, self._seconds, int(stream), rate]
        output = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
        answer = json.loads(output)
        calls = max(1, answer["calls"])
        return {
            "calls_per_second": answer["calls"] / answer["seconds"],
            "failed": answer["failed"],
            "cpu_us": (target.cpu_seconds() - before) / calls * 1e6,
            "p50_us": answer["total_us"]["p50"],
            "p99_us": answer["total_us"]["p99"],
            "first_p50_us": answer["first_byte_us"]["p50"],
        }


@contextmanager
def started(command: tuple[str, ...]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=20)
        if process.stdout is not None:
            process.stdout.close()


@dataclass(frozen=True)
class Line:
    """One figure against its floor; ``more`` says that more is better."""

    what: str
    value: float
    unit: str
    floor: float
    aim: float
    more: bool = True

    def verdict(self) -> str:
        if (self.value >= self.aim) if self.more else (self.value <= self.aim):
            return "aim met"
        return "floor met" if ((self.value >= self.floor) if self.more else (self.value <= self.floor)) else "missed"

    def row(self) -> str:
        return f"| {self.what} | {self.value:.2f} {self.unit} | {self.floor:g} | {self.aim:g} | {self.verdict()} |"


def compare(bench: Bench) -> list[Line]:
    """Every figure of the table."""
    fast = bench.upstream()
    pair = {"bare": bench.bare(fast), "docket": bench.docket(fast)}
    lines = []

    def rate(what: str, connections: int, stream: bool, floor: float, aim: float) -> dict[str, dict[str, float]]:
        found = bench.measure(what, pair, connections, stream=stream)
        ratio = found["docket"]["calls_per_second"] / found["bare"]["calls_per_second"]
        lines.append(Line(f"{what}: calls/s over bare", ratio, "", floor, aim))
        return found

    rate("JSON, 1 connection", 1, False, 0.25, 0.40)
    eight = rate("JSON, 8 connections", 8, False, 0.40, 0.70)
    rate("JSON, 64 connections", 64, False, 0.70, 1.0)
    rate("streams, 8 connections", 8, True, 0.4, 0.6)
    many = rate("streams, 64 connections", 64, True, 0.5, 0.7)
    cpu = eight["docket"]["cpu_us"] / eight["bare"]["cpu_us"]
    lines.append(Line("JSON, 8 connections: CPU per call over bare", cpu, "", 2.5, 1.5, more=False))
    tail = many["docket"]["p99_us"] / many["bare"]["p99_us"]
    lines.append(Line("64 streams at once: p99 over bare", tail, "", 5, 5, more=False))
    lines += [*first_byte(bench), *paced(bench), *slow_disk(bench), *metering(bench, fast)]
    return lines


def first_byte(bench: Bench) -> list[Line]:
    upstream = bench.upstream(gap_us=GAP_US)
    pair = {"bare": bench.bare(upstream), "docket": bench.docket(upstream)}
    found = bench.measure("paced stream", pair, 8, stream=True, rate=PACE)
    later = (found["docket"]["first_p50_us"] - found["bare"]["first_p50_us"]) / 1000
    return [Line("first byte of a stream later by", later, "ms", 1.5, 0.5, more=False)]


def paced(bench: Bench) -> list[Line]:
    upstream = bench.upstream(delay_us=UPSTREAM_US)
    pair = {"bare": bench.bare(upstream), "docket": bench.docket(upstream)}
    found = bench.measure("paced", pair, 8, rate=PACE)
    added = (found["docket"]["p50_us"] - found["bare"]["p50_us"]) / 1000
    return [Line(f"{PACE} calls/s, upstream {UPSTREAM_US // 1000} ms: added median", added, "ms", 2.5, 1.5, more=False)]


def slow_disk(bench: Bench) -> list[Line]:
    upstream = bench.upstream()
    slow = {"docket": bench.docket(upstream, "--sync-ms", str(SLOW_SYNC_MS))}
    found = bench.measure("slow disk", slow, 64)
    value = found["docket"]["calls_per_second"]
    return [Line(f"every sync {SLOW_SYNC_MS} ms slower, 64 connections", value, "calls/s", 1000, 1000)]


def metering(bench: Bench, upstream: int) -> list[Line]:
    """What reading the answers costs: the same boundary with and without it."""
    pair = {"blind": bench.docket(upstream, "--blind"), "metering": bench.docket(upstream)}
    lines = []
    for name, stream in (("JSON", False), ("streams", True)):
        found = bench.measure(f"metering, {name}", pair, 8, stream=stream)
        ratio = found["metering"]["cpu_us"] / found["blind"]["cpu_us"]
        lines.append(Line(f"metering, {name}: CPU per call over blind", ratio, "", 4 / 3, 4 / 3, more=False))
    gap = bench.upstream(gap_us=GAP_US)
    paced_pair = {"blind": bench.docket(gap, "--blind"), "metering": bench.docket(gap)}
    found = bench.measure("metering, first byte", paced_pair, 8, stream=True, rate=PACE)
    later = (found["metering"]["first_p50_us"] - found["blind"]["first_p50_us"]) / 1000
    lines.append(Line("metering: first byte later by", later, "ms", 0.1, 0.1, more=False))
    return lines


def report(lines: list[Line], bench: Bench, arguments: list[str]) -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    head = [
        "# Speed of the boundary beside a bare reverse proxy",
        "",
        f"`{' '.join(arguments)}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, CPython {platform.python_version()}; "
        f"load average at the end {load} (load generator, upstream and both proxies included).",
        "",
        "Medians over interleaved rounds. Every event is synced; the bare proxy (bench/bare.py) records nothing.",
        "",
        "| figure | measured | floor | aim | |",
        "| --- | --- | --- | --- | --- |",
    ]
    failed = sum(entry["failed"] for entry in bench.raw)
    calls = [f"Failed calls: {failed:.0f}.", "", "| what | target | calls/s | CPU us | p50 us | p99 us | first us |"]
    rows = [f"| --- |{' --- |' * 6}"]
    seen: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in bench.raw:
        seen.setdefault((entry["what"], entry["target"]), []).append(entry)
    keys = ("calls_per_second", "cpu_us", "p50_us", "p99_us", "first_p50_us")
    for (what, target), entries in seen.items():
        figures = [f"{statistics.median(entry[key] for entry in entries):.0f}" for key in keys]
        rows.append(f"| {what} | {target} | {' | '.join(figures)} |")
    return "\n".join([*head, *(line.row() for line in lines), "", *calls, *rows, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=7, help="whose median counts: a busy host slows some of them")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "measurements")
    options = parser.parse_args()
    if shutil.which("cc") is None:
        sys.stderr.write("SKIP: no C compiler for the load generator\n")
        return 0
    with tempfile.TemporaryDirectory(dir=options.out) as directory, ExitStack() as stack:
        bench = Bench(Path(directory), stack, options.seconds, options.rounds)
        lines = compare(bench)
        text = report(lines, bench, ["python", "-m", "bench.speed", *sys.argv[1:]])
    stem = options.out / f"speed-{datetime.now(UTC):%Y-%m-%d}"
    stem.with_suffix(".md").write_text(text)
    raw = json.dumps(bench.raw, indent=1)
    stem.with_suffix(".json").write_text(raw + "\n")
    sys.stdout.write(text)
    return 1 if any(entry["failed"] for entry in bench.raw) else 0


if __name__ == "__main__":
    sys.exit(main())
