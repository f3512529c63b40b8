"""Taking up a run that ended or died, for a further session in the same chain (evidence format section 3).

Invariants: the lock is taken before anything is read; a ledger that does not verify is refused; what was booked counts,
so that a restart cannot reset a budget; the earlier session's receipt and snapshot are kept under its number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from docket.clock import Clock
from docket.control.budget import Budget
from docket.control.rebooking import spent_cap
from docket.errors import LedgerDamagedError, LedgerError, UsageError
from docket.ledger.events import Continues, LedgerRecovered, SessionEnd
from docket.policy.model import Policy
from docket.primitives.signature import SigningKey
from docket.storage.documents import documents_of
from docket.storage.durable import Disk
from docket.storage.lock import Lock
from docket.storage.paths import RECEIPT, SNAPSHOT, RunDirectory, earlier_receipt, point_latest
from docket.supervisor.dead_run import lose_open_calls, refuse_living, set_aside_torn
from docket.supervisor.ledger_history import Past, read_past
from docket.verify.report import Verdict
from docket.verify.verifier import verify

UNLINKED = (
    "This run was continued and its sessions are not linked by an operator's key: that an earlier session was not cut "
    "back to one of its checkpoints before the next one began is not shown."
)


@dataclass(slots=True)
class TakenUp:
    """A run that is to be continued, under its lock."""

    run: RunDirectory
    lock: Lock
    past: Past
    torn: LedgerRecovered | None = None
    """A torn tail that was set aside and is not recorded yet."""

    @property
    def continues(self) -> Continues:
        """Where the new session takes up the ledger."""
        chain = self.past.read.scan.chain
        return Continues(size=chain.size, root=chain.root().hex(), head=chain.head)

    def rebook(self, budget: Budget) -> None:
        """Let ``budget`` count what the earlier sessions booked."""
        for meter, booked in zip(budget.meters, self.past.rebooking.booked, strict=True):
            meter.booked = booked
            meter.warned = meter.limit is not None and booked >= meter.warn_at

    @property
    def limits(self) -> tuple[str, ...]:
        """What the receipt says of continuing."""
        return () if all("endorsement" in session.start.data for session in self.past.sessions) else (UNLINKED,)


def take_up(path: Path, policy: Policy, operator: SigningKey | None, clock: Clock, disk: Disk | None = None) -> TakenUp:
    """Make the run directory ``path`` ready for a further session: check, set torn bytes aside, close what is open.

    Raises LedgerLockedError if its supervisor lives, LedgerDamagedError if it does not verify, UsageError where a cap
    is spent or the operator key is not that of the earlier sessions; nothing is started then.
    """
    run = RunDirectory.open(path, disk)
    lock = Lock(run)
    try:
        refuse_living(run)
        past = read_past(run)
        if not past.sessions:
            raise UsageError(f"{run.name} never started: there is nothing to continue", hint="docket run starts anew")
        _refuse_spent(run, past, policy)
        _refuse_other_operator(run, past, operator)
        sealed = past.read.scan.last_type == SessionEnd.type
        past, moved = set_aside_torn(run, past, clock)
        _refuse_unverified(run)
        past = lose_open_calls(run, past, clock)
        _keep_earlier(run, len(past.sessions) - 1)
    except BaseException:
        lock.release()
        run.close()
        raise
    torn = LedgerRecovered(offset=moved.offset, bytes=moved.bytes, sha256=moved.sha256) if moved and sealed else None
    return TakenUp(run, lock, past, torn)


def _refuse_spent(run: RunDirectory, past: Past, policy: Policy) -> None:
    spent = spent_cap(policy, past.rebooking.booked, past.read.scan.chain.elapsed_us)
    if spent is not None:
        raise UsageError(f"{run.name}: {spent}", hint="raise the cap to continue this run, or start a new one")


def _refuse_other_operator(run: RunDirectory, past: Past, operator: SigningKey | None) -> None:
    for session in past.sessions:
        endorsement = session.start.data.get("endorsement")
        if isinstance(endorsement, dict) and (operator is None or operator.public.hex() != endorsement.get("key")):
            raise UsageError(
                f"{run.name} is endorsed by operator key {endorsement.get('key')}, and so must its next session be",
                hint="give that key with --sign",
            )


def _refuse_unverified(run: RunDirectory) -> None:
    report = verify(documents_of(run))
    if report.verdict in (Verdict.FAILED, Verdict.UNREADABLE):
        raise LedgerDamagedError(f"{run.path} does not verify: {report.reason}", hint=f"docket verify {run.path}")


def _keep_earlier(run: RunDirectory, session: int) -> None:
    """Give receipt and snapshot of the earlier session its number; a file of that name is never overwritten."""
    disk, kept = run.disk, earlier_receipt(session)
    try:
        receipt = run.read(RECEIPT)
        if receipt is not None:
            if run.read(kept) != receipt:  # equal where an earlier attempt died in the middle of this
                disk.link(RECEIPT, kept, run.fd)
            disk.unlink(RECEIPT, run.fd)
        if os.path.lexists(run.path / SNAPSHOT):
            disk.rename(SNAPSHOT, f"{SNAPSHOT}-{session}", run.fd)
        disk.sync_directory(run.fd)
        point_latest(run.path.parent.parent, run.name)
        run.watch_place()
    except OSError as error:
        raise LedgerError(f"cannot keep receipt or snapshot of session {session}: {error.strerror}") from error
