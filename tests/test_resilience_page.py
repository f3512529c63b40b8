"""docs/resilience.md tells every key, and names only events, metrics and receipt members that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from docket.control.readiness import Status
from docket.ledger import events
from docket.policy.keys import keys_of
from docket.policy.resilience import Health, Resilience
from docket.receipt.activity import Activity
from docket.telemetry.metrics import Metrics

PAGE = (Path(__file__).parents[1] / "docs/resilience.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.split("## The keys")[1].split("## ")[0].splitlines()
    if line.startswith("| `")
]
TYPES = {fact.type for fact in get_args(events.Event)}
METRICS = {family.name for family in Metrics(lambda: Status(docket="DKT-20261130-AAAAAAAAAA", free_bytes=1)).collect()}


def test_the_table_has_exactly_the_keys_of_both_tables() -> None:
    keys = [key.name for table in (Resilience, Health) for key in keys_of(table)]
    assert sorted(row[0].strip("`") for row in ROWS) == sorted(keys)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_exists(row: list[str]) -> None:
    _, _, event, metric, member = (cell.strip("`") for cell in row)
    assert event in TYPES | {"none"}
    assert re.sub("_total$", "", metric) in METRICS
    if member.startswith("resilience."):
        at: object = Activity().resilience()
        for name in member.split(".")[1:]:
            assert isinstance(at, dict)
            at = at[name]
