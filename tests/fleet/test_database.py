"""The engines: what their addresses may be, and what becomes of one that is away, restarted or no store."""

from __future__ import annotations

import fcntl
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from docket.control.budget import Amounts
from docket.errors import UsageError
from docket.fleet.database import connect
from docket.fleet.model import Holder, Limits, StoreAwayError, StoreError
from docket.fleet.periods import Period
from docket.fleet.store import Store
from kit import postgres


@pytest.mark.parametrize(
    "url", ["", "redis://h/1", "sqlite:relative", "sqlite://host/path", "sqlite:///x?mode=ro", "x"]
)
def test_what_is_no_address_of_a_store_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        connect(url)


def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, and long enough to be read as one" * 9)
    with pytest.raises(StoreError):
        Store(connect(f"sqlite://{path}")).check()
    assert path.read_text().startswith("not a database")


def test_an_empty_database_says_how_it_becomes_a_store(tmp_path: Path) -> None:
    store = Store(connect(f"sqlite://{tmp_path}/new/deep/store", create=True))
    with pytest.raises(StoreError, match="no store of budgets yet"):
        store.check()
    store.close()


def test_nobody_at_the_address_is_away_and_no_password_is_said() -> None:
    store = Store(connect("postgresql://bob:hunter2@127.0.0.1:9/x"))
    with pytest.raises(StoreAwayError, match="does not answer") as caught:
        store.check()
    assert "hunter2" not in str(caught.value)


def test_a_server_that_was_restarted_is_connected_to_again(postgres_server: postgres.Server) -> None:
    store = Store(connect(postgres_server.database("restarted")))
    store.init()
    store.create("team", Limits(calls=5), Period.parse("total"))
    postgres_server.stop()
    with pytest.raises(StoreAwayError):
        store.state("team")
    postgres_server.start()
    holder = Holder(run="r1", session=0, machine="m")
    store.take(holder, ["team"], Amounts(calls=5), Amounts(calls=5), Amounts(), "a")
    assert store.state("team").used.calls == 5
    store.close()


def test_a_database_that_is_no_store_says_how_it_becomes_one(postgres_server: postgres.Server) -> None:
    store = Store(connect(postgres_server.database("empty")))
    with pytest.raises(StoreError, match="no store of budgets yet"):
        store.check()
    store.close()


def test_a_store_that_its_own_process_reads_as_a_file_loses_nothing(tmp_path: Path) -> None:
    """Closing a file ends every lock that a process has on it in SQLite's way (POSIX), and runs read whole trees."""
    path = tmp_path / "store"
    store, other = (Store(connect(f"sqlite://{path}", create=True)) for _ in range(2))
    store.init()
    store.create("team", Limits(calls=1000), Period.parse("total"))
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for each in tmp_path.iterdir():
                with suppress(OSError):
                    each.read_bytes()

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(40):
        for each in (store, other):
            holder = Holder(run=f"r{number}", session=0, machine="m")
            each.take(holder, ["team"], Amounts(calls=1), Amounts(calls=1), Amounts(), f"{number}-{id(each)}")
    stop.set()
    reader.join()
    assert store.state("team").used.calls == 80


def test_a_store_that_another_process_holds_is_away_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docket.fleet.database.BUSY_SECONDS", 0.02)
    store = Store(connect(f"sqlite://{tmp_path}/store", create=True))
    store.init()
    with (tmp_path / "store.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreAwayError, match="another process holds the store"):
            store.states()
    assert store.states() == []
