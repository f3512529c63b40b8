"""Findings in words: what is unknown is said to be, and a bound to be one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docket.findings import text
from docket.findings.fold import Need
from docket.findings.model import MAX_SEQS, Finding, Impact
from docket.primitives.money import Usd

FINDING = Finding(
    rule="cache-miss", severity="warning", confidence="heuristic", summary="words " * 40, seqs=(3, 5), count=2,
    impact=Impact("at-most", Usd.parse("0.5")), remedy="do this",
)  # fmt: skip


def test_a_finding_has_its_rule_its_figure_its_events_and_its_remedy() -> None:
    said = list(text.lines([FINDING]))
    assert said[0] == "warning: cache-miss (heuristic)"
    assert said[-3:] == ["  impact  at most 0.5 USD", "  events  3, 5", "  remedy  do this"]
    assert max(map(len, said)) <= text.WIDTH


@pytest.mark.parametrize(
    ("impact", "said"),
    [
        (Impact("exact", Usd(0)), "0 USD"),
        (Impact("at-least", Usd.parse("2")), "at least 2 USD"),
        (Impact("unknown"), "unknown"),
    ],
)
def test_a_figure_says_how_it_relates_to_the_truth(impact: Impact, said: str) -> None:
    assert text.impact(impact) == said


def test_more_events_than_are_listed_are_counted() -> None:
    many = replace(FINDING, seqs=tuple(range(MAX_SEQS)), count=1234)
    assert text.events(many).endswith("19, ... (1,234 in all)")


def test_what_is_lacking_is_told_by_rule() -> None:
    assert list(text.needs([Need("write-scope", "needs this")])) == ["  write-scope: needs this"]
