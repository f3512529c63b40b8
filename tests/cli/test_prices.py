"""``docket prices`` on a table of its own: figures, rules, days, and names that have no price."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docket.cli import exit_codes
from docket.cli.main import status_of

TABLE = {
    "format": "docket-prices/1",
    "source": "toy",
    "version": "7",
    "date": "2026-11-30",
    "models": [
        {
            "provider": "acme",
            "model": "chat-1",
            "periods": [
                {"rows": [["standard", "input", "2", 1000000], ["standard", "output", "8", 1000000]]},
                {"from": "2026-07-01", "rows": [["standard", "input", "1", 1000000]]},
            ],
        }
    ],
}


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(TABLE))  # noqa: TID251 an operator's file, not canonical
    return str(path)


def _rows(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    rows = json.loads(capsys.readouterr().out)["rows"]
    return [(row["kind"], row["usd"], row["rule"]) for row in rows]


def test_prices_are_those_of_the_day_and_say_how_the_name_was_found(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["prices", "chat-1", "--prices", table, "--at", "2026-06-30", "--json"]) == 0
    assert _rows(capsys) == [("input", "2", "exact"), ("output", "8", "exact")]
    assert status_of(["prices", "acme/chat-1-2026-01-01", "--prices", table, "--at", "2026-07-01", "--json"]) == 0
    assert [(kind, usd) for kind, usd, _ in _rows(capsys)] == [("input", "1")]


def test_a_model_without_a_price_is_1_and_names_near_ones(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["prices", "chat-2", "--prices", table]) == exit_codes.FAILED
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "near: chat-1" in shown.err


def test_without_a_model_the_table_says_what_it_is(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["prices", "--prices", table, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["models_by_provider"] == {"acme": 1}
    assert len(shown["table"]["digest"]) == 64


@pytest.mark.parametrize("at", ["yesterday", "2026-02-30", "20260101", "2026-1-1"])
def test_a_day_that_is_none_is_refused(at: str, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["prices", "--prices", table, "--at", at]) == exit_codes.USAGE
    assert at in capsys.readouterr().err


def test_a_file_that_is_no_table_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    assert status_of(["prices", "--prices", str(path)]) == exit_codes.USAGE
    assert str(path) in capsys.readouterr().err
