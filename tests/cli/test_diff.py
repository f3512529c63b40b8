"""``docket diff`` on real files: what a person reads, what CI gets, and how a wrong call is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docket.cli.main import status_of
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response
from kit.scripted import Script

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of ten calls and one of twenty, with another model, a loop, a tool and a failed call."""
    monkeypatch.chdir(tmp_path)
    a, b = Script().start(), Script().start(deny_write=(".env",))
    for _ in range(10):
        a.ask()
        b.ask(digest="again").ask("claude")
    a.write(tmp_path / "a")
    b.use("shell").fail().write(tmp_path / "b")
    return tmp_path


A, B = "a/.docket/latest", "b/.docket/latest"


def test_a_person_reads_every_difference(runs: Path, capsys: Printed) -> None:
    assert status_of(["diff", A, B]) == 0
    said = capsys.readouterr().out
    rows = {line.split("  ")[0]: line for line in said.splitlines()}
    assert " ".join(rows["cost"].split()) == "cost at least 0.0425 USD at least 0.1025 USD +141.2 %"
    assert rows["errors"].split() == ["errors", "0", "1", "new", "noise"]
    for line in (
        "anthropic claude through up: not used → 10 calls, 0.06 USD",
        "shell: 0 → 1", "runaway-loop: new, 0 → 9 events", "note: the policies differ in files.deny_write",
        "note: A has no end: it died, or was not read to its end",
    ):  # fmt: skip
        assert line in said, line


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--fail-over", "20%"], 1), (["--fail-over", "142"], 0), (["--fail-over", "150%", "--of", "errors"], 1),
        (["--fail-over", "100%", "--of", "calls"], 1), (["--fail-over", "110.5%", "--of", "calls"], 0),
        (["--fail-over", "0", "--of", "latency"], 0), (["--fail-over", "500", "--of", "tokens", "--of", "cost"], 0),
        ([], 0),
    ],
)  # fmt: skip
def test_the_exit_status_is_a_gate(runs: Path, capsys: Printed, words: list[str], status: int) -> None:
    assert status_of(["diff", A, B, *words]) == status
    said = capsys.readouterr().err
    assert ("grew" in said) == bool(status)


def test_the_other_way_round_nothing_grew(runs: Path) -> None:
    assert status_of(["diff", B, A, "--fail-over", "0", "--of", "cost", "--of", "calls", "--of", "tokens"]) == 0


def test_a_gate_does_not_hold_where_the_cost_is_not_known(runs: Path, capsys: Printed) -> None:
    Script().start().ask("local").write(runs / "c")
    assert status_of(["diff", A, "c/.docket/latest", "--fail-over", "500%"]) == 1
    assert "the cost is not known of both" in capsys.readouterr().err


def test_scripts_get_one_document(runs: Path, capsys: Printed) -> None:
    assert status_of(["diff", A, B, "--json", "--fail-over", "20%"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["a"]["state"], told["b"]["calls"]) == ("dead", 21)
    assert [change["name"] for change in told["changes"]][:2] == ["cost", "calls"]
    assert told["over"] == ["cost grew by 141.2 %, more than 20 %"]
    assert told["prices"]["by_price_usd"] == "0"


def test_a_run_that_goes_on_and_a_damaged_one_say_so(runs: Path, capsys: Printed) -> None:
    run = GrowingRun(runs)
    run.append([policy_applied(), request(1), response(1)])
    ledger = runs / A / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-900] + b"{}\n")
    assert status_of(["diff", A, "latest"]) == 0
    said = capsys.readouterr().out
    assert "note: B goes on: its figures are those so far" in said
    assert "note: A was read up to here only" in said
    run.release()


def test_hostile_names_do_not_reach_the_terminal(runs: Path, capsys: Printed) -> None:
    Script().start().use("t\x1b[2J\u202e\nnote: forged").write(runs / "c")
    for words in ([], ["--json"]):
        assert status_of(["diff", A, "c/.docket/latest", *words]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "note: forged" not in out.splitlines()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([A], "Missing argument 'B'"), ([A, "nowhere"], "no run nowhere"), ([A, B, "--fail-over", "-5%"], "-5%"),
        ([A, B, "--fail-over", "lots"], "not a percentage"), ([A, B, "--of", "calls"], "--of says what"),
        ([A, B, "--fail-over", "5", "--of", "money"], "money"), ([A, "a/.docket/runs"], "no run"),
    ],
)  # fmt: skip
def test_a_wrong_call_names_what_is_wrong(runs: Path, capsys: Printed, words: list[str], named: str) -> None:
    assert status_of(["diff", *words]) == 2
    assert named in capsys.readouterr().err


def test_two_real_runs_of_one_agent_differ_by_noise_at_most(tmp_path: Path) -> None:
    docket = [sys.executable, "-m", "docket"]
    for name in ("one", "two"):
        subprocess.run([*docket, "demo", "--docket-dir", name], cwd=tmp_path, capture_output=True, check=True)
    done = subprocess.run(
        [*docket, "diff", "--json", "one/latest", "two/latest", "--fail-over", "0"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [change["name"] for change in told["changes"] if change["noise"] is False] == []
    assert told["a"]["outcome"] == told["b"]["outcome"] == "breached"
