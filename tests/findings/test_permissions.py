"""Rules on the policy: refusals by code, and what is said where nothing could be seen."""

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


@given(st.lists(st.tuples(st.sampled_from(("model_denied", "max_usd")), st.integers(1, 4)), max_size=12))
def test_refusals_are_counted_by_code(refusals: list[tuple[str, int]]) -> None:
    script = Script().start()
    for code, count in refusals:
        script.deny(code, count=count)
    calls = {code: sum(count for each, count in refusals if each == code) for code, _ in refusals}
    told = [finding.summary for finding in fold(script, "policy-denials").found()]
    for code, number in calls.items():
        assert any(f"{number} calls were refused with {code}" in summary for summary in told) is (number >= 5)
    assert len(told) == sum(number >= 5 for number in calls.values())


def test_twenty_refusals_that_ask_to_wait_are_a_finding() -> None:
    script = Script().start()
    for _ in range(20):
        script.deny("max_calls_per_minute", final=False, model=None)
    (finding,) = fold(script, "policy-denials").found()
    assert "each said how long to wait" in finding.summary


def test_models_that_were_asked_for_are_named_up_to_three() -> None:
    script = Script().start()
    for number in range(6):
        script.deny("model_denied", model=f"model-{number}")
    (finding,) = fold(script, "policy-denials").found()
    assert "(model-0, model-1, model-2)" in finding.summary


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (Script().start(watched=False), "No files were watched"),
        (Script().start(), "protects no path"),
        (Script().start(deny_write=(".env",)), None),
    ],
    ids=["not watched", "nothing protected", "protected"],
)
def test_where_no_scope_is_stated_nothing_is_guessed(script: Script, said: str | None) -> None:
    needs = fold(script, "write-scope").needs()
    assert (said in needs[0].text) if said is not None else needs == []


def test_no_path_stands_in_what_is_public() -> None:
    script = Script().start(deny_write=("secret/",)).violate("secret/key")
    (finding,) = fold(script, "write-scope").found()
    assert "secret" not in str(finding.to_json())
