"""docs/production-coverage.md: what it says of the breaker is what the breaker does, row by row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docket.control.breaker import DEFAULT_COUNTS, BreakerPolicy, Breakers, Ended, Verdict, judge
from docket.primitives.instant import Instant

PAGE = (Path(__file__).parents[2] / "docs/production-coverage.md").read_text()
ROWS = re.findall(
    r"^\| ([^|]+) \| *(yes)? *\| *(?:`([^`]+)`)? *\| (takes it as a sign of life|counts .*?) \|$",
    PAGE.split("## What the breaker counts")[1],
    re.MULTILINE,
)
VERDICTS = {
    "takes it as a sign of life": Verdict.INFORMED,
    "counts it as a failure": Verdict.BLIND,
    "counts nothing": Verdict.NEUTRAL,
}
REASONS = {
    "no connection": "connect",
    "silence": "timeout",
    "a cut stream": "truncated",
    "the agent left": "client-gone",
    "error event": "error-event",
}


def ended(answer: str, retry_after: str, error_type: str) -> Ended:
    status = int(answer) if answer.isdigit() else 200 if answer == "error event" else None
    reason = REASONS.get(answer, "complete" if status == 200 else "status")
    return Ended(reason=reason, status=status, error_type=error_type or None, retry_after=retry_after == "yes")


def test_the_table_speaks_of_every_answer_that_the_page_names() -> None:
    assert len(ROWS) == PAGE.split("## What the breaker counts")[1].count("\n| ") - 2
    answers = {row[0] for row in ROWS}
    assert {"429", "503", "529", *REASONS} <= answers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(filter(None, row[:3])))
def test_each_row_is_what_the_breaker_does(row: tuple[str, str, str, str]) -> None:
    answer, retry_after, error_type, said = row
    end = ended(answer, retry_after, error_type)
    assert judge(end) is VERDICTS[said]
    breakers = Breakers(BreakerPolicy(threshold=1, counts=DEFAULT_COUNTS))
    permit, _ = breakers.take("up", None, Instant(0))
    opened = [event.type for event in breakers.settle(permit, end, Instant(1))]
    assert opened == (["x-docket.breaker-open"] if VERDICTS[said] is Verdict.BLIND else [])
