"""Only a run that is over is settled by its ledger; ``tests/e2e/test_shared_budget.py`` settles real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from docket.errors import LedgerError
from docket.fleet.database import connect
from docket.fleet.store import Store
from docket.storage.lock import Lock
from docket.supervisor.settlement import settle_run
from kit.runs import new_run


def test_a_run_that_lives_is_not_settled_behind_its_back(tmp_path: Path) -> None:
    store = Store(connect(f"sqlite://{tmp_path}/store", create=True))
    store.init()
    run = new_run(tmp_path)
    lock = Lock(run)
    with pytest.raises(LedgerError, match="lives"):
        settle_run(run.path, store)
    lock.release()
    store.close()
