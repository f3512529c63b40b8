"""The self test: a list of probes over a few real runs in a scratch directory. Owns their order and their verdicts.

A *scenario* is one supervised run, made at most once; several probes read its evidence. Scenarios are started together,
a few at a time, so that their waits overlap. Invariant: a probe passes only on a check that it states; one that could
not be tried says why and is a SKIP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from docket.chaos.lab import Lab, Provider, Run
from docket.chaos.report import PhaseReport
from docket.clock import Clock, SystemClock
from docket.errors import DocketError
from docket.primitives.canonical import Json, JsonObject

PARALLEL = 3
"""Scenarios at once: their agents mostly wait, and two cores are common."""

Scenario = Callable[["Bench"], Run]


@dataclass(frozen=True, slots=True)
class Probe:
    """One line of the self test. ``needs`` is the scenario whose run it reads, if any."""

    id: str
    title: str
    look: Callable[[Bench, PhaseReport], None]
    needs: Scenario | None = None


class Skip(Exception):
    """Raised by a probe that cannot be tried here; its text says why."""


class Bench:
    """The scratch directory, its lab, and the runs made so far."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root = root
        self.lab = Lab(root)
        self.clock = clock or SystemClock()
        self._runs: dict[Scenario, Future[Run]] = {}

    def begin(self, pool: ThreadPoolExecutor, scenarios: Sequence[Scenario]) -> None:
        """Start the scenarios; each is made once."""
        for scenario in scenarios:
            if scenario not in self._runs:
                self._runs[scenario] = pool.submit(scenario, self)

    def of(self, scenario: Scenario) -> Run:
        """The ended run of a scenario. Raises DocketError where it could not be made."""
        return self._runs[scenario].result()

    def provider(self, *steps: JsonObject) -> Provider:
        return self.lab.provider(*steps)


@dataclass(slots=True)
class SelfTest:
    """All results, in order."""

    results: list[PhaseReport] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(result.verdict == "FAIL" for result in self.results)

    def to_json(self) -> JsonObject:
        """For scripts: ``{passed, probes: [{id, verdict, detail, duration_ms}]}``."""
        probes: list[Json] = [
            {
                "id": result.id,
                "title": result.title,
                "verdict": result.verdict,
                "detail": detail(result),
                "duration_ms": round(result.seconds * 1000),
            }
            for result in self.results
        ]
        return {"format": "docket-selftest/1", "passed": not self.failed, "probes": probes}


def run(probes: Sequence[Probe], root: Path, clock: Clock | None = None) -> Iterator[PhaseReport]:
    """Try ``probes`` in ``root``, which exists and is empty; yields each result once it is known."""
    clock = clock or SystemClock()
    bench = Bench(root, clock)
    with bench.lab, ThreadPoolExecutor(PARALLEL) as pool:
        bench.begin(pool, [probe.needs for probe in probes if probe.needs is not None])
        for probe in probes:
            yield _look(probe, bench)


def _look(probe: Probe, bench: Bench) -> PhaseReport:
    report = PhaseReport(id=probe.id, title=probe.title, expectation=probe.title)
    began = bench.clock.monotonic_us()
    try:
        probe.look(bench, report)
    except Skip as skip:
        report.skipped = str(skip)
    except (DocketError, OSError, LookupError, ValueError, TypeError) as error:
        report.check("evidence", "disk", expected="readable", observed=f"{type(error).__name__}: {error}", ok=False)
    report.seconds = (bench.clock.monotonic_us() - began) / 1e6
    return report


def detail(result: PhaseReport) -> str:
    """One line on a result: the reason of a skip, what did not hold, or how much held."""
    if result.skipped is not None:
        return result.skipped
    wrong = [check for check in result.checks if not check.ok]
    if wrong:
        first = wrong[0]
        return f"{first.what}: expected {first.expected}, observed {first.observed} ({first.where})"
    if not result.checks:
        return "nothing was checked"
    return f"{len(result.checks)} checks hold" if len(result.checks) > 1 else result.checks[0].what
