"""Rules on bills: who is dear, what was cut, who was not there to read it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docket.findings.fold import Findings
from docket.findings.model import Finding
from kit.scripted import Script


def found(script: Script, name: str) -> list[Finding]:
    fold = Findings(names=(name,))
    for entry in script.entries:
        fold.add(entry)
    return fold.found()


@given(st.lists(st.integers(1, 60_000), min_size=20, max_size=40))
def test_concentration_is_said_exactly_where_three_calls_cost_half(outputs: list[int]) -> None:
    script = Script().start()
    for output in outputs:
        script.ask(fresh=0, output=output)
    top, whole = sum(sorted(outputs)[-3:]), sum(outputs)
    findings = found(script, "concentration")
    assert len(findings) == (top * 2 >= whole and whole >= 1000)
    for finding in findings:
        assert finding.impact.usd is not None
        assert finding.impact.usd.pico == top * 10_000_000


def test_a_cheap_model_and_another_tier_are_no_premium() -> None:
    script = Script().start()
    for _ in range(20):
        script.ask("gpt-4o-mini", fresh=100, output=10).ask(fresh=100, output=10, tier="batch")
    assert found(script, "premium-for-small-calls") == []


def test_a_cheaper_model_that_lacks_a_price_for_what_was_used_is_not_compared() -> None:
    script = Script().start().ask("gpt-4o-mini", fresh=0, output=900)
    for _ in range(10):
        script.ask(fresh=300, output=20)
    (finding,) = found(script, "premium-for-small-calls")
    assert "gpt-4o-mini" not in finding.summary
    assert finding.impact.usd is not None
    assert str(finding.impact.usd) == "0.0095"


def test_a_cut_answer_whose_bill_is_not_known_makes_the_figure_unknown() -> None:
    script = Script().start()
    for _ in range(3):
        script.ask(reason="incomplete", finish="length", source="none")
    (finding,) = found(script, "truncated-answers")
    assert finding.impact.relation == "unknown"


def test_hanging_up_before_anything_was_billed_costs_what_is_not_known() -> None:
    script = Script().start()
    for _ in range(3):
        script.fail(reason="client-gone", status=None, billed=True, source="none")
    (finding,) = found(script, "idle-spend")
    assert finding.impact.relation == "unknown"


def test_a_long_answer_ends_a_row_of_polls() -> None:
    script = Script().start().ask("gpt-4o-mini")
    for step in range(18):
        script.wait(30).ask("gpt-4o-mini", output=5 if step % 9 else 500)
    assert found(script, "idle-spend") == []
