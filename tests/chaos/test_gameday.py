"""The game day: a sample of its phases on every run of the tests, all of them twice under load in ``make long``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docket.chaos.gameday import PHASES, Phase, chosen, play
from docket.chaos.lab import Lab
from docket.chaos.report import PhaseReport
from docket.errors import ProcessError, UsageError

ISSUE = (
    "baseline, upstream-failure, upstream-latency, circuit-breaker, rate-limit, retry-storm, partition, disk-full, "
    "real-volume, volume-gone, sync-failure, ledger-pressure, clock, supervisor-killed, guardian-killed, cache, "
    "rollback"
)
BURN = "while True: pass"


def found(report: PhaseReport) -> str:
    lines = [f"{c.what} ({c.where}): expected {c.expected}, observed {c.observed}" for c in report.checks if not c.ok]
    return "\n".join(lines)


def test_the_phases_are_those_that_operators_were_promised() -> None:
    assert [phase.id for phase in PHASES] == ISSUE.split(", ")
    assert all(len(phase.expectation) > 10 for phase in PHASES)
    assert [phase.id for phase in chosen(["clock", "baseline"])] == ["baseline", "clock"]
    with pytest.raises(UsageError, match="no phase 'nope'"):
        chosen(["nope"])


@pytest.mark.parametrize(
    "name",
    [
        "baseline",
        "upstream-failure",
        "retry-storm",
        "disk-full",
        "real-volume",
        "volume-gone",
        "sync-failure",
        "supervisor-killed",
    ],
)
def test_phase(name: str, tmp_path: Path) -> None:
    (report,) = play(chosen([name]), tmp_path, command="test").phases
    assert report.passed, found(report)


def test_a_phase_that_breaks_off_has_failed_and_the_day_goes_on(tmp_path: Path) -> None:
    def hang(lab: Lab, report: PhaseReport) -> None:
        """It hangs."""
        report.check("so far", "process", expected=1, observed=1)
        raise ProcessError("it did not happen")

    def fine(lab: Lab, report: PhaseReport) -> None:
        """It is fine."""
        report.check("so far", "process", expected=1, observed=1)

    phases = [Phase(id="hang", title="Hang", play=hang), Phase(id="fine", title="Fine", play=fine)]
    told: list[str] = []
    day = play(phases, tmp_path, command="test", told=lambda report: told.append(report.verdict))
    assert (day.passed, told) == (False, ["FAIL", "PASS"])
    assert "ProcessError: it did not happen" in found(day.phases[0])


def test_a_reader_finds_the_report_and_its_plots(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "docket", "game-day", "--phases", "baseline", "--json", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "game-day.json").read_text())
    text = (tmp_path / "game-day.md").read_text()
    assert '## <a id="baseline"></a>Baseline: PASS' in text
    assert (tmp_path / "baseline-1.svg").exists()


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_all_phases_twice_in_a_row_while_both_cores_burn(tmp_path: Path) -> None:
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(os.cpu_count() or 2)]
    try:
        for again in range(2):
            for report in play(PHASES, tmp_path / str(again), command="test").phases:
                assert report.passed or report.skipped, f"{report.id}: {found(report)}"
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
