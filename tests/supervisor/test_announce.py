from __future__ import annotations

import io
from pathlib import Path

import pytest

from docket.errors import UsageError
from docket.supervisor.announce import Announcer, check_summary_file, figures, summary, write_summaries

TOTALS = {"calls": 1, "denied": 0, "errors": 0, "cost_usd": "0.5", "cost_is": "exact"}


class Vanished(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_quiet_leaves_the_two_lines_that_count_and_what_a_person_must_know():
    said = io.StringIO()
    announcer = Announcer(quiet=True, stream=said)
    announcer.run_key("DKT-1", b"\xab" * 32)
    announcer.remark("a remark")
    announcer.problem("a problem")
    announcer.root("DKT-1", "cd" * 32)
    assert said.getvalue().splitlines() == [
        "docket: DKT-1 run key " + "ab" * 32,
        "docket: a problem",
        "docket: DKT-1 root " + "cd" * 32,
    ]


def test_a_vanished_terminal_does_not_end_the_run():
    Announcer(quiet=False, stream=Vanished()).problem("nobody reads this")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "1 call, $0.5"),
        ({"calls": 2, "denied": 3}, "2 calls, 3 refused, $0.5"),
        ({"cost_is": "lower-bound"}, "1 call, at least $0.5"),
        ({"cost_usd": None, "cost_is": "none"}, "1 call, cost unknown"),
    ],
)
def test_a_cost_that_is_no_exact_figure_never_looks_like_one(change: dict[str, object], said: str):
    totals = {name: value for name, value in (TOTALS | change).items() if value is not None}
    assert figures(totals) == said


def test_the_summary_goes_to_the_file_and_is_appended_where_ci_looks(tmp_path: Path):
    step = tmp_path / "step.md"
    step.write_text("before\n")
    text = summary("DKT-1", "nightly", "completed", TOTALS, "ab" * 32)
    assert list(write_summaries(text, tmp_path / "own.md", {"GITHUB_STEP_SUMMARY": str(step)})) == []
    assert (tmp_path / "own.md").read_text() == text
    assert step.read_text() == "before\n" + text
    assert "nightly" in text
    assert "0.5 (exact)" in text


def test_a_summary_that_cannot_be_written_is_said_and_fails_nothing(tmp_path: Path):
    problems = list(write_summaries("text", tmp_path / "no" / "file.md", {"GITHUB_STEP_SUMMARY": str(tmp_path)}))
    assert len(problems) == 2


def test_a_summary_file_in_no_directory_is_found_before_anything_starts(tmp_path: Path):
    with pytest.raises(UsageError, match="--summary-file"):
        check_summary_file(tmp_path / "no" / "file.md")
