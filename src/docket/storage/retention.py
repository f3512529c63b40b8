"""Removing whole runs: never one that is held, never a part of one.

Invariant: a run is taken out of sight by one rename before anything of it is deleted.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from docket.errors import LedgerError, LedgerLockedError, UsageError
from docket.storage.lock import Lock
from docket.storage.paths import LEDGER, LOCK, RunDirectory, point_latest, runs_in
from docket.storage.place import LATEST

DAY_US = 86_400_000_000
BEGINNING_US = 60_000_000
"""Age below which a run directory without a lock may be one whose docket is about to take it."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A run that is, or would be, removed."""

    path: Path
    files: int
    bytes: int
    age_days: int


def removable(docket_dir: Path, *, keep_days: int | None, keep_last: int | None, now_us: int) -> list[Removal]:
    """The runs that are neither among the ``keep_last`` newest nor younger than ``keep_days`` days, oldest first.

    A rule that is None keeps nothing by itself. The age is that of the last event that was written.
    """
    runs = [path for path in runs_in(docket_dir) if not _may_begin(path, now_us)]
    kept = set(runs[-keep_last:]) if keep_last else set()
    found = []
    for path in runs:
        try:
            age = (now_us - _last_written_us(path)) // DAY_US
        except FileNotFoundError:  # another hand was quicker
            continue
        if path not in kept and (keep_days is None or age >= keep_days):
            files, size = _extent(path)
            found.append(Removal(path, files, size, age))
    return found


def remove(docket_dir: Path, removal: Removal) -> bool:
    """Remove the run; False where it is held by a live process, or gone already.

    ``latest`` names another run by then, so that it never names none. Raises LedgerError where the disk refuses.
    """
    try:
        run = RunDirectory.open(removal.path)
    except UsageError:
        return False
    held = os.fstat(run.fd)
    try:
        lock = Lock(run)
    except (LedgerLockedError, FileNotFoundError):
        return False
    finally:
        run.close()
    gone = removal.path.with_name(f".{removal.path.name}.removed")
    try:
        _repoint(docket_dir, removal.path)
        removal.path.rename(gone)
        if not os.path.samestat(os.lstat(gone), held):
            gone.rename(removal.path)
            raise LedgerError(f"{removal.path} is another directory than was looked at: nothing was removed")
        shutil.rmtree(gone)
    except OSError as error:
        raise LedgerError(f"cannot remove {removal.path}: {error}") from error
    finally:
        lock.release()
    return True


def _last_written_us(path: Path) -> int:
    ledger = path / LEDGER
    return int((ledger if ledger.exists() else path).stat().st_mtime_ns // 1000)


def _extent(path: Path) -> tuple[int, int]:
    files = size = 0
    for root, _, names in os.walk(path):
        for name in names:
            files += 1
            size += os.lstat(os.path.join(root, name)).st_size
    return files, size


def _may_begin(path: Path, now_us: int) -> bool:
    """Whether a docket may have made ``path`` a moment ago, and not taken its lock yet."""
    try:
        begun = (path / LOCK).exists() or (path / LEDGER).exists()
        return not begun and now_us - path.stat().st_mtime_ns // 1000 < BEGINNING_US
    except FileNotFoundError:
        return False


def _repoint(docket_dir: Path, removed: Path) -> None:
    """Let ``latest`` be the newest run but ``removed``, if it is that one, or one that is gone."""
    latest = docket_dir / LATEST
    if not latest.is_symlink() or (latest.exists() and latest.resolve().name != removed.name):
        return
    while left := [path for path in runs_in(docket_dir) if path.name != removed.name]:
        point_latest(docket_dir, left[-1].name)
        if runs_in(docket_dir)[-1] in (left[-1], removed):
            return  # else one has begun meanwhile, and may have pointed to itself before
    latest.unlink(missing_ok=True)
