"""What a restore leaves behind: files in ignored places that were written during the run, such as build outputs.

They were made from what the run wrote, and stand beside sources that are put back with their old times: to `make` and
to anything else that compares times they look up to date. A restore names them, and removes them where that is asked.
Invariant: nothing is followed or removed outside the root, or that is older than the run
or was written after it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator

from docket.snapshot.capture import OPEN_DIRECTORY
from docket.snapshot.confined import ConfinedTree

IGNORED = "ignored"
"""The reason of a path that is left out by rule."""
MAX_LOOKED_AT = 1_000_000
"""Names that are looked at below the ignored places of one run; beyond them the restore says so."""


class Outputs:
    """The files that were written while the run went on, below the places that it left out."""

    def __init__(self, tree: ConfinedTree, left_out: Iterable[tuple[str, str]], span: tuple[int, int | None]) -> None:
        """``span`` is when the run began and ended, in nanoseconds since 1970; None for an end that is not recorded."""
        self._tree = tree
        self._began_ns, self._ended_ns = span
        self._left = MAX_LOOKED_AT
        self.unseen: list[str] = []
        """Places that could not be looked at, or not wholly."""
        self.paths = tuple(self._below(path for path, reason in left_out if reason == IGNORED))

    def remove(self, path: str) -> None:
        """Remove the file ``path`` if it is still one of the run's. Raises OSError."""
        with self._tree.parent(path) as (directory, name):
            if not self._is_of_the_run(os.stat(name, dir_fd=directory, follow_symlinks=False)):
                raise OSError(errno.ESTALE, "changed during the restore", path)
            os.unlink(name, dir_fd=directory)

    def _below(self, places: Iterable[str]) -> Iterator[str]:
        waiting = list(places)[::-1]
        while waiting:
            path = waiting.pop()
            self._left -= 1
            if self._left < 0:
                self.unseen.append(path)
                return
            try:
                status = self._tree.status(path)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    waiting += sorted((f"{path}/{name}" for name in self._names(path)), reverse=True)
                elif status is not None and self._is_of_the_run(status):
                    yield path
            except OSError:
                self.unseen.append(path)

    def _names(self, path: str) -> list[str]:
        with self._tree.directory(path) as fd:
            listing = os.open(".", OPEN_DIRECTORY, dir_fd=fd)
            try:
                return os.listdir(listing)
            finally:
                os.close(listing)

    def _is_of_the_run(self, status: os.stat_result) -> bool:
        """Whether it was written during the run: an agent can set the time of writing, but not the time of change."""
        if not stat.S_ISREG(status.st_mode) or status.st_ctime_ns < self._began_ns:
            return False
        if self._ended_ns is None or status.st_ctime_ns <= self._ended_ns:
            return True
        return self._began_ns <= status.st_mtime_ns <= self._ended_ns


def remove_all(outputs: Outputs) -> list[tuple[str, str]]:
    """Remove the files of ``outputs``; return each with what became of it: ``removed``, or why not."""
    done = []
    for path in outputs.paths:
        outcome = "removed"
        try:
            outputs.remove(path)
        except FileNotFoundError:
            pass  # somebody else did
        except OSError as error:
            outcome = error.strerror or "input/output error"
        done.append((path, outcome))
    return done
