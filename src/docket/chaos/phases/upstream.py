"""Drills of the provider's side: nothing wrong, failures, latency, an outage, a peer that goes silent."""

from __future__ import annotations

from statistics import median_low
from typing import cast

from docket.chaos.lab import Lab, Run
from docket.chaos.phases.always import always
from docket.chaos.report import PhaseReport
from docket.primitives.canonical import JsonObject
from docket.sim.faults import Plan, parse

CALLS = 12
SEED = 20
BREAKER = "[resilience]\nbreaker_threshold = 3\nbreaker_cooldown_seconds = 0.5\nbreaker_max_cooldown_seconds = 1\n"
PATIENT = {"MODE": "backoff", "CALLS": str(CALLS), "MAX_SLEEP": "0.2"}


def baseline(lab: Lab, report: PhaseReport) -> None:
    """Nothing is wrong."""
    run = lab.run(lab.provider(), agent={"CALLS": str(CALLS)}).wait()
    evidence = run.evidence
    report.check("exit status", "process", expected=0, observed=run.status)
    report.check("calls", "receipt", expected=CALLS, observed=evidence.member("totals.calls"))
    report.check("calls answered", "ledger", expected=CALLS, observed=len(evidence.of("model.response")))
    report.check(
        "errors and refusals", "receipt", expected=[0, 0], observed=_pair(run, "totals.errors", "totals.denied")
    )
    report.check("said to be a drill", "receipt", expected=False, observed=evidence.member("session.drill"))
    report.check("every event is there", "receipt", expected=True, observed=_whole(run))
    always(report, run)


def upstream_failure(lab: Lab, report: PhaseReport) -> None:
    """Some answers are 500, some connections are dropped; the agent retries."""
    faults = "status=500@0.3,drop@0.2"
    run = lab.run(
        lab.provider(), faults=faults, seed=SEED, agent=PATIENT, policy="[resilience]\nbreaker_threshold = 0\n"
    )
    evidence = run.wait().evidence
    plan = Plan(parse(faults), SEED)
    opened = len(evidence.of("model.request"))
    hit = [n for n in range(1, opened + 1) if plan.draw("upstream", n)]
    report.check("exit status", "process", expected=0, observed=run.status)
    report.check("calls that were made to fail", "ledger", expected=hit, observed=_failed(run))
    report.check("calls answered in the end", "ledger", expected=CALLS, observed=opened - len(hit))
    report.check("said to be a drill", "receipt", expected=True, observed=evidence.member("session.drill"))
    always(report, run)


def upstream_latency(lab: Lab, report: PhaseReport) -> None:
    """Most calls are answered later; percentiles are held against what was injected."""
    faults = "latency=100ms@0.8,latency=250ms@0.3"
    calls = 20
    run = lab.run(lab.provider(), faults=faults, seed=SEED, agent={"CALLS": str(calls)}).wait()
    plan = Plan(parse(faults), SEED)
    injected = sorted(sum(draw.fault.magnitude for draw in plan.draw("upstream", n)) for n in range(1, calls + 1))
    for percent in (50, 95, 99):
        least = injected[-(-percent * calls // 100) - 1]
        told = run.evidence.member(f"latency.total.p{percent}")
        within = isinstance(told, int) and least <= told
        report.check(f"p{percent} of the receipt, at least what was injected", "receipt",
                     expected=f">= {least} us", observed=f"{told} us", ok=within)  # fmt: skip
    by_call = {cast(int, end["call"]): cast(int, end["duration_us"]) for end in run.evidence.of("model.response")}
    short = [n for n in by_call if by_call[n] < sum(d.fault.magnitude for d in plan.draw("upstream", n))]
    added = [by_call[n] - sum(d.fault.magnitude for d in plan.draw("upstream", n)) for n in by_call]
    typical = median_low(added)
    report.check("what docket and machine add to it, typically", "ledger", expected="less than the least injected",
                 observed=f"{typical} us", ok=typical < 100_000)  # fmt: skip
    report.check("calls that were faster than their injected latency", "ledger", expected=[], observed=short)
    report.check("calls answered", "ledger", expected=calls, observed=len(by_call))
    always(report, run)


def circuit_breaker(lab: Lab, report: PhaseReport) -> None:
    """The provider dies in the middle of a run and comes back; an agent that backs off finishes its task."""
    provider = lab.provider({"latency_ms": 30, "times": 0})
    run = lab.run(provider, policy=BREAKER, agent=PATIENT)
    run.until_event("model.response", 2)
    provider.kill()
    run.until_event("x-docket.breaker-open")
    provider.start()
    evidence = run.wait().evidence
    kinds = [str(event["type"]).removeprefix("x-docket.breaker-") for event in evidence.events
             if str(event["type"]).startswith("x-docket.breaker-")]  # fmt: skip
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("breaker opened first and closed last", "ledger", expected=["open", "closed"],
                 observed=[kinds[0], kinds[-1]] if kinds else [])  # fmt: skip
    report.check(
        "each closing has its probe", "ledger", expected=kinds.count("open"), observed=kinds.count("half-open")
    )
    report.check("the receipt tells the same", "receipt",
                 expected={name: kinds.count(name) for name in ("open", "half-open", "closed")},
                 observed=evidence.member("resilience.breaker"))  # fmt: skip
    report.check("state in the end", "metrics", expected=0.0, observed=evidence.sum_of("docket_breaker_state"))
    refused = sum(cast(int, d["count"]) for d in evidence.of("model.denied") if d["code"] == "breaker_open")
    report.check("refusals by the breaker", "metrics", expected=refused,
                 observed=evidence.sum_of("docket_breaker_refusals_total"))  # fmt: skip
    report.check("tasks finished", "agent", expected=CALLS, observed=(run.count() or {}).get("ok"))
    always(report, run)


def partition(lab: Lab, report: PhaseReport) -> None:
    """The provider goes silent without closing, before an answer and within one."""
    provider = lab.provider({"times": 1}, {"fault": "hang", "times": 2}, {"times": 0})
    policy = "[resilience]\nupstream_timeout = 0.4\nbreaker_threshold = 0\n"
    run = lab.run(provider, policy=policy, agent=PATIENT).wait()
    evidence = run.evidence
    silent = [end for end in evidence.of("model.error") if end["reason"] == "timeout"]
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("silent calls that ended as timeouts", "ledger", expected=2, observed=len(silent))
    late = [end["duration_us"] for end in silent if cast(int, end["duration_us"]) < 400_000]
    report.check("timeouts that came before the time", "ledger", expected=[], observed=late)
    report.check("tasks finished", "agent", expected=CALLS, observed=(run.count() or {}).get("ok"))
    always(report, run)


def _failed(run: Run) -> list[int]:
    """Numbers of the calls that did not end in a 200."""
    ends: list[JsonObject] = run.evidence.of("model.error") + run.evidence.of("model.response")
    return sorted(cast(int, end["call"]) for end in ends if end.get("status") != 200)


def _pair(run: Run, *paths: str) -> list[object]:
    return [run.evidence.member(path) for path in paths]


def _whole(run: Run) -> object:
    return run.evidence.member("ops.evidence.ledger_complete")
