"""Drills of docket's own processes: the supervisor killed, the guardian killed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from docket.chaos.lab import Lab, Run, wait_for
from docket.chaos.phases.always import tell
from docket.chaos.report import PhaseReport

STRAY = (
    sys.executable,
    "-c",
    "import subprocess,sys,os;subprocess.Popen(['setsid','sleep','300']);os.execv(sys.executable,"
    "[sys.executable,'-m','docket.sim.agent'])",
)
"""An agent with a descendant that has left its session."""
SLOW = {"MODE": "runaway", "CALLS": "100000"}


def supervisor_killed(lab: Lab, report: PhaseReport) -> None:
    """SIGKILL of docket leaves a readable prefix and no process."""
    run = lab.run(lab.provider({"latency_ms": 20, "times": 0}), agent=SLOW, argv=STRAY)
    run.until_event("model.response", 3)
    marked = descendants(run.process.pid)
    report.check("descendants before", "process", expected="at least 3", observed=len(marked), ok=len(marked) >= 3)
    run.process.send_signal(signal.SIGKILL)
    run.wait()
    _until_gone(run, marked)
    report.check("descendants after", "process", expected=[], observed=[pid for pid in marked if _alive(pid)])
    report.check("receipt", "disk", expected=None, observed=run.evidence.receipt)
    report.check("docket verify", "ledger", expected="unfinished", observed=run.evidence.verdict)
    tell(report, run)


def guardian_killed(lab: Lab, report: PhaseReport) -> None:
    """SIGKILL of the guardian: docket notices, ends the run, and says so."""
    run = lab.run(lab.provider({"latency_ms": 20, "times": 0}), agent=SLOW)
    run.until_event("model.response", 3)
    marked = descendants(run.process.pid)
    guardians = [pid for pid in marked if "docket.process.guardian" in _command(pid)]
    report.check("guardians", "process", expected=1, observed=len(guardians))
    for pid in guardians:
        os.kill(pid, signal.SIGKILL)
    run.wait()
    _until_gone(run, marked)
    report.check("exit status", "process", expected=125, observed=run.status)
    report.check("descendants after", "process", expected=[], observed=[pid for pid in marked if _alive(pid)])
    tell(report, run)


def descendants(pid: int) -> list[int]:
    """Every process below ``pid``, by the parent links of /proc."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            parent = _parent(int(entry.name))
            if parent is not None:
                parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _parent(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def _until_gone(run: Run, pids: list[int]) -> None:
    wait_for(lambda: not any(_alive(pid) for pid in pids), "the end of every descendant", run.clock)
