"""``docket ls``: what is listed, in which order, what it comes to, and in what state each run is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docket.cli.main import status_of
from docket.clock import SystemClock
from docket.primitives.instant import timestamp
from kit.growing import GrowingRun

Printed = pytest.CaptureFixture[str]


def sealed(root: Path, number: str, **said: Any) -> None:
    """A run as its receipt tells it, which ls does not check."""
    path = root / ".docket/runs" / number
    path.mkdir(parents=True)
    totals = {
        "calls": said.get("calls", 1), "denied": 0, "cost_is": said.get("cost_is", "exact"),
        "by_model": [{"model": "gpt-4o"}], **({"cost_usd": said["usd"]} if "usd" in said else {}),
    }  # fmt: skip
    session = {
        "outcome": said.get("outcome", "completed"), "elapsed_us": said.get("elapsed", 5),
        "private": {"label": {"value": said.get("label")}},
    }  # fmt: skip
    evidence = {"intact": True, "ledger_complete": True}
    receipt = {
        "created_at": "2026-12-01T00:00:00Z", "session": session, "totals": totals, "ops": {"evidence": evidence},
    }  # fmt: skip
    (path / "receipt.json").write_text(json.dumps(receipt))  # noqa: TID251 a document of the test's own


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sealed(tmp_path, "DKT-20261101-0000000001", usd="0.5", calls=9, elapsed=70, label="b")
    sealed(tmp_path, "DKT-20261110-0000000002", usd="2", calls=3, elapsed=900, label="a", outcome="failed")
    sealed(tmp_path, "DKT-20261120-0000000003", calls=4, elapsed=8, cost_is="none")
    return tmp_path


def listed(capsys: Printed, *words: str) -> list[str]:
    assert status_of(["ls", "--json", *words]) == 0
    return [row["docket"][-1] for row in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ([], "123"), (["--reverse"], "321"), (["--sort", "cost"], "123"), (["--sort", "cost", "--reverse"], "213"),
        (["--sort", "calls"], "231"), (["--sort", "elapsed", "--reverse"], "213"), (["--sort", "label"], "213"),
        (["--sort", "outcome", "--reverse"], "213"),
    ],
)  # fmt: skip
def test_runs_are_sorted_and_what_is_not_known_stands_last(
    root: Path, capsys: Printed, words: list[str], order: str
) -> None:
    assert "".join(listed(capsys, *words)) == order


def test_the_sum_says_how_many_runs_it_does_not_know(root: Path, capsys: Printed) -> None:
    assert status_of(["ls"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 runs, 16 calls, at least 2.5 USD; the cost of 1 is not known"
    assert status_of(["ls", "--label", "a"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 run, 3 calls, 2 USD"


@pytest.mark.parametrize(("cost_is", "word"), [("lower-bound", "at least "), ("approximate", "about "), ("exact", "")])
def test_a_sum_is_no_more_exact_than_its_parts(root: Path, capsys: Printed, cost_is: str, word: str) -> None:
    sealed(root, "DKT-20261130-0000000004", usd="0.1", cost_is=cost_is)
    sealed(root, "DKT-20261130-0000000005", usd="0.2")
    assert status_of(["ls", "--since", "2026-11-30"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"2 runs, 2 calls, {word}0.3 USD"


def test_since_takes_a_day_or_a_number_of_days(root: Path, capsys: Printed) -> None:
    today = timestamp(SystemClock().unix_us())[:10].replace("-", "")
    sealed(root, f"DKT-{today}-0000000009")
    assert listed(capsys, "--since", "2026-11-10")[:2] == ["2", "3"]
    assert listed(capsys, "--since", "0d") == ["9"]
    assert "9" in listed(capsys, "--since", "99999d")


def test_each_run_says_whether_it_lives(root: Path, capsys: Printed) -> None:
    run = GrowingRun(root)

    def state() -> str:
        assert status_of(["ls", "--json", "--since", "2026-11-30"]) == 0
        return json.loads(capsys.readouterr().out)[0]["state"]

    assert state() == "live"
    run.release()
    assert state() == "dead"
    (run.path / "receipt.json").write_text("{}")
    assert state() == "ended"


@pytest.mark.parametrize("sort", ["age", "cost", "calls", "elapsed", "outcome", "label"])
def test_receipts_that_say_anything_are_listed_all_the_same(root: Path, capsys: Printed, sort: str) -> None:
    sealed(root, "DKT-20261130-0000000004", usd=[1], calls="many", elapsed={}, label=["x"], outcome=7)
    sealed(root, "DKT-20261130-0000000005", usd="1e9", calls=None, elapsed=True, label=5)
    assert len(listed(capsys, "--sort", sort)) == 5
    assert status_of(["ls", "--sort", sort]) == 0
    assert "5 runs, 16 calls, at least 2.5 USD; the cost of 3 is not known" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--since", "yesterday"], ["--since", "2026-13-01"], ["--sort", "size"]])
def test_a_wrong_call_names_what_is_wrong(root: Path, capsys: Printed, words: list[str]) -> None:
    assert status_of(["ls", *words]) == 2
    assert words[-1] in capsys.readouterr().err
