"""Ending a run whose supervisor died: torn bytes aside, open calls lost, a recovered receipt.

Invariants: everything happens under the run's lock, taken before the ledger is read; nothing is appended behind a torn
line; damage is refused, never repaired; the receipt is vouched for by nobody.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from docket.clock import Clock
from docket.control.budget import Amounts
from docket.control.evidence import Guard
from docket.errors import FormatError, LedgerDamagedError, LedgerError, LedgerWriteError
from docket.ledger.codec import draft
from docket.ledger.events import (
    Event,
    LedgerRecovered,
    ModelError,
    ModelRequest,
    SessionEnd,
)
from docket.ledger.usage import Usage
from docket.primitives.canonical import JsonObject, decode_object
from docket.primitives.instant import timestamp
from docket.primitives.money import Usd
from docket.primitives.sealed import Entropy
from docket.receipt import build
from docket.receipt.model import Anchor, Caps, Evidence, Run
from docket.storage.documents import documents_of
from docket.storage.durable import write_new
from docket.storage.ledger_file import LedgerFile
from docket.storage.lock import Lock
from docket.storage.paths import CHECKPOINTS, LEDGER, RECEIPT, RunDirectory, earlier_receipt
from docket.storage.quarantine import Quarantined, quarantine
from docket.storage.record import Committed, Item, Record, position_of, reopen_files
from docket.storage.reserve import drop
from docket.supervisor.ledger_history import Past, read_past
from docket.supervisor.processes import processes_of
from docket.supervisor.seal import TOOL
from docket.supervisor.second_place import left_behind
from docket.verify.report import Verdict
from docket.verify.verifier import verify


@dataclass(frozen=True, slots=True)
class Closed:
    """What closing a run did."""

    quarantined: Quarantined | None
    lost_calls: int
    events: int
    root: str
    from_memory: bool = False
    """Whether the receipt is the one that the supervisor itself had left elsewhere."""


def set_aside_torn(run: RunDirectory, past: Past, clock: Clock) -> tuple[Past, Quarantined | None]:
    """Quarantine a torn tail of ledger or checkpoints and record it; what the ledger then holds.

    For the holder of the lock. Raises LedgerDamagedError for anything that is no tear.
    """
    decision = past.decision
    if decision.action == "refuse":
        raise LedgerDamagedError(f"{run.path}: {decision.message}", hint="damage is never repaired: keep the files")
    notes = past.read.notes
    if notes.fault is not None:
        raise LedgerDamagedError(f"{run.path / CHECKPOINTS}: what stands behind its last note is {notes.fault}")
    if notes.length > notes.offset:
        quarantine(run, CHECKPOINTS, notes.offset)
        past = read_past(run)
    past = _take_reserve(run, past)
    if decision.action == "append":
        return past, None
    moved = quarantine(run, LEDGER, past.read.scan.offset)
    past = read_past(run)
    if past.sessions:
        event = LedgerRecovered(offset=moved.offset, bytes=moved.bytes, sha256=moved.sha256)
        append_as_doctor(run, past, [event], clock)
        past = read_past(run)
    return past, moved


def _take_reserve(run: RunDirectory, past: Past) -> Past:
    """Put a note that stands only in the reserve where notes belong, and give its room back; what is known then."""
    kept = past.read.notes.kept
    drop(run)
    if not kept:
        return past
    notes = LedgerFile.reopen(run, CHECKPOINTS, past.read.notes.offset, past.read.notes.digest.copy())
    try:
        notes.append(kept)
    finally:
        notes.close()
    return read_past(run)


def lose_open_calls(run: RunDirectory, past: Past, clock: Clock) -> Past:
    """End every open call as ``lost``, booked at its hold; what the ledger then holds. For the holder of the lock."""
    if not past.open_requests:
        return past
    append_as_doctor(run, past, [_lost(request) for request in past.open_requests.values()], clock)
    return read_past(run)


def append_as_doctor(run: RunDirectory, past: Past, events: list[Event], clock: Clock) -> None:
    """Append ``events``, which no run key vouches for, behind what ``past`` read. Raises LedgerWriteError."""
    ledger, notes = reopen_files(run, past.read)
    record = Record(
        run,
        ledger,
        notes,
        key=None,
        clock=clock,
        guard=Guard("stop"),
        chain=past.read.scan.chain,
        watched={},
        committed=_ignore,
    )
    try:
        for event in events:
            item = Item(draft(event))
            record.commit([item])
            if item.error is not None:
                raise item.error
    finally:
        record.close()


def refuse_living(run: RunDirectory) -> int:
    """Raise LedgerError where a process of the run still lives; gives how many could not be looked at."""
    living = processes_of(run.name)
    if living.pids:
        names = ", ".join(str(pid) for pid in living.pids)
        raise LedgerError(f"processes of {run.name} still live: {names}", hint="end them first, then close the run")
    return living.unseen


def quarantine_torn_tail(run: RunDirectory, clock: Clock) -> Quarantined | None:
    """Move a torn tail of the run's ledger and checkpoints aside; None where the ledger had none.

    Raises LedgerLockedError if its supervisor lives, LedgerDamagedError for anything that is no tear.
    """
    lock = Lock(run)
    try:
        return set_aside_torn(run, read_past(run), clock)[1]
    finally:
        lock.release()


def close(run: RunDirectory, clock: Clock, entropy: Entropy = os.urandom, elsewhere: tuple[Path, ...] = ()) -> Closed:
    """End the run whose directory is ``run``; it gets a receipt of kind ``recovered``.

    A receipt from memory that its supervisor left in one of ``elsewhere``, and that is right for this ledger, says more
    and is put in its place instead.

    Raises LedgerLockedError if its supervisor lives, LedgerError if a process of it does or it has a receipt,
    LedgerDamagedError where the ledger may not be appended to.
    """
    lock = Lock(run)
    try:
        unseen = refuse_living(run)
        past, moved = set_aside_torn(run, read_past(run), clock)
        if run.read(RECEIPT) is not None:
            raise LedgerError(f"{run.path} has a receipt", hint=f"docket verify {run.path}")
        if past.policy is None:
            last = "its last session" if len(past.sessions) > 1 else "it"
            raise LedgerError(
                f"{run.path}: {last} ended before its policy was recorded: no agent was started, nothing to close",
                hint="docket run --resume goes on with it"
                if len(past.sessions) > 1
                else "docket prune removes whole runs",
            )
        if _put_back_receipt(run, past):
            position = position_of(past.read)
            return Closed(moved, 0, position.size, position.root)
        if _take_from_memory(run, past, left_behind(run.name, elsewhere)):
            position = position_of(past.read)
            return Closed(moved, 0, position.size, position.root, from_memory=True)
        lost = len(past.open_requests)
        past = lose_open_calls(run, past, clock)
        root = _write_receipt(run, past, clock, entropy, unseen)
        return Closed(moved, lost, past.read.scan.chain.size, root)
    finally:
        lock.release()


def _take_from_memory(run: RunDirectory, past: Past, receipt: bytes | None) -> bool:
    """Put ``receipt`` into its place where it is right for this ledger and its last session; whether it was."""
    if receipt is None or not _is_of_last_session(past, receipt):
        return False
    if verify(replace(documents_of(run), receipt=receipt)).verdict is not Verdict.INCOMPLETE:
        return False
    try:
        write_new(run.disk, RECEIPT, receipt, run.fd)
    except OSError as error:
        raise LedgerWriteError(f"the receipt could not be written: {error.strerror}") from error
    return True


def _is_of_last_session(past: Past, receipt: bytes) -> bool:
    try:
        starts = decode_object(receipt.rstrip(b"\n")).get("starts")
    except FormatError:
        return False
    return isinstance(starts, list) and len(starts) == len(past.sessions)


def _put_back_receipt(run: RunDirectory, past: Past) -> bool:
    """Undo what a further session did before it died without a trace: the last one's receipt is the run's again."""
    kept = earlier_receipt(len(past.sessions) - 1)
    if past.read.scan.last_type != SessionEnd.type or run.read(kept) is None:
        return False
    try:
        run.disk.rename(kept, RECEIPT, run.fd)
        run.disk.sync_directory(run.fd)
    except OSError as error:
        raise LedgerWriteError(f"cannot put back {run.path / kept}: {error.strerror}") from error
    return True


def _write_receipt(run: RunDirectory, past: Past, clock: Clock, entropy: Entropy, unseen: int) -> str:
    position = position_of(past.read)
    booked = past.rebooking.booked
    document = build.build(
        Run(
            docket=run.name,
            created_at=timestamp(clock.unix_us()),
            tool=TOOL,
            outcome="lost",
            exit=past.exit,
            policy=past.policy or {},
            tables=tuple(past.tables),
            kind="recovered",
            attested=past.read.scan.attested,
            evidence=Evidence(ledger_complete="unknown" if not past.lost else False, unwritten_events=past.lost),
            caps=_caps(past.policy or {}, booked),
            limits=_limits(unseen),
        ),
        past.totals,
        past.findings.found(),
        Anchor(
            size=position.size,
            root=position.root,
            head=position.head,
            checkpoint=past.read.notes.last.decode(),
            starts=past.starts(position),
            end=None,
        ),
        entropy,
    )
    try:
        write_new(run.disk, RECEIPT, build.to_line(document), run.fd)
    except OSError as error:
        raise LedgerWriteError(f"the receipt could not be written: {error.strerror}") from error
    return position.root


def _caps(policy: JsonObject, booked: Amounts) -> Caps:
    """What was booked, against the limits of a policy document."""
    caps, budget = policy.get("caps"), policy.get("budget")
    caps = caps if isinstance(caps, dict) else {}
    usd, wall = caps.get("max_usd"), caps.get("max_wall_seconds")
    tokens, calls = caps.get("max_tokens"), caps.get("max_model_calls")
    quota = isinstance(budget, dict) and budget.get("mode") == "quota"
    return Caps(
        usd_limit=Usd.parse(usd) if isinstance(usd, str) and not quota else None,
        usd_booked=Usd(booked.usd),
        tokens_limit=tokens if isinstance(tokens, int) else None,
        tokens_booked=booked.tokens,
        calls_limit=calls if isinstance(calls, int) else None,
        wall_limit_us=int(Decimal(wall) * 1_000_000) if isinstance(wall, str) else None,
    )


def _limits(unseen: int) -> tuple[str, ...]:
    if not unseen:
        return ()
    return (f"{unseen} processes of other users could not be looked at: whether one belonged to the run is not shown.",)


def _lost(request: ModelRequest) -> ModelError:
    return ModelError(
        by="doctor",
        call=request.call,
        status=None,
        reason="lost",
        provider=request.provider,
        model=request.model,
        tier="standard",
        upstream=request.upstream,
        usage=Usage(source="none"),
    )


def _ignore(committed: Committed) -> None:
    """Nobody watches a run that has ended."""
