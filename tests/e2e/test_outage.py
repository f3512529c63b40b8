"""The real openai SDK goes through an outage of its provider; ledger, metrics and receipt tell one story."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from docket.chaos.evidence import disagreements
from docket.chaos.lab import Lab, Run
from kit.installed import AGENTS

STEPS = 6
AGENT = (sys.executable, str(AGENTS / "patient_openai.py"), str(STEPS))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def through_an_outage(lab: Lab, policy: str, outage_seconds: float) -> Run:
    """Two calls pass; then the provider is dead for so long, and at least until the breaker is open."""
    provider = lab.provider({"latency_ms": 20, "times": 0})
    run = lab.run(provider, policy=policy, argv=AGENT)
    run.until_event("model.response", 2)
    provider.kill()
    threading.Event().wait(outage_seconds)
    run.until_event("x-docket.breaker-open")
    provider.start()
    return run.wait()


def check_the_story(run: Run) -> None:
    evidence = run.evidence
    assert run.status == 0, run.said()
    breaker = [str(e["type"]) for e in evidence.events if str(e["type"]).startswith("x-docket.breaker")]
    assert breaker == ["x-docket.breaker-open", "x-docket.breaker-half-open", "x-docket.breaker-closed"]
    assert evidence.member("resilience.breaker") == {"open": 1, "half-open": 1, "closed": 1}
    refused = sum(cast(int, d["count"]) for d in evidence.of("model.denied") if d["code"] == "breaker_open")
    assert evidence.sum_of("docket_breaker_refusals_total") == refused
    assert evidence.sum_of("docket_breaker_state") == 0
    assert disagreements(evidence) == []
    answered = [end for end in evidence.of("model.response") if end.get("status") == 200]
    assert len(answered) == STEPS
    assert {end["reason"] for end in evidence.of("model.error")} <= {"connect", "stale", "truncated"}
    assert evidence.verdict == "verified"


def test_a_short_outage_is_survived_and_the_breaker_opens_and_closes_once(lab: Lab) -> None:
    policy = "[resilience]\nbreaker_threshold = 2\nbreaker_cooldown_seconds = 2\n"
    check_the_story(through_an_outage(lab, policy, 0.0))


@pytest.mark.long
def test_an_outage_of_twenty_seconds_under_the_default_policy(lab: Lab) -> None:
    check_the_story(through_an_outage(lab, "", 20.0))
