"""One supervised run under traffic, watched from outside: memory, descriptors, threads, tasks; and its audit."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import sys
import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from docket.chaos.audit import audit
from docket.chaos.evidence import disagreements
from docket.chaos.lab import Lab, Run

Call = tuple[float, float]
"""Begin in seconds of the run, and time in milliseconds."""


POLICY = '[resilience]\nmax_ledger_bytes = "4 GiB"\n'
"""An hour at 60 calls a second writes more than a ledger's usual ceiling."""


@dataclass(frozen=True)
class Sample:
    """The supervisor at one moment."""

    seconds: float
    rss_kib: int
    descriptors: int
    threads: int
    tasks: int
    calls: int


def traffic(
    lab: Lab, *, seconds: float, workers: int, rate: float | None, faults: str | None, every: float, policy: str = ""
) -> tuple[Run, list[Sample], list[Call], list[Call]]:
    """Run traffic below docket, and look at docket every so many seconds; ``policy`` adds tables to the usual one.

    Gives the run, the looks, the answered calls, and the calls that went past docket meanwhile.
    """
    out = lab.room("traffic") / "calls.json"
    port = 20_000 + os.getpid() % 20_000
    argv = [sys.executable, "-m", "bench.traffic", "--seconds", str(seconds), "--workers", str(workers)]
    argv += ["--out", str(out)] + ([] if rate is None else ["--rate", str(rate)])
    flags = ["--health-listen", f"127.0.0.1:{port}"]
    provider = lab.provider()
    argv += ["--direct", f"{provider.url}/v1/chat/completions"]
    run = lab.run(provider, policy=POLICY + policy, faults=faults, seed=1, argv=argv, flags=flags, cwd=Path.cwd())
    run.until_event("model.response")
    samples: list[Sample] = []
    began_us = run.clock.monotonic_us()
    while run.process.poll() is None:
        seconds_in = (run.clock.monotonic_us() - began_us) / 1e6
        try:
            samples.append(_look(run.process.pid, port, seconds_in))
        except OSError:
            break
        threading.Event().wait(every)
    run.wait()
    if not out.exists():
        sys.exit(f"the traffic broke off: docket ended with {run.status}: {run.said()[-300:]}")
    seen = json.loads(out.read_text())
    return run, samples, [tuple(call) for call in seen["calls"]], [tuple(call) for call in seen["beside"]]


def _look(pid: int, port: int, seconds: float) -> Sample:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/docket/metrics", timeout=10) as answer:
        families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
    return Sample(
        seconds=round(seconds, 2),
        rss_kib=int(status["VmRSS"].split()[0]),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        threads=int(status["Threads"]),
        tasks=int(families["docket_tasks"].samples[0].value),
        calls=int(sum(sample.value for sample in families["docket_calls"].samples)),
    )


def doubts(run: Run) -> list[str]:
    """Why this run's figures may not be used: docket failed, or client, ledger, receipt and metrics disagree."""
    found = [] if run.status == 0 else [f"docket ended with {run.status}: {run.said()[-300:]}"]
    count = run.count()
    if count is None:
        found.append("the client left no count")
    else:
        found += [f"{one.what}: client {one.agent}, ledger {one.ledger}" for one in audit(run.evidence, count)
                  if not one.agrees]  # fmt: skip
    found += disagreements(run.evidence)
    if run.evidence.member("totals.calls") != len(run.evidence.of("model.request")):
        found.append("receipt and ledger count other calls")
    if run.evidence.verdict != "verified":
        found.append(f"docket verify: {run.evidence.verdict}")
    return found


def about(run: Run, command: str) -> dict[str, Any]:
    """Host, command and receipt digest: what a reader needs to place a figure."""
    receipt = (run.evidence.directory / "receipt.json").read_bytes()
    system = platform.uname()
    return {
        "command": command,
        "host": f"{system.system} {system.release} {system.machine}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}",
        "receipt_sha256": hashlib.sha256(receipt).hexdigest(),
        "began": run.evidence.events[0]["ts"],
    }


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """Nearest-rank percentiles, in the unit of ``times``."""
    ordered = sorted(times)
    return {f"p{p}": ordered[-(-p * len(ordered) // 100) - 1] for p in (50, 95, 99)} if ordered else {}


def trend(samples: Sequence[Sample]) -> dict[str, float]:
    """Growth of memory in MiB per 10,000 calls, by least squares over the second half of ``samples``."""
    later = samples[len(samples) // 2 :]
    if len(later) < 3 or later[0].calls == later[-1].calls:
        return {}
    slope = statistics.linear_regression([s.calls for s in later], [s.rss_kib for s in later]).slope
    return {"mib_per_10000_calls": round(slope * 10_000 / 1024, 3)}


def rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    return [asdict(sample) for sample in samples]
