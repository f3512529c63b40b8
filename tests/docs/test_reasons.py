"""docs/boundary.md tells every reason of a ``model.error`` and docs/caps.md every code of a refusal, and no other."""

import re
from pathlib import Path
from typing import get_args

from docket.ledger.events import CarriageCode, DeniedCode, ErrorReason

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_tells_each_reason_of_an_error_and_no_other() -> None:
    section = (DOCS / "boundary.md").read_text().partition("## When a side fails\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")][2:]
    told = {reason for row in rows for reason in re.findall(r"`([a-z-]+)`", row[3])}
    assert told == set(get_args(ErrorReason))


def test_the_page_tells_each_code_of_a_refusal_and_no_other() -> None:
    table = (DOCS / "caps.md").read_text().partition("| code | when |\n")[2].partition("\n\n")[0]
    told = {code for row in table.splitlines()[1:] for code in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    assert told == set(get_args(DeniedCode))


def test_the_page_tells_each_code_of_a_request_that_cannot_be_carried_and_no_other() -> None:
    sentence = (
        (DOCS / "caps.md").read_text().partition("A request that cannot be carried at all")[2].partition(".\n")[0]
    )
    assert set(re.findall(r"`([a-z_]+)`", sentence)) == set(get_args(CarriageCode))
