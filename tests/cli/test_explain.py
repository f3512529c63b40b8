"""``docket explain`` on real files: what it says, as what it exits, and how it refuses a wrong call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docket.cli.main import status_of
from docket.findings.thresholds import TABLE
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response
from kit.scripted import Script

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def looping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that sent one request eight times."""
    script = Script().start(deny_write=(".env",))
    for _ in range(8):
        script.ask(digest="again")
    monkeypatch.chdir(tmp_path)
    return script.write(tmp_path)


def test_a_person_reads_what_happened_what_it_cost_and_what_helps(looping: Path, capsys: Printed) -> None:
    assert status_of(["explain", str(looping)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{looping}: 1 finding in 20 events"
    assert "warning: runaway-loop (deterministic)" in said
    assert "  impact  0.02975 USD" in said
    assert "  events  6, 8, 10, 12, 14, 16, 18" in said
    assert "What could not be seen:" in said


def test_scripts_get_one_document_with_every_run(looping: Path, capsys: Printed) -> None:
    assert status_of(["explain", "--json", looping.name, str(looping / "ledger.jsonl")]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["findings"] == second["findings"]
    (finding,) = first["findings"]
    assert (finding["rule"], finding["count"], finding["impact"]) == (
        "runaway-loop", 7, {"is": "exact", "usd": "0.02975"},
    )  # fmt: skip
    assert (first["live"], first["events"], first["problem"]) == (False, 20, None)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ([], 0), (["--fail-on", "error"], 0), (["--fail-on", "warning"], 1), (["--fail-on", "info"], 1),
        (["--fail-on", "info", "--rule", "cache-miss"], 0),
        (["--fail-on", "info", "--threshold", "runaway-loop.repeats=8"], 0),
    ],
)  # fmt: skip
def test_the_exit_status_is_a_gate_only_where_it_is_asked_for(looping: Path, words: list[str], status: int) -> None:
    assert status_of(["explain", str(looping), *words]) == status


def test_every_threshold_is_printed_with_the_value_that_counts(capsys: Printed) -> None:
    assert status_of(["explain", "--thresholds", "--threshold", "fat-context.calls=77"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(TABLE)
    assert [line.split()[1] for line in said if line.startswith("fat-context.calls ")] == ["77"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nowhere"], "no run nowhere"),
        (["--rule", "loops"], "no rule 'loops'"),
        (["--threshold", "loops=3"], "no threshold 'loops'"),
        (["--fail-on", "bad"], "bad"),
    ],
)
def test_a_wrong_call_is_refused_and_says_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed, words: list[str], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(["explain", *words]) == 2
    assert named in capsys.readouterr().err


def test_a_run_that_goes_on_is_explained_so_far_whatever_its_last_line(tmp_path: Path, capsys: Printed) -> None:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), *(event for call in range(1, 8) for event in (request(call), response(call)))])
    with (run.path / "ledger.jsonl").open("ab") as stream:
        stream.write(b'{"half')
    assert status_of(["explain", str(run.path)]) == 0
    said = capsys.readouterr().out
    assert "1 finding in 16 events, and the run goes on" in said
    assert "read up to here only" not in said
    run.release()
    assert status_of(["explain", str(run.path)]) == 0
    assert "read up to here only" in capsys.readouterr().out


def test_a_ledger_that_was_changed_is_explained_up_to_there_and_says_so(looping: Path, capsys: Printed) -> None:
    ledger = looping / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join([*lines[:17], *lines[18:]]))
    assert status_of(["explain", str(looping)]) == 0
    said = capsys.readouterr().out
    assert "1 finding in 17 events" in said
    assert "docket verify says more" in said


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, capsys: Printed) -> None:
    script = Script().start()
    for _ in range(6):
        script.deny("model_denied", model="m\x1b[2J\u202egpt")
    path = script.write(tmp_path)
    assert status_of(["explain", str(path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert status_of(["explain", "--json", str(path)]) == 0
    assert "\u202e" not in capsys.readouterr().out


def test_a_run_of_the_demo_is_explained_as_a_process_of_its_own(tmp_path: Path) -> None:
    docket = [sys.executable, "-m", "docket"]
    subprocess.run([*docket, "demo", "--docket-dir", str(tmp_path / "demo")], capture_output=True, check=True)
    done = subprocess.run(
        [*docket, "explain", "--json", str(tmp_path / "demo/latest")], capture_output=True, check=True, text=True
    )
    (told,) = json.loads(done.stdout)
    assert told["problem"] is None
