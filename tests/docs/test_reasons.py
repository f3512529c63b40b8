"""docs/boundary.md tells every reason of a ``model.error``, and no other."""

import re
from pathlib import Path
from typing import get_args

from docket.ledger.events import ErrorReason

PAGE = Path(__file__).parents[2] / "docs" / "boundary.md"


def test_the_page_tells_each_reason_of_an_error_and_no_other() -> None:
    section = PAGE.read_text().partition("## When a side fails\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")][2:]
    told = {reason for row in rows for reason in re.findall(r"`([a-z-]+)`", row[3])}
    assert told == set(get_args(ErrorReason))
