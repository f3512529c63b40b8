"""Loops and storms: from which number on, and what cannot be seen of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.findings.fold import Findings
from kit.scripted import Script


def fold(script: Script, name: str) -> Findings:
    found = Findings(names=(name,))
    for entry in script.entries:
        found.add(entry)
    return found


@given(st.integers(1, 12), st.integers(0, 3))
def test_a_loop_is_one_from_the_fifth_repetition_on_whatever_stands_between(times: int, others: int) -> None:
    script = Script().start()
    for _ in range(times):
        script.ask(digest="again")
        for _ in range(others):
            script.ask()
    findings = fold(script, "runaway-loop").found()
    assert [finding.count for finding in findings] == ([times - 1] if times > 5 else [])


@given(st.lists(st.booleans(), max_size=30))
def test_a_storm_is_as_long_as_the_longest_row_of_failures(answers: list[bool]) -> None:
    script = Script().start()
    for answered in answers:
        script.ask() if answered else script.fail()
    rows = "".join("." if answered else "x" for answered in answers).split(".")
    storms = [len(row) for row in rows if len(row) >= 5]
    findings = fold(script, "retry-storm").found()
    assert [finding.count for finding in findings] == ([sum(storms)] if storms else [])
    if storms:
        assert f"up to {max(storms)} times" in findings[0].summary


def test_asking_for_what_was_found_changes_nothing() -> None:
    script = Script().start()
    for _ in range(6):
        script.fail()
    found = fold(script, "retry-storm")
    assert found.found() == found.found()


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        ({"is_error": True}, True), ({"is_error": False}, False), ({"ok": False}, True), ({"success": True}, False),
        ({"error": "no such file"}, True), ({"error": None}, False), ({"exit_code": 2}, True),
        ({"exit_code": 0}, False),
        ({"status": "Failed"}, True), ({"status": "ok"}, False), ({"status": "weird"}, None),
        ({"output": "Error"}, None),
        ({"exit_code": True}, None),
    ],
)  # fmt: skip
def test_a_tool_failed_only_where_its_result_says_so(said: dict[str, object], failed: bool | None) -> None:
    script = Script().start().ask()
    for _ in range(3):
        script.use(**said)
    found = fold(script, "tool-failure-loop")
    assert bool(found.found()) is (failed is True)
    assert ("do not say whether" in "".join(need.text for need in found.needs())) is (failed is None)


def test_a_rule_that_lacks_what_it_needs_says_what() -> None:
    script = Script().start().ask(digested=False).ask()
    assert "1 of 2 answered requests have no digest" in fold(script, "runaway-loop").needs()[0].text
    assert "reported no tool results" in fold(script, "tool-failure-loop").needs()[0].text
    assert fold(Script().start(), "tool-failure-loop").needs() == []


def test_no_name_of_a_tool_stands_in_what_is_public() -> None:
    script = Script().start().ask()
    for _ in range(3):
        script.use("secret-tool", is_error=True, output="secret-words")
    (finding,) = fold(script, "tool-failure-loop").found()
    assert "secret" not in str(finding.to_json())
