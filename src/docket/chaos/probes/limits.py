"""Probes of caps, breaker and limiter: what stops a run, what only refuses, what lets it finish."""

from __future__ import annotations

from collections.abc import Callable

from docket.chaos.lab import Run
from docket.chaos.probes import scenarios
from docket.chaos.report import PhaseReport
from docket.chaos.selftest import Bench, Scenario


def breached(scenario: Scenario, cap: str) -> Callable[[Bench, PhaseReport], None]:
    """A probe: the run of ``scenario`` was stopped by ``cap`` with 42, and the receipt says so and verifies."""

    def look(bench: Bench, report: PhaseReport) -> None:
        run = bench.of(scenario)
        report.check(f"stopped by {cap}", "receipt", expected=cap, observed=run.evidence.member("session.breach.cap"))
        report.check("exit status", "process", expected=42, observed=run.status)
        report.check("outcome", "receipt", expected="breached", observed=run.evidence.member("session.outcome"))
        report.check("verdict", "disk", expected="verified", observed=run.evidence.verdict)

    return look


def deny_lets_live(bench: Bench, report: PhaseReport) -> None:
    """Under "deny" the agent goes on by itself, its further calls are refused, the status is 42."""
    run = bench.of(scenarios.loop_in_calls)
    count = run.count() or {}
    report.check("calls answered", "agent", expected=2, observed=count.get("ok"))
    report.check("calls refused", "agent", expected=2, observed=count.get("refused"))
    report.check("exit status", "process", expected=42, observed=run.status)


def kill_ends_the_tree(bench: Bench, report: PhaseReport) -> None:
    """Under "kill" the agent is ended by docket, not by itself."""
    run = bench.of(scenarios.loop_in_usd)
    (exited,) = run.evidence.of("proc.exit")
    report.check("signal of the agent", "ledger", expected=15, observed=exited.get("signal"))
    paid = len(run.evidence.of("model.response"))
    report.check("calls paid under 3 cents at 1 cent each", "ledger", expected=3, observed=paid)


def breaker_cycle(bench: Bench, report: PhaseReport) -> None:
    """Two blind failures open the breaker, a probe closes it, the agent finishes."""
    run = bench.of(scenarios.outage)
    kinds = ("x-docket.breaker-open", "x-docket.breaker-half-open", "x-docket.breaker-closed")
    events = [event["type"] for event in run.evidence.events if event["type"] in kinds]
    report.check("open, half-open, closed", "ledger", expected=list(kinds), observed=events)
    _finished(run, report)


def limiter(bench: Bench, report: PhaseReport) -> None:
    """Calls over the rate are refused for a while; an agent that obeys is admitted."""
    run = bench.of(scenarios.hasty)
    limited = len(run.evidence.of("x-docket.rate-limited"))
    report.check("rate-limited", "ledger", expected="at least 1", observed=limited, ok=limited >= 1)
    _finished(run, report)


def _finished(run: Run, report: PhaseReport) -> None:
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("verdict", "disk", expected="verified", observed=run.evidence.verdict)
