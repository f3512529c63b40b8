"""``docket chaos``: disclosed, audited and replayable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docket.chaos.lab import Lab, Run
from docket.primitives.canonical import encode

FAULTS = "status=500@0.2,drop@0.1,latency=5ms@0.5,slicer=20@0.5,corrupt@0.1,error_event@0.1"
BLANK = re.compile(
    rb'"(?:docket|run_key|key|value|hash|prev|salt|root|head|ts|policy|prices|provider_request_id)":"[^"]*"'
    rb'|"(?:elapsed_us|duration_us|first_byte_us|waited_us|pid)":[0-9]+|/r/[\w-]+/|127\.0\.0\.1:[0-9]+|[0-9]{2}-run'
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def drilled(lab: Lab, seed: int) -> Run:
    agent = {"MODE": "runaway", "CALLS": "40", "SEED": "1"}
    return lab.run(lab.provider(), faults=FAULTS, seed=seed, agent=agent).wait()


def blanked(run: Run) -> list[bytes]:
    return [BLANK.sub(b"", encode(event)) for event in run.evidence.events]


def test_the_same_seed_gives_the_same_ledger_line_by_line(lab: Lab) -> None:
    first, second, other = drilled(lab, 5), drilled(lab, 5), drilled(lab, 6)
    assert blanked(first) == blanked(second)
    assert blanked(first) != blanked(other)


def test_a_drill_says_so_and_agrees_with_what_the_agent_counted(lab: Lab) -> None:
    run = drilled(lab, 5)
    assert run.status == 0, run.said()
    assert "audit: the ledger has what the agent counted: sent 40" in run.said()
    assert run.evidence.member("session.drill") is True
    assert run.evidence.verdict == "verified"
    assert run.evidence.of("x-docket.fault-injected")[0] == {
        "fault": "plan",
        "detail": {"faults": FAULTS, "seed": 5},
    }


@pytest.mark.parametrize("step", ["3600s", "-3600s"])
def test_a_wall_time_cap_holds_whatever_the_wall_clock_says(lab: Lab, step: str) -> None:
    """A cap of 3 s, a child that sleeps for 60 s, and a clock that steps an hour after 1 s."""
    run = lab.run(lab.provider(), faults=f"clock_step={step}", flags=["--max-wall-clock", "3"], argv=("sleep", "60"))
    run.wait()
    assert run.status == 42, run.said()
    (breach,) = [event for event in run.evidence.events if event["type"] == "cap.exceeded"]
    assert isinstance(breach["elapsed_us"], int)
    assert 2_900_000 <= breach["elapsed_us"] <= 3_500_000
    (told,) = run.evidence.of("x-docket.clock-step")
    assert isinstance(told["step_us"], int)
    assert abs(told["step_us"] - int(step[:-1]) * 1_000_000) < 1_000_000
    assert run.evidence.verdict == "verified"
