"""Probes of the boundary: what goes through is what was sent, and what must not go through does not."""

from __future__ import annotations

import json
from typing import cast

from docket.chaos.probes import scenarios
from docket.chaos.report import PhaseReport
from docket.chaos.selftest import Bench
from docket.errors import ProcessError
from docket.primitives.canonical import JsonObject


def visit(bench: Bench) -> JsonObject:
    """What the agent of the ordinary scenario saw. Raises ProcessError where it left nothing."""
    path = bench.of(scenarios.ordinary).directory / "visit.json"
    if not path.exists():
        raise ProcessError(f"the agent left no visit.json: {bench.of(scenarios.ordinary).said()[-300:]}")
    return cast(JsonObject, json.loads(path.read_text()))


def _both(bench: Bench, number: int, member: str) -> tuple[object, object]:
    seen = visit(bench)
    direct = cast("list[JsonObject]", seen["direct"])[number]
    through = cast("list[JsonObject]", seen["through"])[number]
    return direct[member], through[member]


def bytes_unchanged(bench: Bench, report: PhaseReport) -> None:
    """A plain call directly and through the boundary: status, headers and body are equal."""
    for member in ("status", "headers", "sha256"):
        direct, through = _both(bench, 0, member)
        report.check(f"{member} of a plain answer", "agent", expected=direct, observed=through)


def stream_streams(bench: Bench, report: PhaseReport) -> None:
    """A paced stream arrives in pieces, as it is sent, with the same bytes."""
    direct, through = _both(bench, 1, "sha256")
    report.check("bytes of a stream", "agent", expected=direct, observed=through)
    _, pieces = _both(bench, 1, "pieces")
    report.check("pieces of a paced stream", "agent", expected="over 3", observed=pieces, ok=cast(int, pieces) > 3)
    slow, spread = cast("tuple[int, int]", _both(bench, 1, "spread_ms"))
    report.check(
        "time from first to last piece",
        "agent",
        expected=f"{slow} ms directly",
        observed=f"{spread} ms",
        ok=spread * 2 > slow,
    )


def token_required(bench: Bench, report: PhaseReport) -> None:
    """A spending route without the run's token is a plain 403, recorded."""
    report.check("status without the token", "agent", expected=403, observed=visit(bench)["without_token"])
    report.check("status with a wrong token", "agent", expected=403, observed=visit(bench)["wrong_token"])
    events = bench.of(scenarios.ordinary).evidence.of("x-docket.unauthorized")
    report.check("recorded", "ledger", expected=2, observed=sum(cast(int, event["count"]) for event in events))


def model_denied(bench: Bench, report: PhaseReport) -> None:
    """A model that the policy does not allow is refused and never forwarded."""
    evidence = bench.of(scenarios.ordinary).evidence
    report.check("status of a denied model", "agent", expected=400, observed=visit(bench)["denied"])
    denied = [(event["code"], event["count"]) for event in evidence.of("model.denied")]
    report.check("recorded refusals", "ledger", expected=1, observed=len(denied))
    report.check("forwarded calls", "ledger", expected=2, observed=len(evidence.of("model.request")))


def usage_exact(bench: Bench, report: PhaseReport) -> None:
    """Tokens and cost of the receipt are the sums of what the provider stated."""
    evidence = bench.of(scenarios.ordinary).evidence
    sources = [cast(JsonObject, end["usage"])["source"] for end in evidence.of("model.response")]
    report.check("usage of both calls", "ledger", expected=["reported", "reported"], observed=sources)
    report.check("cost", "receipt", expected="exact", observed=evidence.member("totals.cost_is"))


def ready(bench: Bench, report: PhaseReport) -> None:
    """Readiness answers without a token."""
    report.check("/docket/readyz", "agent", expected=200, observed=visit(bench)["readyz"])
