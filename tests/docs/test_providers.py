"""The page of providers is held against the rows that it describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docket.families import FAMILIES, Family

PAGE = (Path(__file__).parents[2] / "docs/providers.md").read_text()
ROWS = {
    row[1]: row[1:] for row in (re.split(r"\s*\|\s*", line) for line in PAGE.splitlines()) if row[1:] and "`" in row[1]
}


def words(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.like == ("openai",)], ids=lambda family: family.name)
def test_a_row_of_the_page_is_the_row_of_the_code(family: Family) -> None:
    row = ROWS[f"`{family.name}`"]
    assert [words(cell) for cell in row[1:5]] == [(family.base_url,), (family.vendor,), family.variables, family.keys]
    assert "](https://" in row[5], "what it says of its cache is cited"


def test_every_row_of_the_page_is_a_family() -> None:
    assert {words(name)[0] for name in ROWS} <= {family.name for family in FAMILIES}
