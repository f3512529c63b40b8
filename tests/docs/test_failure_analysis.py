"""The failure analysis in docs/resilience.md: complete, ordered, and every catcher that it names exists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs/resilience.md").read_text().split("## Failure analysis")[1].split("\n## ")[0]
MODES = (
    "Looping agent",
    "Stale prices",
    "A receipt that verifies but is not true",
    "Partial provider failure",
    "SIGKILL",
    "Unapproved host",
    "Rollback misses a file",
    "Edited ledger",
    "Secret in a header",
    "Slow provider",
    "Disk full",
    "Memory growth",
    "Clock step",
    "Wrong cache answer",
    "Rollback touches too much",
    "Two supervisors",
)
"""The least that the analysis must speak of."""
NOTHING_YET = ("Unapproved host",)
"""Modes that may be without a catcher. Whoever builds one takes its mode out of this list."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    mode: str
    cost: str
    severity: int
    occurrence: int
    detection: int
    product: int
    catcher: str


def _rows() -> list[Row]:
    lines = [line for line in SECTION.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(mode, cost, *map(int, numbers), catcher) for mode, cost, *numbers, catcher in rows]


ROWS = _rows()


def test_every_mode_that_must_be_there_is_there_once() -> None:
    for mode in MODES:
        assert sum(row.mode.startswith(mode) for row in ROWS) == 1, mode


def test_rows_are_ordered_by_risk() -> None:
    products = [row.product for row in ROWS]
    assert products == sorted(products, reverse=True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.mode[:30])
def test_a_row_is_whole_its_product_right_and_its_catcher_exists(row: Row) -> None:
    ratings = (row.severity, row.occurrence, row.detection)
    assert all(1 <= rating <= 5 for rating in ratings)
    assert row.product == row.severity * row.occurrence * row.detection
    assert row.cost
    if row.catcher == "nothing yet":
        assert row.detection == 5
        assert row.mode.startswith(NOTHING_YET)
        return
    named = re.findall(r"`(tests/[^`]+)`", row.catcher)
    assert named, "a catcher is a test"
    for name in named:
        path, _, function = name.partition("::")
        assert (ROOT / path).exists(), name
        text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
        assert not function or re.search(rf"^\s*(async )?def {function}\(", text, re.MULTILINE), name


def test_the_list_of_modes_without_a_catcher_holds_only_such_modes() -> None:
    for mode in NOTHING_YET:
        (row,) = [row for row in ROWS if row.mode.startswith(mode)]
        assert row.catcher == "nothing yet"
