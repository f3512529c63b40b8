"""Probes of supervision: how the agent ended, what it left behind, and what happens when docket itself dies."""

from __future__ import annotations

import os
import signal
import threading

from docket.chaos.lab import LOOK_SECONDS, Run
from docket.chaos.probes import scenarios
from docket.chaos.report import PhaseReport
from docket.chaos.selftest import Bench
from docket.errors import LedgerLockedError
from docket.storage.lock import Lock, holder_of
from docket.storage.paths import RunDirectory

SETTLE_SECONDS = 5.0
"""What the guardian of a killed docket is given on a busy machine; it needs some hundredths."""


def status_passed_on(bench: Bench, report: PhaseReport) -> None:
    """docket exits as the agent did, though processes of the agent held its output open."""
    run = bench.of(scenarios.ordinary)
    report.check("exit status", "process", expected=7, observed=run.status)
    report.check("exit in the receipt", "receipt", expected=7, observed=run.evidence.member("session.exit.code"))


def crash_named(bench: Bench, report: PhaseReport) -> None:
    """An agent that dies of a signal gives 128 + n, and the receipt names the signal."""
    run = bench.of(scenarios.crash)
    report.check("exit status", "process", expected=128 + signal.SIGSEGV, observed=run.status)
    observed = run.evidence.member("session.exit.signal")
    report.check("signal", "receipt", expected=int(signal.SIGSEGV), observed=observed)


def straggler_reaped(bench: Bench, report: PhaseReport) -> None:
    """Processes that outlive the agent, also one that ignores SIGTERM, are ended and recorded."""
    run = bench.of(scenarios.ordinary)
    pids = _pids(run, "left-behind")
    report.check("processes left by the agent", "disk", expected=2, observed=len(pids))
    report.check("still alive", "process", expected=[], observed=[pid for pid in pids if _alive(pid)])
    recorded = {event["pid"] for event in run.evidence.of("proc.orphan")}
    report.check("recorded", "ledger", expected="both", observed=sorted(map(str, recorded)), ok=set(pids) <= recorded)


def held_open(bench: Bench, report: PhaseReport) -> None:
    """A process that keeps the agent's output open delays the end by no more than the grace period asks."""
    run = bench.of(scenarios.ordinary)
    (exited,) = [event for event in run.evidence.events if event["type"] == "proc.exit"]
    (end,) = [event for event in run.evidence.events if event["type"] == "session.end"]
    waited = (int(str(end["elapsed_us"])) - int(str(exited["elapsed_us"]))) / 1e6
    report.check(
        "seconds from the agent's exit to the end", "ledger", expected="under 10", observed=waited, ok=waited < 10
    )


def killed_docket(bench: Bench, report: PhaseReport) -> None:
    """After a SIGKILL of docket no process is left, the lock is free, the record is a readable prefix."""
    run = bench.of(scenarios.killed)
    pids = _pids(run, "child") + _pids(run, "grandchild")
    report.check("processes that were running", "disk", expected=2, observed=len(pids))
    report.check("processes left", "process", expected=[], observed=_survivors(pids))
    report.check("verdict", "disk", expected="unfinished", observed=run.evidence.verdict)
    directory = RunDirectory.open(run.evidence.directory)
    try:
        report.check("holder of the lock", "disk", expected=None, observed=holder_of(directory))
    finally:
        directory.close()


def second_writer_refused(bench: Bench, report: PhaseReport) -> None:
    """A second writer on one record is refused by the name of the first."""
    (bench.root / "lock").mkdir()
    directory = RunDirectory.open(bench.root / "lock")
    lock = Lock(directory)
    try:
        Lock(directory).release()
        report.check("second writer", "disk", expected="refused", observed="admitted")
    except LedgerLockedError as error:
        named = f"pid {os.getpid()}" in str(error)
        report.check("second writer", "disk", expected="refused by name", observed=error, ok=named)
    finally:
        lock.release()
        directory.close()


def _pids(run: Run, name: str) -> list[int]:
    path = run.directory / name
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def _survivors(pids: list[int]) -> list[int]:
    """Those of ``pids`` that still live when the guardian has had SETTLE_SECONDS."""
    for _ in range(int(SETTLE_SECONDS / LOOK_SECONDS)):
        if not any(map(_alive, pids)):
            break
        threading.Event().wait(LOOK_SECONDS)
    return [pid for pid in pids if _alive(pid)]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
