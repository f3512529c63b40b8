"""The two engines behind a store: transactions that see and change what they saw, or nothing.

Invariants: a transaction is serial with every other one that writes; what ``transaction`` returned from is durable; a
lost connection is StoreAwayError, and whether its transaction counted is unknown.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from docket.errors import UsageError
from docket.fleet.model import StoreAwayError, StoreError

if TYPE_CHECKING:
    import psycopg

Row = Sequence[Any]
BUSY_SECONDS = 20.0
"""How long a transaction waits for others on the same SQLite file."""
LOOK_SECONDS = 0.005
"""Between two looks whether it is free."""
ANSWER_SECONDS = 10
"""How long a PostgreSQL server may take to connect, to lock or to answer."""
_GUARD = 7_046_029_254_386_353_131 % 2**63
"""The advisory lock of docket's stores: one writer at a time, as with SQLite."""


class Transaction(Protocol):
    """Statements of one transaction."""

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """Run ``statement`` and return what it gives."""
        ...

    def run(self, statement: str, *parameters: object) -> None:
        """Run ``statement``."""
        ...

    def now(self) -> int:
        """The store's own clock, in microseconds since 1970."""
        ...


class Database(Protocol):
    """An engine."""

    kind: str
    """``sqlite`` or ``postgresql``: what may be said of it on the record."""

    def transaction(self) -> Any:
        """A context manager that gives a Transaction, and commits unless an exception leaves it."""
        ...

    def close(self) -> None:
        """Give connections back."""
        ...


def connect(url: str, *, create: bool = False) -> Database:
    """The engine of ``url``, ``sqlite:///path`` or ``postgresql://...``; ``create`` makes a missing SQLite file.

    Raises UsageError for another address, StoreError where there is no store, StoreAwayError.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return Sqlite(_path_of(url), create=create)
    if scheme in ("postgresql", "postgres"):
        return Postgres(url)
    raise UsageError(f"{scheme or 'this'} is no store", hint="sqlite:///path/to/file or postgresql://host/database")


def _path_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise UsageError("a SQLite store is sqlite:///absolute/path", hint="with three slashes and nothing behind it")
    return Path("/" + unquote(parts.path).lstrip("/"))


class Sqlite:
    """One file, for the runs of one machine.

    Transactions exclude one another by ``flock`` on a file beside it, and each has a connection of its own: the locks
    that SQLite takes end when anything in the process closes the file, as docket does when it reads an agent's tree.
    """

    kind = "sqlite"

    def __init__(self, path: Path, *, create: bool) -> None:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        elif not path.exists():
            raise StoreError(f"there is no store {path}", hint="docket store init makes one")
        self._path = path

    @contextmanager
    def transaction(self) -> Iterator[_SqliteTransaction]:
        """Hold the file's lock from the first statement to the commit."""
        try:
            with self._locked(), closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield _SqliteTransaction(connection)
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _sqlite_error(error) from error

    def close(self) -> None:
        """Nothing is held between transactions."""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreAwayError(f"the store {self._path} cannot be used: {error.strerror}") from error
        try:
            for _ in range(int(BUSY_SECONDS / LOOK_SECONDS)):
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                threading.Event().wait(LOOK_SECONDS)  # flock itself waits without a limit
            else:
                raise StoreAwayError(f"another process holds the store {self._path} for {BUSY_SECONDS:g} s")
            yield
        finally:
            os.close(lock)


class _SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        return self._connection.execute(statement, parameters).fetchall()

    def run(self, statement: str, *parameters: object) -> None:
        self._connection.execute(statement, parameters)

    def now(self) -> int:
        ((now,),) = self.rows("SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)")
        return int(now) * 1000


def _sqlite_error(error: sqlite3.Error) -> StoreError:
    if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
        return StoreAwayError(f"the store cannot be used now: {error}")
    if "no such table" in str(error):
        return StoreError("this file is no store of budgets yet", hint="docket store init makes one")
    return StoreError(f"the store cannot be used: {error}")


class Postgres:
    """A database of PostgreSQL 14 or newer, for the runs of many machines."""

    kind = "postgresql"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                "a PostgreSQL store needs psycopg beside docket", hint="pip install 'docket-run[fleet]'"
            ) from error
        self._psycopg = psycopg
        self._url = url
        self._connection: psycopg.Connection[Row] | None = None

    @contextmanager
    def transaction(self) -> Iterator[_PostgresTransaction]:
        """Hold docket's advisory lock from the first statement to the commit; connect again where that was lost."""
        psycopg = self._psycopg
        try:
            connection = self._connected()
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_GUARD,))
                yield _PostgresTransaction(connection)
        except psycopg.errors.UndefinedTable as error:
            raise StoreError("this database is no store of budgets yet", hint="docket store init makes one") from error
        except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError) as error:
            self.close()
            raise StoreAwayError(f"the store does not answer: {_first_line(error)}") from error
        except psycopg.Error as error:
            raise StoreError(f"the store refuses: {_first_line(error)}") from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> psycopg.Connection[Row]:
        if self._connection is None or self._connection.closed:
            milliseconds = ANSWER_SECONDS * 1000
            self._connection = self._psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=ANSWER_SECONDS,
                application_name="docket",
                options=f"-c lock_timeout={milliseconds} -c statement_timeout={milliseconds}",
                keepalives_idle=ANSWER_SECONDS,
                tcp_user_timeout=milliseconds,
            )
        return self._connection


class _PostgresTransaction:
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        rows: list[Row] = self._connection.execute(statement.replace("?", "%s").encode(), parameters).fetchall()
        return rows

    def run(self, statement: str, *parameters: object) -> None:
        self._connection.execute(statement.replace("?", "%s").encode(), parameters)

    def now(self) -> int:
        ((now,),) = self.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(now)


def _first_line(error: BaseException) -> str:
    """What an engine says, without what stands below it; engines do not repeat passwords."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
