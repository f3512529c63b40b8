"""What a run that is over leased of shared budgets and did not spend goes back to the store, by its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from docket.errors import DocketError, LedgerError
from docket.storage.lock import holder_of
from docket.storage.paths import RECEIPT, RunDirectory
from docket.supervisor.ledger_history import Past, read_past

if TYPE_CHECKING:
    from docket.fleet.model import Settled
    from docket.fleet.store import Store


def settle_run(path: Path, store: Store) -> Settled:
    """Settle the run in ``path``. Raises LedgerError where it lives or was not closed, StoreError, UsageError."""
    past = _past_of(path)
    return store.settle(path.resolve().name, past.rebooking.booked)


def settle_after_close(path: Path, environ: Mapping[str, str]) -> str | None:
    """Settle what a run that was just closed had leased; return what to tell, None where it had leased nothing.

    The store is that of the environment, or of the run's policy.
    """
    past = _past_of(path)
    if not past.leased:
        return None
    from docket.fleet.places import open_store, store_url

    try:
        store = open_store(store_url(None, environ, _store_of(past)))
        try:
            settle_run(path, store)
        finally:
            store.close()
    except DocketError as error:
        return f"what it leased of shared budgets stays charged ({error}): docket budget settle {path.name}"
    return "what it leased of shared budgets and did not spend was given back"


def _past_of(path: Path) -> Past:
    run = RunDirectory.open(path)
    try:
        if holder_of(run) is not None:
            raise LedgerError(f"{run.name} lives: it settles when it ends")
        if run.read(RECEIPT) is None:
            raise LedgerError(f"{run.name} was not closed", hint=f"docket doctor --close {path}")
        return read_past(run)
    finally:
        run.close()


def _store_of(past: Past) -> str | None:
    """The address that the policy of the last session names, where it is disclosed."""
    match past.policy:
        case {"fleet": {"private": {"store": {"value": str(url)}}}}:
            return url
    return None
