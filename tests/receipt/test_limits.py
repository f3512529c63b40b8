"""Every sentence of a receipt follows from facts: said where its condition holds, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.ledger.events import FsSnapshot, ModelCacheHit
from docket.receipt.limits import LIMITS, UNUSED, Facts, sentences
from docket.receipt.model import Evidence, Run
from docket.receipt.totals import Totals

RUN = Run(
    docket="DKT-20261201-AAAAAAAAAA",
    created_at="2026-12-01T00:00:00.000000Z",
    tool={},
    outcome="completed",
    exit={"code": 0},
    policy={},
    tables=(),
)
BREACH: Any = {"cap": "max_usd", "limit": "1", "observed": "2"}
LOST = Evidence(ledger_complete=False, unwritten_events=3)


def totals(**figures: Any) -> Totals:
    """A fold of a run with one call, answered and priced, whose files were looked at; ``figures`` differ."""
    counts = {FsSnapshot: 1} | figures.pop("types", {})
    known: dict[str, Any] = {
        "requests": 1, "ends": 1, "denied": 0, "unmetered": 0, "lost": 0, "estimated": 0, "open_calls": 0, "costed": 1,
        "by_source": {"reported": 1, "partial": 0, "none": 0}, "rows": SimpleNamespace(size=1, embedded=True),
    }  # fmt: skip
    activity = {"drill": False, "survivors": (), "breach": None, "of": lambda name: counts.get(name, 0)}
    activity |= figures.pop("activity", {})
    return cast(Totals, SimpleNamespace(**(known | figures), activity=SimpleNamespace(**activity)))


CASES: dict[str, tuple[Run, Totals, bool]] = {
    "no operator": (RUN, totals(), False),
    "recovered": (replace(RUN, kind="recovered"), totals(), True),
    "lost when recovered": (replace(RUN, kind="recovered"), totals(), True),
    "from memory": (replace(RUN, kind="from-memory"), totals(), True),
    "a drill": (RUN, totals(activity={"drill": True}), True),
    "no call": (RUN, totals(requests=0, ends=0), True),
    "no usage figure": (RUN, totals(by_source={"reported": 0, "partial": 0, "none": 1}, costed=0), True),
    "early ends": (RUN, totals(by_source={"reported": 0, "partial": 1, "none": 0}), True),
    "no price": (RUN, totals(costed=0), True),
    "quota": (replace(RUN, policy={**RUN.policy, "budget": {"mode": "quota"}}), totals(costed=0), True),
    "estimates": (RUN, totals(estimated=1), True),
    "unmetered": (RUN, totals(unmetered=1), True),
    "too many rows": (RUN, totals(rows=SimpleNamespace(size=1, embedded=False)), True),
    "lost events": (replace(RUN, evidence=LOST), totals(), True),
    "not whole": (replace(RUN, evidence=Evidence(ledger_complete=False)), totals(), True),
    "unknown losses": (replace(RUN, evidence=Evidence(ledger_complete="unknown")), totals(), True),
    "another hand": (replace(RUN, evidence=Evidence(intact=False)), totals(), True),
    "a breach unrecorded": (replace(RUN, breach=BREACH), totals(), True),
    "open calls": (RUN, totals(open_calls=1), True),
    "survivors": (RUN, totals(activity={"survivors": (7,)}), True),
    "no snapshot": (RUN, totals(types={FsSnapshot: 0}), True),
}
"""A case for each condition, in which it and nothing beside it holds (of a recovered run two things)."""
ALWAYS = len(sentences(RUN, totals(), operator=True))


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_is_said_where_its_condition_holds_and_in_no_other_case(name: str) -> None:
    run, figures, operator = CASES[name]
    limit = next(limit for limit in LIMITS if limit.name == name)
    said = sentences(run, figures, operator=operator)
    assert len(said) == ALWAYS + (2 if run.kind == "recovered" else 1), said
    assert limit.says(Facts(run, figures, operator)) in said
    for other, case in CASES.items():
        if other != name and {other, name} != {"recovered", "lost when recovered"}:
            assert not limit.holds(Facts(*case)), other


def test_every_sentence_that_depends_on_something_has_its_case() -> None:
    assert {limit.name for limit in LIMITS} - set(CASES) == {
        "traffic around the boundary", "the provider's count", "whose key", "times", "memory", "later sessions",
        "rules",
    }  # fmt: skip
    assert ALWAYS == 7


@given(
    requests=st.integers(0, 2),
    ends=st.integers(0, 1),
    lost=st.integers(0, 1),
    denied=st.integers(0, 2),
    unmetered=st.integers(0, 2),
    hits=st.integers(0, 2),
    unwritten=st.integers(0, 2),
    complete=st.sampled_from([True, False, "unknown"]),
    kind=st.sampled_from(["complete", "recovered", "from-memory"]),
)
def test_no_call_is_said_only_of_a_whole_record_without_one(
    requests: int,
    ends: int,
    lost: int,
    denied: int,
    unmetered: int,
    hits: int,
    unwritten: int,
    complete: Any,
    kind: Any,
) -> None:
    run = replace(RUN, kind=kind, evidence=Evidence(ledger_complete=complete, unwritten_events=unwritten))
    counts = {"requests": requests, "ends": ends, "lost": lost, "denied": denied, "unmetered": unmetered}
    figures = totals(**counts, types={ModelCacheHit: hits})
    nothing = not (any(counts.values()) or hits or unwritten) and complete is True and kind == "complete"
    assert (UNUSED in sentences(run, figures, operator=True)) == nothing


def test_a_recovered_receipt_says_up_to_where_it_knows_and_how_much_is_missing() -> None:
    run = replace(RUN, kind="recovered", attested=9, evidence=Evidence(ledger_complete=False, unwritten_events=4))
    said = " ".join(sentences(run, totals(), operator=False))
    assert "Up to event 8, 4 events are known to be lost; what is missing behind it is not known." in said
    none = " ".join(sentences(replace(RUN, kind="recovered"), totals(), operator=False))
    assert "There is no checkpoint: what is missing from the ledger is not known." in none


def test_a_run_that_prices_nothing_by_policy_blames_no_missing_price() -> None:
    run, figures, _ = CASES["quota"]
    said = " ".join(sentences(run, figures, operator=True))
    assert "counted and not priced" in said
    assert "without a price" not in said
