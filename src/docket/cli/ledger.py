"""The ledger of a run from its first event on, for commands that fold it: of a run in any state, an archive, a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from docket.errors import FormatError

if TYPE_CHECKING:
    from docket.ledger.chain import Entry


@dataclass(frozen=True, slots=True)
class Walked:
    """A run, as far as its ledger could be read."""

    run: str
    """As it was named."""
    events: int
    live: bool
    ended: bool
    """Whether the last event that was read is the end of a session."""
    problem: str | None
    """Why the ledger was not read to its end, if it was not."""

    @property
    def state(self) -> str:
        """``live`` while a docket holds it, ``ended`` where its record has an end, ``dead`` where it has none."""
        return "live" if self.live else "ended" if self.ended else "dead"


def walk(docket_dir: Path, run: Path, take: Callable[[Entry], None]) -> Walked:
    """Give ``take`` every entry of ``run``, in constant memory. Raises UsageError, FormatError where there is none."""
    from docket.ledger.events import SessionEnd
    from docket.ledger.scan import Scanner
    from docket.storage.documents import documents_at

    where = run if run.is_file() else directory(docket_dir, run)
    live = where.is_dir() and _goes_on(where)
    ledger = documents_at(where).ledger
    if ledger is None:
        raise FormatError(f"{run} has no ledger", hint="docket report shows what its receipt holds")
    scanner, events, problem = Scanner(), 0, None
    try:
        for part in ledger:
            for entry in scanner.feed(part):
                take(entry)
                events += 1
        fault = scanner.finish().fault
        if fault is not None and not (live and fault.kind == "cut"):
            problem = fault.message
    except FormatError as error:
        problem = f"event {events}: {error}"
    if problem is not None:
        problem = f"read up to here only: {problem}; docket verify says more"
    return Walked(str(run), events, live, scanner.scan.last_type == SessionEnd.type, problem)


def directory(docket_dir: Path, run: Path) -> Path:
    """The directory that ``run`` means: one that holds a ledger, whatever it is called, or a run of ``docket_dir``.

    Raises UsageError.
    """
    from docket.storage.paths import LEDGER, find_run

    return run if (run / LEDGER).is_file() else find_run(docket_dir, run)


def _goes_on(where: Path) -> bool:
    from docket.storage.lock import holder_of
    from docket.storage.paths import RunDirectory

    opened = RunDirectory.open(where)
    try:
        return holder_of(opened) is not None
    finally:
        opened.close()
