"""Contexts: what a cache would have saved at most, and when it saves nothing."""

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


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=20), st.integers(4096, 20_000))
def test_no_more_is_said_to_be_saved_than_what_was_sent_again(growth: list[int], begin: int) -> None:
    script, size, again = Script().start().ask(fresh=begin), begin, 0
    for more in growth:
        again += size
        size += more
        script.ask(fresh=size)
    findings = found(script, "cache-miss")
    assert len(findings) == (len(growth) >= 5)
    for finding in findings:
        assert finding.impact.usd is not None
        assert finding.impact.usd.pico == again * 2_500_000
        assert finding.count == len(growth)


def test_a_conversation_that_begins_anew_is_counted_from_there() -> None:
    script = Script().start()
    for _ in range(2):
        for turn in range(5):
            script.ask(fresh=8000 + 100 * turn)
    assert found(script, "cache-miss") == []


def test_one_read_of_the_cache_breaks_the_row() -> None:
    script = Script().start()
    for turn in range(12):
        script.ask(fresh=8000 + 100 * turn, read=10 if turn % 4 == 3 else 0)
    assert found(script, "cache-miss") == []


def test_a_growing_context_without_a_price_is_said_and_not_guessed() -> None:
    script = Script().start()
    for turn in range(12):
        script.ask("local", fresh=8000 + 100 * turn)
    fold = Findings(names=("cache-miss",))
    for entry in script.entries:
        fold.add(entry)
    assert fold.found() == []
    assert "without a price" in fold.needs()[0].text


def test_a_partial_bill_makes_the_bound_of_a_fat_context_unknown_by_leaving_it_out() -> None:
    script = Script().start()
    for _ in range(9):
        script.ask("claude", fresh=120_000, output=66, source="partial")
    assert found(script, "fat-context") == []
