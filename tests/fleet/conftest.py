"""Stores of both engines."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from docket.fleet.database import connect
from docket.fleet.store import Store
from kit import postgres

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    if postgres.binaries() is None:
        pytest.skip("no PostgreSQL server on this machine")
    with tempfile.TemporaryDirectory(prefix="docket-pg-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        with postgres.server(Path(directory) / "data") as server:
            yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/store"
    server: postgres.Server = request.getfixturevalue("postgres_server")
    return server.database(f"store{next(_numbers)}")


@pytest.fixture
def opened(store_url: str) -> Iterator[Callable[[], Store]]:
    """Opens the store again and again, as many runs do."""
    first = Store(connect(store_url, create=True))
    first.init()
    stores = [first]

    def another() -> Store:
        stores.append(Store(connect(store_url)))
        return stores[-1]

    yield another
    for store in stores:
        store.close()
