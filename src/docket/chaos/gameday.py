"""A game day: phases in order, each a drill with what it expects. One that breaks off has failed; the day goes on."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from docket.chaos.lab import Lab
from docket.chaos.phases import agent, process, record, tree, upstream
from docket.chaos.report import GameDay, PhaseReport
from docket.clock import Clock, SystemClock
from docket.errors import DocketError, UsageError
from docket.primitives.instant import timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase; ``play`` fills in the report."""

    id: str
    title: str
    play: Callable[[Lab, PhaseReport], None]

    @property
    def expectation(self) -> str:
        return " ".join((self.play.__doc__ or "").split())


PHASES: tuple[Phase, ...] = (
    Phase(id="baseline", title="Baseline", play=upstream.baseline),
    Phase(id="upstream-failure", title="Upstream failure", play=upstream.upstream_failure),
    Phase(id="upstream-latency", title="Upstream latency", play=upstream.upstream_latency),
    Phase(id="circuit-breaker", title="Circuit breaker", play=upstream.circuit_breaker),
    Phase(id="rate-limit", title="Rate limit", play=agent.rate_limit),
    Phase(id="retry-storm", title="Retry storm", play=agent.retry_storm),
    Phase(id="partition", title="Partition", play=upstream.partition),
    Phase(id="disk-full", title="Full disk", play=record.disk_full),
    Phase(id="real-volume", title="Full volume", play=record.real_volume),
    Phase(id="volume-gone", title="Vanished volume", play=record.volume_gone),
    Phase(id="sync-failure", title="Failing sync", play=record.sync_failure),
    Phase(id="ledger-pressure", title="Ledger ceiling", play=record.ledger_pressure),
    Phase(id="clock", title="Clock lies", play=record.clock),
    Phase(id="supervisor-killed", title="Supervisor killed", play=process.supervisor_killed),
    Phase(id="guardian-killed", title="Guardian killed", play=process.guardian_killed),
    Phase(id="cache", title="Cache at its ceiling", play=agent.cache),
    Phase(id="rollback", title="Rollback", play=tree.rollback),
)


def chosen(ids: Sequence[str]) -> tuple[Phase, ...]:
    """The phases called ``ids``, in their own order; all where none is named. Raises UsageError."""
    known = {phase.id for phase in PHASES}
    unknown = [one for one in ids if one not in known]
    if unknown:
        raise UsageError(f"--phases: no phase {unknown[0]!r}", hint="phases: " + ", ".join(p.id for p in PHASES))
    return tuple(phase for phase in PHASES if not ids or phase.id in ids)


def play(
    phases: Sequence[Phase],
    directory: Path,
    *,
    command: str,
    clock: Clock | None = None,
    told: Callable[[PhaseReport], None] = lambda _report: None,
) -> GameDay:
    """Play ``phases`` in scratch rooms below ``directory``; ``told`` hears of each report as it is done."""
    clock = clock or SystemClock()
    began = timestamp(clock.unix_us())
    reports = []
    for phase in phases:
        report = PhaseReport(id=phase.id, title=phase.title, expectation=phase.expectation)
        started_us = clock.monotonic_us()
        try:
            with Lab(directory / phase.id, clock) as lab:
                phase.play(lab, report)
        except (DocketError, OSError, LookupError, TypeError, ValueError) as error:
            ending = f"{type(error).__name__}: {error}"
            report.check("the phase was played to its end", "process", expected="its end", observed=ending)
        report.seconds = (clock.monotonic_us() - started_us) / 1e6
        reports.append(report)
        told(report)
    return GameDay(began=began, host=host(), command=command, phases=reports)


def host() -> str:
    """On what machine: system, processors, Python. No host name."""
    system = platform.uname()
    return (
        f"{system.system} {system.release} {system.machine}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )
