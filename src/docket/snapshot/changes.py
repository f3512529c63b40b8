"""Changes: how two manifests of one tree differ, and what each difference is called.

Invariant: a path below a directory that one of the two could not read is unknown, never added or removed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from docket.snapshot.manifest import ROOT, Entry, order

Name: TypeAlias = Literal["added", "modified", "removed", "renamed", "type", "mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A path that is not the same in both. ``unknown``: one side could not see whether it was there."""

    path: str
    before: Entry | None
    after: Entry | None
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference by name. ``origin`` is the old path of a file that was renamed."""

    change: Name
    path: str
    before: Entry | None
    after: Entry | None
    origin: str | None = None


def differences(
    before: Iterable[Entry], after: Iterable[Entry], times: dict[str, tuple[Entry, Entry]] | None = None
) -> Iterator[Difference]:
    """Every path that differs, in order; both sides are read once, in step.

    ``times`` collects the directories whose time of change differs, with both entries.
    """
    left, right = iter(before), iter(after)
    old, new = next(left, None), next(right, None)
    unseen_before, unseen_after = "\0", "\0"
    while old is not None or new is not None:
        if new is None or (old is not None and order(old.path) < order(new.path)):
            assert old is not None
            yield Difference(path=old.path, before=old, after=None, unknown=old.path.startswith(unseen_after))
            old = next(left, None)
        elif old is None or order(new.path) < order(old.path):
            yield Difference(path=new.path, before=None, after=new, unknown=new.path.startswith(unseen_before))
            new = next(right, None)
        else:
            unseen_before = _unseen(old, unseen_before)
            unseen_after = _unseen(new, unseen_after)
            if times is not None and old.kind == new.kind == "dir" and old.mtime_ns != new.mtime_ns:
                times[old.path] = (old, new)
            if not old.same(new):
                yield Difference(path=old.path, before=old, after=new)
            old, new = next(left, None), next(right, None)


def _unseen(entry: Entry, last: str) -> str:
    """The prefix of what was not seen below ``entry``, else the ``last`` one: paths come in order."""
    if entry.kind != "dir" or entry.gap is None:
        return last
    return "" if entry.path == ROOT else entry.path + "/"


def name(difference: Difference) -> Change:
    """What the difference is called, before renames are paired."""
    old, new = difference.before, difference.after
    change: Name
    if old is None:
        change = "added"
    elif new is None:
        change = "removed"
    elif old.kind != new.kind:
        change = "type"
    elif not old.same_content(new):
        change = "modified"
    else:
        change = "mode"
    return Change(change=change, path=difference.path, before=old, after=new)


def pair_renames(changes: list[Change]) -> list[Change]:
    """The same changes, where a removed and an added file with one content and mode became one rename.

    Empty files are not paired: they are all alike. Each file is paired once, in order of path.
    """
    gone: dict[tuple[str, int], deque[Change]] = {}
    for change in changes:
        if change.change == "removed" and (key := _identity(change.before)) is not None:
            gone.setdefault(key, deque()).append(change)
    paired: set[str] = set()
    out = []
    for change in changes:
        if change.change == "added" and (key := _identity(change.after)) is not None and gone.get(key):
            source = gone[key].popleft()
            paired.add(source.path)
            change = replace(change, change="renamed", before=source.before, origin=source.path)
        out.append(change)
    return [change for change in out if not (change.change == "removed" and change.path in paired)]


def _identity(entry: Entry | None) -> tuple[str, int] | None:
    if entry is None or entry.sha256 is None or entry.size == 0:
        return None
    return entry.sha256, entry.mode
