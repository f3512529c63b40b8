"""Probes of the record: what it keeps out, what it says when it cannot be written, and who finds it out when edited."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from docket.chaos.evidence import Evidence, disagreements
from docket.chaos.probes import scenarios
from docket.chaos.report import PhaseReport
from docket.chaos.selftest import Bench, Skip

VERIFY_SECONDS = 60.0
CHECKOUT = Path(__file__).parents[4]
"""The project's checkout, where the other two verifiers stand beside ``src``."""


def receipt_complete(bench: Bench, report: PhaseReport) -> None:
    """The ordinary run left a complete receipt that is signed by its run key."""
    evidence = bench.of(scenarios.ordinary).evidence
    report.check("kind", "receipt", expected="complete", observed=evidence.member("kind"))
    report.check("complete", "receipt", expected=True, observed=evidence.member("ops.evidence.ledger_complete"))
    report.check("intact", "receipt", expected=True, observed=evidence.member("ops.evidence.intact"))
    signatures = evidence.member("signatures")
    report.check("signatures", "receipt", expected=1, observed=len(signatures) if isinstance(signatures, list) else 0)


def verifies(bench: Bench, report: PhaseReport) -> None:
    """``docket verify`` accepts the ordinary run."""
    report.check("verdict", "disk", expected="verified", observed=bench.of(scenarios.ordinary).evidence.verdict)


def other_verifier(
    tool: str, source: str, command: Callable[[Path], list[str]]
) -> Callable[[Bench, PhaseReport], None]:
    """A probe: the verifier at ``source`` in the checkout, run by ``tool``, gives the same verdict."""

    def look(bench: Bench, report: PhaseReport) -> None:
        path = CHECKOUT / source
        if not path.exists():
            raise Skip(f"no {source} beside this installation")
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is not installed")
        run = bench.of(scenarios.ordinary).evidence.directory
        done = subprocess.run(
            [*command(path), "--json", str(run)],
            cwd=path.parent,
            capture_output=True,
            check=False,
            timeout=VERIFY_SECONDS,
        )
        try:
            verdict = json.loads(done.stdout)["verdict"]
        except (ValueError, KeyError, TypeError):
            verdict = f"exit {done.returncode}: {done.stderr.decode(errors='replace')[-200:]}"
        report.check("verdict", "disk", expected="verified", observed=verdict)

    return look


def edit_found(bench: Bench, report: PhaseReport) -> None:
    """One changed byte in a copy of the ledger fails its verification."""
    copy = bench.root / "edited"
    shutil.copytree(bench.of(scenarios.ordinary).evidence.directory, copy)
    ledger = copy / "ledger.jsonl"
    data = bytearray(ledger.read_bytes())
    data[len(data) // 2] ^= 0x01
    ledger.write_bytes(data)
    report.check(
        "verdict of the edited copy", "disk", expected="failed", observed=Evidence(copy, copy / "none").verdict
    )


def secrets_kept_out(bench: Bench, report: PhaseReport) -> None:
    """A credential given as header and argument is in no file of the run and in no output."""
    run = bench.of(scenarios.ordinary)
    needle = scenarios.SECRET.encode()
    files = [path for path in run.evidence.directory.rglob("*") if path.is_file()]
    leaks = [path.name for path in [*files, run.stderr, run.evidence.metrics_file] if needle in path.read_bytes()]
    report.check("files with the credential", "disk", expected=[], observed=leaks)


def metrics_agree(bench: Bench, report: PhaseReport) -> None:
    """The last metrics and the ledger tell the same story."""
    report.check("differences", "metrics", expected=[], observed=disagreements(bench.of(scenarios.ordinary).evidence))


def memory_hidden(bench: Bench, report: PhaseReport) -> None:
    """The receipt says that the run key's memory was hidden exactly where this user may not read other processes."""
    said = str(bench.of(scenarios.ordinary).evidence.member("enforcement.mechanisms.memory"))
    expected = "not prevented" if _may_read_processes() else "hidden"
    report.check("docket's memory", "receipt", expected=expected, observed=said, ok=said.startswith(expected))


def _may_read_processes() -> bool:
    """Whether this process has CAP_SYS_PTRACE (capabilities(7)), which opens any other one's memory."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        effective = next(line.split()[1] for line in status if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> 19 & 1)


def full_disk_disclosed(bench: Bench, report: PhaseReport) -> None:
    """On a full disk the run goes on, and the receipt says what is missing."""
    evidence = bench.of(scenarios.full_disk).evidence
    complete = evidence.member("ops.evidence.ledger_complete")
    report.check("complete", "receipt", expected=False, observed=complete)
    lost = evidence.member("ops.evidence.unwritten_events")
    disclosed = isinstance(lost, int) and lost > 0
    report.check("unwritten events", "receipt", expected="at least 1", observed=lost, ok=disclosed)
    report.check("verdict", "disk", expected="incomplete", observed=evidence.verdict)


def full_volume_disclosed(bench: Bench, report: PhaseReport) -> None:
    """On a real volume that is full the receipt stands in its place and says what is missing."""
    why = bench.lab.no_volume()
    if why is not None:
        raise Skip(why)
    run = bench.lab.run(bench.provider(), volume=128 * 1024, agent={"CALLS": "20", "MODEL": scenarios.MODEL}).wait()
    evidence = run.evidence
    report.check("exit status", "process", expected=0, observed=run.status)
    report.check("kind", "receipt", expected="complete", observed=evidence.member("kind"))
    lost = evidence.member("ops.evidence.unwritten_events")
    report.check("unwritten events", "receipt", expected="at least 1", observed=lost,
                 ok=isinstance(lost, int) and lost > 0)  # fmt: skip
    report.check("verdict", "disk", expected="incomplete", observed=evidence.verdict)


def failed_sync_stops(bench: Bench, report: PhaseReport) -> None:
    """A failed sync under "stop" ends the run with 125; nothing wrong verifies."""
    run = bench.of(scenarios.failing_sync)
    report.check("exit status", "process", expected=125, observed=run.status)
    verdict = run.evidence.verdict
    report.check("verdict", "disk", expected="not verified", observed=verdict, ok=verdict != "verified")


def ceiling_named(bench: Bench, report: PhaseReport) -> None:
    """A full ledger stops the run with 42 and is named as the reason."""
    run = bench.of(scenarios.full_ledger)
    report.check("exit status", "process", expected=42, observed=run.status)
    breach = run.evidence.member("session.breach.cap")
    report.check("reason", "receipt", expected="max_events", observed=breach)
    report.check("verdict", "disk", expected="verified", observed=run.evidence.verdict)


def clock_step_recorded(bench: Bench, report: PhaseReport) -> None:
    """A step of the wall clock is recorded, and no duration follows it."""
    evidence = bench.of(scenarios.clock_step).evidence
    steps = len(evidence.of("x-docket.clock-step"))
    report.check("clock steps", "ledger", expected="at least 1", observed=steps, ok=steps >= 1)
    elapsed = [int(str(event["elapsed_us"])) for event in evidence.events]
    report.check(
        "elapsed time", "ledger", expected="never decreases", observed="as it should", ok=elapsed == sorted(elapsed)
    )
