"""Over the corpus: every finding that is there is found, with its figure, and none that is not."""

from __future__ import annotations

import gc
from collections import Counter
from types import FunctionType, ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.findings import loops
from docket.findings.fold import MAX_OF_A_RULE, NAMES, RULES, Findings
from docket.findings.model import MAX_SEQS, Finding
from docket.ledger.chain import Entry
from docket.ledger.scan import Scanner
from docket.primitives.canonical import encode
from kit.scripted import Script

from .corpus import RUNS, ScriptedRun


def played(run: ScriptedRun) -> list[Entry]:
    """The entries of a run, as a reader of its ledger gets them."""
    script = Script()
    run.play(script)
    return list(Scanner().feed(script.ledger()))


def found(entries: list[Entry]) -> list[Finding]:
    fold = Findings()
    for entry in entries:
        fold.add(entry)
    return fold.found()


def test_the_corpus_has_runs_of_every_rule_and_as_many_without_a_finding() -> None:
    assert len(RUNS) >= 40
    assert {expected.rule for run in RUNS for expected in run.expected} == set(NAMES)
    assert sum(not run.expected for run in RUNS) >= 20


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_each_run_has_the_findings_that_it_should_and_no_other(run: ScriptedRun) -> None:
    entries = played(run)
    findings = found(entries)
    told = Counter((each.rule, each.confidence, each.count, str(each.impact)) for each in findings)
    assert told == Counter((each.rule, each.confidence, each.count, str(each.impact)) for each in run.expected)
    for finding in findings:
        assert list(finding.seqs) == sorted(set(finding.seqs))
        assert 1 <= len(finding.seqs) == min(finding.count, MAX_SEQS)
        assert finding.seqs[-1] < len(entries)
        encode(finding.to_json())
    for expected in run.expected:
        if expected.first is not None:
            assert any(each.rule == expected.rule and each.seqs[0] == expected.first for each in findings)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_writers_own_entries_and_those_read_back_give_the_same(run: ScriptedRun) -> None:
    script = Script()
    run.play(script)
    assert found(script.entries) == found(played(run))


def test_the_gravest_come_first() -> None:
    run = next(run for run in RUNS if run.name == "a run in which much goes wrong")
    assert next(finding.severity for finding in found(played(run))) == "error"


def test_only_the_rules_that_are_named_run() -> None:
    run = next(run for run in RUNS if run.name == "a run in which much goes wrong")
    fold = Findings(names=("retry-storm",))
    for entry in played(run):
        fold.add(entry)
    assert [finding.rule for finding in fold.found()] == ["retry-storm"]
    assert fold.needs() == []


def test_more_findings_of_one_rule_than_are_told_are_counted() -> None:
    script = Script().start()
    for loop in range(MAX_OF_A_RULE + 3):
        for _ in range(6):
            script.ask(digest=f"loop {loop}")
    findings = found(script.entries)
    assert len(findings) == MAX_OF_A_RULE
    assert "3 more findings of this rule" in findings[-1].summary


def test_a_call_without_a_request_is_named_and_nothing_is_made_of_it() -> None:
    script = Script().start()
    script.end(1)
    fold = Findings()
    for entry in script.entries:
        fold.add(entry)
    assert [need.rule for need in fold.needs()][-1] == "*"
    assert fold.found() == []


ACTIONS = st.lists(
    st.sampled_from(
        (
            lambda s: s.ask(digest="again"),
            lambda s: s.ask(fresh=9000),
            lambda s: s.ask("claude", fresh=10, written=5000),
            lambda s: s.ask(source="none"),
            lambda s: s.ask(source="partial", reason="incomplete", finish="length"),
            lambda s: s.fail(),
            lambda s: s.fail(reason="client-gone", billed=True, source="partial"),
            lambda s: s.deny("model_denied"),
            lambda s: s.use(is_error=True),
            lambda s: s.wait(30),
            lambda s: s.begin(),
        )
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_whatever_happens_no_finding_costs_more_than_the_run_and_unknown_bills_are_never_exact(actions: list) -> None:
    script = Script().start()
    for act in actions:
        act(script)
    spent, known = 0, True
    for entry in script.entries:
        usage = getattr(entry.event, "usage", None)
        if usage is not None:
            spent += usage.cost_usd.pico if usage.cost_usd is not None else 0
            known &= usage.source == "reported"
    for finding in found(script.entries):
        assert finding.impact.usd is None or 0 <= finding.impact.usd.pico <= spent
        assert (finding.impact.relation == "unknown") == (finding.impact.usd is None)
        if finding.rule == "idle-spend" and finding.impact.relation == "exact":
            assert known


def test_memory_does_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MAX_REQUESTS", 50)

    def reachable(calls: int) -> int:
        fold, script = Findings(), Script()
        for step in range(calls):
            script.ask(fresh=9000 + step % 9).fail().deny("model_denied").use(is_error=bool(step % 2))
        for entry in Scanner().feed(script.ledger()):
            fold.add(entry)
        seen, waiting = {id(fold)}, [fold]
        while waiting:
            for each in gc.get_referents(waiting.pop()):
                if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType):
                    seen.add(id(each))
                    waiting.append(each)
        return len(seen)

    assert reachable(400) <= reachable(200) + 20


def test_every_rule_says_what_it_is_for_and_what_to_do() -> None:
    for rule in RULES:
        assert rule.__doc__
        assert len(rule.remedy) > 40
