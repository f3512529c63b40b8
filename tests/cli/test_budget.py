"""``docket budget``: what is made is shown, in tables, JSON and CSV; wrong calls are named and make nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from docket.cli.main import status_of
from docket.control.budget import Amounts
from docket.fleet.model import Holder
from docket.fleet.places import open_store


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite://{tmp_path}/store"
    monkeypatch.setenv("DOCKET_STORE", url)
    assert status_of(["store", "init"]) == 0
    return url


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    capsys.readouterr()
    assert status_of(["budget", *words]) == status
    out, err = capsys.readouterr()
    return out if status == 0 else err


def test_what_was_made_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "create", "org", "--max-usd", "1000", "--per", "month", "--tz", "Europe/Berlin")
    assert "200 USD, 50 calls, a day" in said(
        capsys, "create", "team", "--max-usd", "200", "--max-calls", "50", "--per", "day", "--parent", "org"
    )
    shown = said(capsys, "show", "team")
    assert "charged to org as well" in shown
    assert "the period ends" in shown
    (listed,) = [row for row in json.loads(said(capsys, "ls", "--json")) if row["name"] == "team"]
    assert listed["limit"] == {"usd": "200", "tokens": None, "calls": 50}
    assert listed["parent"] == "org"
    assert json.loads(said(capsys, "show", "org", "--json"))["zone"] == "Europe/Berlin"
    assert "org" in said(capsys, "ls")


def test_a_limit_that_is_not_given_stays(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "create", "team", "--max-usd", "200", "--max-calls", "50")
    said(capsys, "set", "team", "--max-usd", "300.5")
    limit = json.loads(said(capsys, "show", "team", "--json"))["limit"]
    assert limit == {"usd": "300.5", "tokens": None, "calls": 50}


def test_history_says_who_took_and_used_what(capsys: pytest.CaptureFixture[str], url: str) -> None:
    said(capsys, "create", "team", "--max-usd", "1", "--max-calls", "50")
    assert said(capsys, "history", "team", "--json").strip() == "[]"
    store = open_store(url)
    holder = Holder(run="DKT-1", session=0, machine="box", label="=cmd()")
    store.take(holder, ["team"], Amounts(10**11, 0, 9), Amounts(1, 0, 1), Amounts(), "a")
    store.settle("DKT-1", Amounts(10**10, 7, 2))
    store.close()
    (row,) = csv.DictReader(said(capsys, "history", "team", "--csv").splitlines())
    assert (row["run"], row["leased_usd"], row["used_usd"], row["used_tokens"]) == ("DKT-1", "0.1", "0.01", "7")
    assert "0.01 USD, 7 tokens, 2 calls" in said(capsys, "history", "team")


def test_a_closed_budget_is_shown_as_closed(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "create", "team", "--max-calls", "50")
    said(capsys, "close", "team")
    assert "closed" in said(capsys, "ls")
    assert "is closed" in said(capsys, "close", "team", status=125)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "team"), "limits nothing"),
        (("create", "team", "--max-usd", "x"), "is not accepted"),
        (("create", "team", "--max-usd", "-1"), "is not accepted"),
        (("create", "team", "--max-calls", "1.5"), "is not accepted"),
        (("create", "team", "--max-usd", "1", "--per", "year"), "is no period"),
        (("create", "team", "--max-usd", "1", "--tz", "Mars"), "no time zone"),
        (("settle",), "name a run, or say --all"),
        (("settle", "latest", "--all"), "name a run, or say --all"),
        (("settle", "nothing"), "nothing"),
    ],
)
def test_a_wrong_call_is_named_and_makes_nothing(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in said(capsys, *words, status=2)
    assert json.loads(said(capsys, "ls", "--json")) == []


def test_a_budget_that_is_not_there_names_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "create", "team", "--max-calls", "50")
    assert "known: team" in said(capsys, "show", "taem", status=125)
