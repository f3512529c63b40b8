"""What every phase asks of every run: verdict, metrics against ledger, the agent's count; and how its story is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from docket.chaos.audit import audit
from docket.chaos.evidence import disagreements
from docket.chaos.lab import Run
from docket.chaos.plots import Band, Plot, Point
from docket.chaos.report import Moment, PhaseReport
from docket.primitives.canonical import JsonObject

TOLD = ("session.", "x-docket.", "cap.", "proc.", "policy.violation")
"""Prefixes of the events that a timeline tells; calls stand in the plot."""


def always(report: PhaseReport, run: Run, *, verdict: str = "verified", metrics: bool = True) -> None:
    """Check a run that has ended, and add its timeline and plot."""
    evidence = run.evidence
    report.check("docket verify", "receipt", expected=verdict, observed=evidence.verdict)
    if metrics:
        report.check("metrics agree with the ledger", "metrics", expected=[], observed=disagreements(evidence))
    count = run.count()
    if count is not None:
        differing = [f"{one.what}: agent {one.agent}, ledger {one.ledger}" for one in audit(evidence, count)
                     if not one.agrees]  # fmt: skip
        report.check("the agent counted the same calls on the wire", "agent", expected=[], observed=differing)
    tell(report, run)


def tell(report: PhaseReport, run: Run) -> None:
    """Add a run's timeline and the plot of its calls, with the times in which a breaker was open behind them."""
    events = run.evidence.events
    for event in events:
        if str(event["type"]).startswith(TOLD):
            report.timeline.append(Moment(seconds=_seconds(event), what=_sentence(event)))
    points = [
        Point(x=_seconds(event), y=_ms(event), kind=_kind(event))
        for event in events
        if event["type"] in ("model.response", "model.error", "model.denied")
    ]
    if points:
        report.plots.append(Plot(title=f"{report.title}: calls", unit="ms", points=points, bands=_open_times(events)))


def _open_times(events: Sequence[JsonObject]) -> list[Band]:
    bands: list[Band] = []
    since: float | None = None
    for event in events:
        if event["type"] == "x-docket.breaker-open" and since is None:
            since = _seconds(event)
        elif event["type"] in ("x-docket.breaker-closed", "session.end") and since is not None:
            bands.append(Band(start=since, end=_seconds(event), name="breaker open"))
            since = None
    return bands


def _seconds(event: JsonObject) -> float:
    return cast(int, event["elapsed_us"]) / 1e6


def _ms(event: JsonObject) -> float:
    duration = cast(JsonObject, event["data"]).get("duration_us")
    return duration / 1000 if isinstance(duration, int) else 0.0


def _kind(event: JsonObject) -> str:
    data = cast(JsonObject, event["data"])
    return f"refused {data['code']}" if event["type"] == "model.denied" else str(data["reason"])


def _sentence(event: JsonObject) -> str:
    data = cast(JsonObject, event["data"])
    said = {name: value for name, value in data.items() if isinstance(value, str | int) and len(str(value)) < 40}
    return f"{event['type']} " + ", ".join(f"{name} {value}" for name, value in said.items())
