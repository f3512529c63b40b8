"""``docket report`` on runs in every state: sealed, going on, dead; as text and as Markdown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response


def report(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "docket", "report", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), request(1), response(1), request(2)])
    run.attest()
    return run


def test_a_run_that_goes_on_is_told_from_its_ledger_and_says_so(run: GrowingRun, tmp_path: Path) -> None:
    done = report(tmp_path, "latest")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("no receipt: the run goes on.")
    assert "vouched for by nobody" in first
    assert "2 calls, 1 under way, 0 errors, 0 refused" in done.stdout.splitlines()


def test_a_run_that_died_is_told_from_its_ledger_and_names_the_way_out(run: GrowingRun, tmp_path: Path) -> None:
    run.release()
    done = report(tmp_path, run.directory.name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no receipt: the run died, or was never sealed: docket doctor says")


def test_json_of_a_run_without_a_receipt_is_its_ledgers_figures_and_says_so(run: GrowingRun, tmp_path: Path) -> None:
    told = json.loads(report(tmp_path, "--json", "latest").stdout)
    assert (told["format"], told["vouched"], told["state"]) == ("no receipt", "nobody", "live")
    assert (told["calls"], told["cost_usd"], told["cost_is"]) == (2, "0.0000105", "lower-bound")
    run.release()
    with (run.path / "ledger.jsonl").open("ab") as stream:
        stream.write(b'{"half')
    told = json.loads(report(tmp_path, "--json", "latest").stdout)
    assert told["state"] == "dead"
    assert told["problem"].startswith("read up to here only")


def test_a_sealed_run_is_told_with_what_acted_and_its_times(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "docket", "demo", "--docket-dir", str(tmp_path / "demo")]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    lines = report(tmp_path, str(tmp_path / "demo/latest")).stdout.splitlines()
    at = lines.index("  breach: 1")
    assert lines[at + 1].endswith("Z  max_usd: 0.05 of 0.05")
    receipt_alone = report(tmp_path, str(tmp_path / "demo/latest/receipt.json")).stdout
    assert "What acted:" not in receipt_alone
    fenced = report(tmp_path, "--markdown", str(tmp_path / "demo/latest")).stdout.splitlines()
    assert (fenced[0], fenced[-1], fenced[1:-1]) == ("```", "```", lines)


@pytest.mark.parametrize(("words", "said"), [(["nothing"], "no run nothing"), ([], "Missing argument")])
def test_a_wrong_call_names_what_is_wrong(words: list[str], said: str, tmp_path: Path) -> None:
    done = report(tmp_path, *words)
    assert (done.returncode, said in done.stderr, done.stdout) == (2, True, "")
