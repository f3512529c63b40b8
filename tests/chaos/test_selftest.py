"""The self test: its verdicts, its command, and that it notices when a mechanism is taken out of the source."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import docket
from docket.chaos import selftest
from docket.chaos.probes.catalogue import PROBES
from docket.chaos.report import PhaseReport
from docket.chaos.selftest import Bench, Probe, Skip
from docket.cli.main import status_of
from docket.errors import ProcessError
from kit.installed import environment_with_a_copy

SOURCE = Path(docket.__file__).parent
MUTATIONS = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text())["mutation"]
SAMPLE = random.Random(20261130).sample(MUTATIONS, 2)
BURN = "while True: pass"


def _command(*arguments: str, python: str = sys.executable, timeout: float = 200) -> tuple[int, dict[str, str]]:
    """``docket selftest --json``: its status, and the verdict of each probe."""
    command = [python, "-m", "docket", "selftest", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    document = json.loads(done.stdout)
    return done.returncode, {probe["id"]: probe["verdict"] for probe in document["probes"]}


def test_a_probe_passes_fails_or_says_why_it_was_not_tried(tmp_path: Path) -> None:
    def skips(bench: Bench, report: PhaseReport) -> None:
        raise Skip("no such thing here")

    def fails(bench: Bench, report: PhaseReport) -> None:
        report.check("a", "disk", expected=1, observed=1)
        report.check("b", "disk", expected=1, observed=2)

    def breaks(bench: Bench, report: PhaseReport) -> None:
        raise ProcessError("gone")

    def nothing(bench: Bench, report: PhaseReport) -> None:
        """States no check."""

    looks = [("skip", skips), ("fail", fails), ("break", breaks), ("nothing", nothing)]
    results = list(selftest.run([Probe(name, name, look) for name, look in looks], tmp_path))
    assert [result.verdict for result in results] == ["SKIP", "FAIL", "FAIL", "FAIL"]
    assert [selftest.detail(result) for result in results] == [
        "no such thing here",
        "b: expected 1, observed 2 (disk)",
        "evidence: expected readable, observed ProcessError: gone (disk)",
        "nothing was checked",
    ]
    assert selftest.SelfTest(results).failed == 3


def test_every_probe_has_a_name_of_its_own_and_there_are_as_many_as_promised() -> None:
    assert len({probe.id for probe in PROBES}) == len(PROBES) >= 25


def test_a_scenario_that_cannot_be_made_fails_its_probes_and_the_others_go_on(tmp_path: Path) -> None:
    def broken(bench: Bench):  # type: ignore[no-untyped-def]
        raise ProcessError("docket ended before the agent's start")

    def fine(bench: Bench, report: PhaseReport) -> None:
        report.check("fine", "disk", expected=1, observed=1)

    probes = [Probe("red", "", lambda bench, report: bench.of(broken) and None, broken), Probe("green", "", fine)]
    assert [result.verdict for result in selftest.run(probes, tmp_path)] == ["FAIL", "PASS"]


def test_an_unknown_probe_is_refused_and_keep_leaves_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["selftest", "--only", "no-such"]) == 2
    assert "--list" in capsys.readouterr().err
    kept = tmp_path / "kept"
    assert status_of(["selftest", "--only", "crash", "--keep", str(kept)]) == 0
    assert list(kept.rglob("receipt.json"))
    assert status_of(["selftest", "--only", "crash", "--keep", str(kept)]) == 2


def test_every_mutation_names_a_probe_and_text_that_is_there_once() -> None:
    assert len(MUTATIONS) >= 15
    for mutation in MUTATIONS:
        assert mutation["probe"] in {probe.id for probe in PROBES}
        assert (SOURCE / mutation["file"]).read_text().count(mutation["old"]) == 1, mutation


def _mutated(mutation: dict[str, str], tmp_path: Path) -> None:
    python, copy = environment_with_a_copy(tmp_path / "mutated")
    path = copy / mutation["file"]
    path.write_text(path.read_text().replace(mutation["old"], mutation["new"]))
    status, verdicts = _command("--only", mutation["probe"], python=str(python))
    assert (status, verdicts) == (1, {mutation["probe"]: "FAIL"})


@pytest.mark.parametrize("mutation", SAMPLE, ids=lambda mutation: mutation["probe"])
def test_a_mechanism_taken_out_turns_its_probe_red(mutation: dict[str, str], tmp_path: Path) -> None:
    _mutated(mutation, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(MUTATIONS)))
def test_each_mechanism_taken_out_turns_its_probe_red(number: int, tmp_path: Path) -> None:
    _mutated(MUTATIONS[number], tmp_path)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_everything_is_green_twice_in_a_row_while_both_cores_burn() -> None:
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(os.cpu_count() or 2)]
    try:
        for _ in range(2):
            status, verdicts = _command(timeout=280)
            assert (status, [name for name, verdict in verdicts.items() if verdict == "FAIL"]) == (0, [])
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
