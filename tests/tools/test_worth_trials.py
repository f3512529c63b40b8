"""Trials of what findings are worth: found before the remedy, not after, and no bound below what was saved."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from tools.worth_trials import TRIALS, Trial, common, play

from docket.findings.fold import NAMES

SAMPLE = {"runaway-loop", "write-scope", "cache-miss"}


def test_every_rule_has_a_trial() -> None:
    assert len(TRIALS) == len(NAMES)
    assert {trial.rule for trial in TRIALS} == set(NAMES)


@pytest.mark.parametrize(
    "trial",
    [pytest.param(each, marks=[] if each.rule in SAMPLE else [pytest.mark.long]) for each in TRIALS],
    ids=lambda trial: trial.rule,
)
def test_the_rule_finds_it_before_the_remedy_and_not_after(trial: Trial, tmp_path: Path) -> None:
    before, after = (play(trial, getattr(trial, when), tmp_path / when) for when in ("before", "after"))
    (found,) = [finding for finding in before["findings"] if finding["rule"] == trial.rule]
    assert trial.rule not in [finding["rule"] for finding in after["findings"]]
    saved = round(Decimal(before["account"] - after["account"]), 9)
    assert saved >= 0
    if found["impact"]["is"] == "at-most":
        assert saved <= Decimal(found["impact"]["usd"]) + Decimal("1e-9")


@pytest.mark.parametrize(("a", "b", "same"), [("", "x", 0), ("abc", "abd", 2), ("abc", "abc", 3), ("x", "y", 0)])
def test_the_toy_finds_common_prefixes(a: str, b: str, same: int) -> None:
    assert common(a, b) == same
