"""Views written down beside the runs they are of, so that a long ledger is folded once (in the user's cache directory).

A saved view is taken up only where the ledger still holds, at its cursor, the event that it ended with.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import orjson

from docket.storage.regular import open_regular, read_regular
from docket.watch.tail import LedgerTail
from docket.watch.view import View

MAX_SAVED = 4 << 20
"""Bytes of a saved view that are read: a view is bounded, and this is several times its most."""
SAVE_EVERY = 20_000
"""Events after which a view is written down again."""


def directory(environ: dict[str, str] | None = None) -> Path:
    """Return where views are kept: ``docket/watch`` in the user's cache directory (XDG Base Directory)."""
    environ = dict(os.environ) if environ is None else environ
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "docket/watch"


class SavedView:
    """The view of one run, taken up where an earlier process left it."""

    def __init__(self, tail: LedgerTail, kept_in: Path) -> None:
        self._tail = tail
        self._path = kept_in / f"{tail.run.name}.json"
        self.view = self._load() or View()
        self._saved = self.view.cursor

    def catch_up(self, most: int = 1 << 62) -> bool:
        """Fold up to ``most`` further events; return whether there is more to fold at once."""
        begun = self.view.cursor
        while self.view.cursor - begun < most and (lines := self._tail.read(self.view.cursor)):
            self.view.feed(lines)
        if self.view.cursor - self._saved >= SAVE_EVERY:
            self.save()
        return self.view.cursor < self._tail.last

    def save(self) -> None:
        """Write the view down; where that is not possible the next process folds again."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            fd = open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(fd, "wb") as stream:
                stream.write(orjson.dumps(self.view.to_json()))
            temporary.replace(self._path)
            self._saved = self.view.cursor

    def _load(self) -> View | None:
        try:
            view = View.from_json(orjson.loads(read_regular(self._path, MAX_SAVED)))
        except (OSError, orjson.JSONDecodeError):
            return None
        if view is None:
            return None
        line = self._tail.line(view.cursor)
        return view if line is not None and line.hash == view.head else None
