"""Drills of the agent's side: one that calls too often, one that storms a provider that is down."""

from __future__ import annotations

from typing import cast

from docket.chaos.lab import Lab
from docket.chaos.phases.always import always
from docket.chaos.report import PhaseReport
from docket.primitives.canonical import JsonObject

RATE = 4
CALLS = 14
STORM = 400
THRESHOLD = 3


def rate_limit(lab: Lab, report: PhaseReport) -> None:
    """An agent that obeys Retry-After finishes; the limit holds over the whole run."""
    run = lab.run(
        lab.provider(),
        policy=f"[resilience]\nmax_calls_per_second = {RATE}\n",
        agent={"MODE": "backoff", "CALLS": str(CALLS), "MAX_SLEEP": "0.2"},
    ).wait()
    evidence = run.evidence
    refused = sum(cast(int, denied["count"]) for denied in evidence.of("model.denied"))
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("tasks finished", "agent", expected=CALLS, observed=(run.count() or {}).get("ok"))
    report.check("refused calls", "ledger", expected="at least 1", observed=refused, ok=refused > 0)
    report.check("refused calls", "metrics", expected=refused, observed=evidence.sum_of("docket_rate_limited_total"))
    limited = sum(cast(int, limited["count"]) for limited in evidence.of("x-docket.rate-limited"))
    report.check("refusals of the limiter", "ledger", expected=refused, observed=limited)
    report.check("refusals of the limiter", "receipt", expected=refused,
                 observed=evidence.member("resilience.rate_limited"))  # fmt: skip
    spawned = [cast(int, event["elapsed_us"]) for event in evidence.events if event["type"] == "proc.spawn"]
    last = max(cast(int, event["elapsed_us"]) for event in evidence.events if event["type"] == "model.request")
    least_us = (CALLS - RATE) * 1_000_000 // RATE
    took = last - spawned[0]
    report.check("time that burst + rate x window leaves for so many calls", "ledger",
                 expected=f">= {least_us} us", observed=f"{took} us", ok=took >= least_us)  # fmt: skip
    always(report, run)


def retry_storm(lab: Lab, report: PhaseReport) -> None:
    """An agent that heeds nothing storms a provider that answers 500; the breaker keeps the storm away from it."""
    provider = lab.provider({"status": 500, "times": 0})
    run = lab.run(
        provider,
        policy=f"[resilience]\nbreaker_threshold = {THRESHOLD}\nbreaker_cooldown_seconds = 600\n"
        "breaker_max_cooldown_seconds = 600\n",
        agent={"MODE": "runaway", "CALLS": str(STORM)},
    ).wait()
    evidence = run.evidence
    report.check("requests that reached the provider", "process", expected=THRESHOLD, observed=provider.requests())
    report.check("calls on record", "ledger", expected=THRESHOLD, observed=len(evidence.of("model.request")))
    refused = evidence.member("totals.denied")
    report.check("calls refused", "receipt", expected=STORM - THRESHOLD, observed=refused)
    report.check("calls refused", "metrics", expected=STORM - THRESHOLD,
                 observed=evidence.sum_of("docket_breaker_refusals_total"))  # fmt: skip
    entries = len(evidence.of("model.denied"))
    report.check("repeated refusals are summed", "ledger", expected=f"fewer than {STORM // 4} events",
                 observed=entries, ok=entries < STORM // 4)  # fmt: skip
    report.check("what the storm cost", "receipt", expected=None, observed=_cost(evidence.member("totals")))
    always(report, run)


def cache(lab: Lab, report: PhaseReport) -> None:
    """The same two questions again and again cost twice; three questions, where two answers fit, cost each time."""
    for prompts, hits in ((2, CALLS - 2), (3, 0)):
        provider = lab.provider()
        run = lab.run(
            provider,
            policy="[cache]\nenabled = true\nmax_entries = 2\n",
            agent={"CALLS": str(CALLS), "PROMPTS": str(prompts)},
        ).wait()
        evidence = run.evidence
        report.check(
            f"{prompts} questions: hits", "ledger", expected=hits, observed=len(evidence.of("model.cache_hit"))
        )
        report.check(f"{prompts} questions: calls that cost", "receipt", expected=CALLS - hits,
                     observed=evidence.member("totals.calls"))  # fmt: skip
        report.check(f"{prompts} questions: requests that came in", "process", expected=CALLS - hits,
                     observed=provider.requests())  # fmt: skip
        report.check(f"{prompts} questions: hits", "receipt", expected=hits, observed=evidence.member("cache.hits"))
        always(report, run)


def _cost(totals: object) -> object:
    cost = cast(JsonObject, totals).get("cost_usd") if isinstance(totals, dict) else None
    return None if cost == "0" else cost
