"""Where the end of a run is told when its own directory cannot be written: another directory, or stderr.

Invariant: a receipt that was made is never kept silent: it is in one of these places, or on stderr as one line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from docket.storage.durable import DIRECTORY_MODE, Disk, SystemDisk, replace
from docket.storage.paths import MAX_DOCUMENT
from docket.storage.regular import read_regular

SUFFIX = ".receipt.json"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def places(fallback: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the directories that are tried, in order: ``--fallback-dir``, then the user's state directory."""
    state = environ.get("XDG_STATE_HOME") or ""
    home = environ.get("HOME") or ""
    base = Path(state) if os.path.isabs(state) else Path(home) / ".local/state" if os.path.isabs(home) else None
    own = base / "docket" if base is not None else None
    return tuple(place for place in (fallback, own) if place is not None)


def leave(docket: str, receipt: bytes, where: tuple[Path, ...], disk: Disk | None = None) -> Path | None:
    """Write ``receipt`` durably into the first of ``where`` that takes it; return its path, None if none does."""
    name = docket + SUFFIX
    for place in where:
        try:
            place.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            fd = os.open(place, _DIRECTORY)
        except OSError:
            continue
        try:
            replace(disk or SystemDisk(), name, receipt, fd)
        except OSError:
            continue
        finally:
            os.close(fd)
        return place / name
    return None


def left_behind(docket: str, where: tuple[Path, ...]) -> bytes | None:
    """Return the receipt of ``docket`` that stands in the first of ``where`` that has one, if any has."""
    for place in where:
        try:
            return read_regular(place / (docket + SUFFIX), MAX_DOCUMENT)
        except OSError:
            continue
    return None
