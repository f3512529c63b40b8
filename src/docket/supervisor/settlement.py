"""What a run that is over leased and did not spend goes back to the store, by its ledger."""

from __future__ import annotations

from pathlib import Path

from docket.errors import LedgerError
from docket.fleet.model import Settled
from docket.fleet.store import Store
from docket.ledger.events import SessionEnd
from docket.storage.lock import holder_of
from docket.storage.paths import RunDirectory
from docket.supervisor.ledger_history import read_past


def settle_run(path: Path, store: Store) -> Settled:
    """Settle the run in ``path``. Raises LedgerError where it lives or was not closed, StoreError, UsageError."""
    run = RunDirectory.open(path)
    try:
        if holder_of(run) is not None:
            raise LedgerError(f"{run.name} lives: it settles when it ends")
        past = read_past(run)
        if past.read.scan.last_type != SessionEnd.type:
            raise LedgerError(f"{run.name} was not closed", hint=f"docket doctor --close {path}")
        return store.settle(run.name, past.rebooking.booked)
    finally:
        run.close()
