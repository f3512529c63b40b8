"""What state a run directory is in, what that means, what it costs, and the command that deals with it.

Never writes. Invariant: what cannot be told apart is said, never guessed; the table of ``ledger.recovery`` decides what
may be repaired, and verification whether a sealed run is still what was sealed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from docket.errors import DocketError, FormatError, LedgerError
from docket.primitives.canonical import JsonObject
from docket.storage.documents import documents_of
from docket.storage.lock import holder_of
from docket.storage.paths import BLOBS, LEDGER, RECEIPT, RunDirectory
from docket.storage.regular import open_regular
from docket.supervisor.ledger_history import Past, read_past
from docket.supervisor.processes import processes_of
from docket.verify.report import Tail, Verdict
from docket.verify.verifier import verify

HEALTHY = frozenset({"complete", "running"})
UNREADABLE = frozenset({"unreadable"})
_TEMPORARY = re.compile(r"\..+\.tmp")
Sealed = tuple[str, str, str | None]
"""A state of a run with a receipt, what it means, and the command that deals with it."""
CHANGED: Sealed = (
    "sealed but changed",
    "what stands here is not what was sealed: ledger, checkpoints or receipt were changed afterwards",
    "docket verify",
)
BEYOND: Sealed = (
    "beyond the receipt",
    "the ledger goes on after what the receipt binds, and not as a session that continues it",
    "docket verify",
)
BY_FAILURE: dict[str, Sealed] = {"binding.tail": BEYOND}
"""By the check that fails; any other one is CHANGED."""
BY_TAIL: dict[Tail, Sealed] = {
    Tail.NOTHING: ("complete", "", None),
    Tail.CONTINUED: (
        "no receipt",
        "a further session was started behind this receipt and was not sealed",
        "docket doctor --close",
    ),
    Tail.LINES: BEYOND,
    Tail.FRAGMENT: BEYOND,
}
"""By what stands behind the receipt's events, where no check fails."""
MAX_NAMED = 5
"""Files named in one finding; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One more thing that is wrong with a directory, beside its state."""

    kind: str
    """``stale temporary files``, ``blob changed``, ``permissions``, ``torn checkpoint``, ``processes alive``."""
    detail: str
    command: str | None = None


@dataclass(slots=True)
class Diagnosis:
    """One run directory."""

    path: Path
    state: str
    """``complete``, ``running``, ``no receipt``, ``torn tail``, ``rolled back``, ``damaged``, ``two writers``,
    ``sealed but changed``, ``beyond the receipt``, ``never started`` or ``unreadable``."""
    detail: str
    meaning: str
    command: str | None = None
    facts: JsonObject = field(default_factory=dict)
    """Numbers for programs: offset and bytes of a tear, the last whole event, the missing range."""
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        return self.state in HEALTHY and not self.troubles

    def to_json(self) -> JsonObject:
        return {
            "docket": self.path.name,
            "path": str(self.path),
            "state": self.state,
            "detail": self.detail,
            "meaning": self.meaning,
            "command": self.command,
            "troubles": [
                {"kind": trouble.kind, "detail": trouble.detail, "command": trouble.command}
                for trouble in self.troubles
            ],
            **self.facts,
        }


def diagnose(path: Path) -> Diagnosis:
    """The state of the run directory ``path``."""
    try:
        run = RunDirectory.open(path)
    except DocketError as error:
        return Diagnosis(path, "unreadable", str(error), "nothing can be said of it")
    try:
        holder = holder_of(run)
        if holder is not None:
            detail = f"held by {holder}"
            return Diagnosis(path, "running", detail, "its supervisor lives and writes; look again when it ended")
        diagnosis = _of_ended(run)
        diagnosis.troubles += [*_temporaries(run), *_permissions(run), *_blobs(run), *_living(run)]
        return diagnosis
    except (LedgerError, OSError) as error:
        return Diagnosis(path, "unreadable", str(error), "nothing can be said of it")
    finally:
        run.close()


def _of_ended(run: RunDirectory) -> Diagnosis:
    if not (run.path / LEDGER).exists():
        return _unborn(run, "there is no ledger")
    past = read_past(run)
    receipt = (run.path / RECEIPT).exists()
    state = past.decision.state
    if state == "intact":
        diagnosis = _sealed(run) if receipt else _unsealed(run, past)
    elif state == "torn":
        diagnosis = _sealed_and_torn(run, past) if receipt else _torn(run, past)
    else:
        diagnosis = _refused(run, past)
    diagnosis.facts |= _facts(past)
    notes = past.read.notes
    if notes.length > notes.offset:
        torn = f"{notes.length - notes.offset} bytes from byte {notes.offset} on are no whole checkpoint"
        if notes.fault is not None:
            torn += f" and no torn one either: {notes.fault}"
        command = None if notes.fault else f"docket doctor --quarantine-torn-tail {run.path}"
        diagnosis.troubles.append(Trouble("torn checkpoint", torn, command))
    return diagnosis


def _unborn(run: RunDirectory, detail: str) -> Diagnosis:
    meaning = "docket ended before it started an agent: nothing happened in this run"
    return Diagnosis(run.path, "never started", detail, meaning, "docket prune")


def _unsealed(run: RunDirectory, past: Past) -> Diagnosis:
    if past.policy is None:
        return _unborn(run, f"the ledger holds {past.read.scan.chain.size} events, and no policy")
    size, attested = past.read.scan.chain.size, past.read.scan.attested
    lost = f"; {past.lost} events are known to be lost" if past.lost else ""
    detail = f"{size} events, {len(past.open_requests)} calls open, checkpoints cover {attested} events{lost}"
    meaning = (
        f"the supervisor died before it sealed the run. Up to event {attested - 1} the last checkpoint says what is "
        "missing; behind it nobody knows. The open calls' cost is unknown and counts at what was held for them; a "
        "receipt made now is vouched for by nobody"
        if attested
        else "the supervisor died before its first checkpoint: what is missing, nobody knows; a receipt made now is "
        "vouched for by nobody"
    )
    return Diagnosis(run.path, "no receipt", detail, meaning, f"docket doctor --close {run.path}")


def _torn(run: RunDirectory, past: Past) -> Diagnosis:
    meaning = (
        "the machine or docket died inside a write. No event that was acknowledged is in these bytes; they are moved "
        "to a file beside the ledger, never deleted"
    )
    command = f"docket doctor --quarantine-torn-tail {run.path}"
    return Diagnosis(run.path, "torn tail", past.decision.message, meaning, command)


def _sealed_and_torn(run: RunDirectory, past: Past) -> Diagnosis:
    meaning = (
        "a session that would have continued this run died inside its first write, or another hand wrote here; "
        "the receipt binds the events before"
    )
    command = f"docket doctor --quarantine-torn-tail {run.path}"
    return Diagnosis(run.path, "beyond the receipt", past.decision.message, meaning, command)


def _refused(run: RunDirectory, past: Past) -> Diagnosis:
    fault, message = past.read.scan.fault, past.decision.message
    keep = "docket appends nothing to it and repairs nothing"
    if past.decision.state == "rolled-back":
        meaning = f"events that were signed are gone: an older copy was put back, or the end was cut off; {keep}"
        return Diagnosis(run.path, "rolled back", message, meaning)
    if fault is not None and fault.detail == "duplicate-seq":
        meaning = f"two writers appended to one ledger, each behind the same event; {keep}"
        return Diagnosis(run.path, "two writers", message, meaning)
    meaning = f"no crash leaves this: the file was changed, or its storage is broken; {keep}"
    return Diagnosis(run.path, "damaged", message, meaning)


def _sealed(run: RunDirectory) -> Diagnosis:
    try:
        report = verify(documents_of(run))
    except FormatError as error:
        return Diagnosis(run.path, "unreadable", str(error), "nothing can be said of it")
    if report.verdict is Verdict.UNREADABLE:
        return Diagnosis(run.path, "unreadable", report.reason, "nothing can be said of it")
    failed = report.failure.check if report.failure is not None else None
    state, meaning, command = BY_FAILURE.get(failed, CHANGED) if failed else BY_TAIL[report.tail]
    detail = report.reason if command else str(report.verdict)
    return Diagnosis(run.path, state, detail, meaning or report.reason, command and f"{command} {run.path}")


def _facts(past: Past) -> JsonObject:
    scan = past.read.scan
    facts: JsonObject = {"events": scan.chain.size, "attested": scan.attested, "open_calls": len(past.open_requests)}
    if scan.fault is not None:
        facts |= {"offset": scan.offset, "bytes": scan.rest, "last_whole_event": scan.chain.size - 1}
    if scan.signed > scan.chain.size:
        facts["missing"] = [scan.chain.size, scan.signed - 1]
    return facts


def _temporaries(run: RunDirectory) -> list[Trouble]:
    names = [name for name in os.listdir(run.fd) if _TEMPORARY.fullmatch(name)]
    return [Trouble("stale temporary files", _some(names), f"rm {run.path}/.*.tmp")] if names else []


def _permissions(run: RunDirectory) -> list[Trouble]:
    wide = []
    for root, _, names, directory in os.fwalk(dir_fd=run.fd, follow_symlinks=False):
        for name in names:
            state = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(state.st_mode) and stat.S_IMODE(state.st_mode) & 0o177:
                wide.append(os.path.normpath(os.path.join(root, name)))
    if stat.S_IMODE(os.fstat(run.fd).st_mode) & 0o077:
        wide.append(".")
    command = f"chmod -R u=rwX,go= {run.path}"
    return [Trouble("permissions", f"others may use {_some(wide)}", command)] if wide else []


def _blobs(run: RunDirectory) -> list[Trouble]:
    changed = [path.name for path in sorted((run.path / BLOBS).glob("*")) if not _hashes_to_name(path)]
    return [Trouble("blob changed", f"{_some(changed)} do not hash to their names")] if changed else []


def _hashes_to_name(path: Path) -> bool:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == path.name
    except OSError:
        return False


def _living(run: RunDirectory) -> list[Trouble]:
    pids = processes_of(run.name).pids
    names = " ".join(map(str, pids))
    return [Trouble("processes alive", f"processes of the run still live: {names}", f"kill {names}")] if pids else []


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"
