"""Drills of the record: a full disk, a failing sync, a ledger at its ceiling, a clock that lies."""

from __future__ import annotations

from typing import cast

from docket.chaos.audit import lost_types
from docket.chaos.lab import Lab
from docket.chaos.phases.always import always
from docket.chaos.report import PhaseReport

CALLS = 80
ROOM = 128 * 1024
"""Bytes of a drill's volume: the reserved room, and a ledger that is full after some twenty calls."""
VOLUME = 192 * 1024
"""Bytes of the real volume: it is full after some thirty calls."""
WALL_SECONDS = 3
HOUR_US = 3_600_000_000


def disk_full(lab: Lab, report: PhaseReport) -> None:
    """The ledger's volume fills up in the middle of a run whose policy says continue."""
    run = lab.run(lab.provider(), faults=f"enospc={ROOM}B", agent={"CALLS": str(CALLS)}).wait()
    evidence = run.evidence
    told = evidence.member("ops.evidence.unwritten_events")
    size = (evidence.directory / "ledger.jsonl").stat().st_size
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("calls answered", "agent", expected=CALLS, observed=(run.count() or {}).get("ok"))
    report.check("the ledger is said to be whole", "receipt", expected=False,
                 observed=evidence.member("ops.evidence.ledger_complete"))  # fmt: skip
    report.check("unwritten events", "receipt", expected="more than 0", observed=told, ok=_positive(told))
    report.check(
        "unwritten events", "metrics", expected=told, observed=evidence.sum_of("docket_unwritten_events_total")
    )
    said = f"the record is not whole: {told} events are not in the ledger"
    report.check(
        "the operator is told", "process", expected=said, observed=said if said in run.said() else "nothing of it"
    )
    report.check("unwritten events, by type", "receipt", expected=told, observed=lost_types(evidence).total())
    first = evidence.member("ops.evidence.first_failing_seq")
    before = [event["seq"] for event in evidence.events if event["type"] != "x-docket.ledger-gap"]
    report.check("first missing seq", "receipt", expected="behind a whole prefix", observed=first,
                 ok=isinstance(first, int) and before[:first] == list(range(first)))  # fmt: skip
    report.check("bytes in the ledger", "disk", expected=f"<= {ROOM}", observed=size, ok=size <= ROOM)
    report.check("last line is whole", "disk", expected=True,
                 observed=(evidence.directory / "ledger.jsonl").read_bytes().endswith(b"\n"))  # fmt: skip
    always(report, run, verdict="incomplete")


def real_volume(lab: Lab, report: PhaseReport) -> None:
    """A real volume fills up with the ledger: the run goes on and ends in its place, in the room kept for that."""
    report.skipped = lab.no_volume()
    if report.skipped is not None:
        return
    run = lab.run(lab.provider(), volume=VOLUME, agent={"CALLS": str(CALLS)}).wait()
    evidence = run.evidence
    told = evidence.member("ops.evidence.unwritten_events")
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("calls answered", "agent", expected=CALLS, observed=(run.count() or {}).get("ok"))
    report.check("kind", "receipt", expected="complete", observed=evidence.member("kind"))
    report.check("its own end", "receipt", expected=True, observed=evidence.member("end") is not None)
    report.check("unwritten events", "receipt", expected="more than 0", observed=told, ok=_positive(told))
    report.check("unwritten events, by type", "receipt", expected=told, observed=lost_types(evidence).total())
    report.check("the reserved room", "disk", expected="given back",
                 observed="still there" if (evidence.directory / "reserve").exists() else "given back")  # fmt: skip
    always(report, run, verdict="incomplete")


def volume_gone(lab: Lab, report: PhaseReport) -> None:
    """The ledger's volume vanishes in the middle of a run: the end is told elsewhere, signed, and never as whole."""
    run = lab.run(lab.provider(), faults="vanish=40", agent={"CALLS": str(CALLS)}).wait()
    evidence = run.evidence
    told = evidence.member("ops.evidence.unwritten_events")
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("kind", "receipt", expected="from-memory", observed=evidence.member("kind"))
    place = evidence.receipt_path
    report.check("place", "disk", expected="elsewhere", observed=place.parent.name if place is not None else None)
    report.check("the ledger is said to be whole", "receipt", expected=False,
                 observed=evidence.member("ops.evidence.ledger_complete"))  # fmt: skip
    report.check("unwritten events, by type", "receipt", expected=told, observed=lost_types(evidence).total())
    said = f"the record is not whole: {told} events are not in the ledger"
    report.check("the operator is told", "process", expected=said,
                 observed=said if said in run.said() else "nothing of it")  # fmt: skip
    always(report, run, verdict="incomplete")


def sync_failure(lab: Lab, report: PhaseReport) -> None:
    """A sync fails in the middle of a run: that file is never written again."""
    run = lab.run(lab.provider(), faults="eio@0.05", seed=3, agent={"CALLS": str(CALLS)}).wait()
    evidence = run.evidence
    told = evidence.member("ops.evidence.unwritten_events")
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("the ledger is said to be whole", "receipt", expected=False,
                 observed=evidence.member("ops.evidence.ledger_complete"))  # fmt: skip
    report.check("unwritten events", "receipt", expected="more than 0", observed=told, ok=_positive(told))
    size = evidence.member("ledger.size")
    report.check("what the receipt binds is there", "disk", expected=f"at least {size} events",
                 observed=len(evidence.events), ok=isinstance(size, int) and len(evidence.events) >= size)  # fmt: skip
    always(report, run, verdict="incomplete")


def ledger_pressure(lab: Lab, report: PhaseReport) -> None:
    """A runaway agent fills a small ledger: the ceiling that was met is named, and the end still fits."""
    ceiling = 64 * 1024
    run = lab.run(
        lab.provider(),
        policy=f"[resilience]\nmax_ledger_bytes = {ceiling}\n",
        agent={"MODE": "runaway", "CALLS": "5000"},
    ).wait()
    evidence = run.evidence
    size = (evidence.directory / "ledger.jsonl").stat().st_size
    report.check("exit status", "process", expected=42, observed=run.status)
    report.check("ceiling that was met", "receipt", expected="max_ledger_bytes",
                 observed=evidence.member("session.breach.cap"))  # fmt: skip
    report.check("bytes in the ledger", "disk", expected=f"<= {ceiling}", observed=size, ok=size <= ceiling)
    report.check("last event", "ledger", expected="session.end", observed=evidence.events[-1]["type"])
    always(report, run)


def clock(lab: Lab, report: PhaseReport) -> None:
    """The wall clock jumps back an hour, then stands still; the wall-time cap holds to the monotonic clock."""
    run = lab.run(
        lab.provider({"latency_ms": 20, "times": 0}),
        faults="clock_step=-3600s,clock_freeze=2s",
        policy=f"[caps]\nmax_wall_seconds = {WALL_SECONDS}\ngrace_seconds = 1\n",
        agent={"MODE": "runaway", "CALLS": "100000"},
    ).wait()
    evidence = run.evidence
    elapsed = [cast(int, event["elapsed_us"]) for event in evidence.events]
    breach = [cast(int, e["elapsed_us"]) for e in evidence.events if e["type"] == "cap.exceeded"]
    steps = [cast(int, step["step_us"]) for step in evidence.of("x-docket.clock-step")]
    durations = [cast(int, end["duration_us"]) for end in evidence.of("model.response")]
    report.check("exit status", "process", expected=42, observed=run.status)
    report.check(
        "cap that was met", "receipt", expected="max_wall_seconds", observed=evidence.member("session.breach.cap")
    )
    report.check("the step is on record", "ledger", expected=f"a step of about {-HOUR_US} us", observed=steps,
                 ok=any(abs(step + HOUR_US) < 2_000_000 for step in steps))  # fmt: skip
    report.check("time of the breach", "ledger", expected=f">= {WALL_SECONDS} s", observed=breach,
                 ok=len(breach) == 1 and breach[0] >= (WALL_SECONDS - 1) * 1_000_000)  # fmt: skip
    report.check("elapsed time never goes back", "ledger", expected=True, observed=elapsed == sorted(elapsed))
    report.check("negative durations", "ledger", expected=[], observed=[d for d in durations if d < 0])
    always(report, run)


def _positive(number: object) -> bool:
    return isinstance(number, int) and number > 0
