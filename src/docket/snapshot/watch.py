"""Watching the files of one run: the tree before and after, as events, and rolling back after a breach.

Invariant: every path and every digest stands in the private members of an event only. What the record of the tree
before the run says is used only where it still is what was written.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from docket.errors import UsageError
from docket.ledger.events import Event, FsChange, FsSnapshot, PolicyViolation
from docket.primitives.canonical import Json, encode
from docket.snapshot.capture import OPEN_DIRECTORY, Capture, Progress, Tree, Uncovered, Walk
from docket.snapshot.changes import Change, Difference, differences, name, pair_renames
from docket.snapshot.content import HashOnly
from docket.snapshot.directory import AFTER, BEFORE, SnapshotDirectory
from docket.snapshot.manifest import Entry, Header, Reader, entry_to_json, text_to_json
from docket.snapshot.previous_manifest import Earlier
from docket.snapshot.scope import Scope
from docket.storage.paths import RunDirectory

MAX_CHANGE_EVENTS = 10_000
"""Changes with an event of their own: an installed package tree would make a ledger of nothing else."""
MAX_VIOLATIONS = 1000
"""Violations with an event of their own; one more says how many there were."""
MAX_LISTED_BYTES = 256 * 1024
"""Bytes of a list inside one event: a ledger line holds 1 MiB with all its members in their longer form."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What is watched and how: the agent's working directory, the rules, and whether contents are stored."""

    cwd: Path
    docket_dir: Path
    scope: Scope
    stored: bool = False
    max_bytes: int | None = None


class FileWatch:
    """The files of one run. ``before`` is called once the agent is about to start, ``after`` when all is reaped.

    Not for the event loop: both read the tree.
    """

    def __init__(self, run: RunDirectory, watched: Watched, progress: Progress | None = None) -> None:
        """Raises UsageError where the working directory cannot be opened."""
        self._run, self._watched, self._progress = run, watched, progress
        self._stop = threading.Event()
        path = os.path.realpath(watched.cwd)
        try:
            self._root = os.open(path, OPEN_DIRECTORY)
            own = os.stat(watched.docket_dir)
        except OSError as error:
            raise UsageError(f"cannot read the working directory {path}: {error.strerror}") from error
        self._tree = Tree(
            fd=self._root, path=path, own=own_below(path, watched.docket_dir), own_id=(own.st_dev, own.st_ino)
        )
        self._directory: SnapshotDirectory | None = None
        self._before: Capture | None = None

    def stop(self) -> None:
        """Let a walk that is under way raise CaptureStopped, from any thread."""
        self._stop.set()

    def stop_unless_done(self) -> None:
        """As ``stop``, where ``before`` has not come to its end."""
        if self._before is None:
            self.stop()

    def before(self) -> FsSnapshot:
        """Read the tree, keep its contents where asked, and make the record of it durable.

        Raises TreeTooLarge, CaptureStopped, OSError (no space): nothing was started.
        """
        directory = self._directory = SnapshotDirectory.create(self._run, stored=self._watched.stored)
        with directory.new(BEFORE) as out:
            self._before = self._walk(out, None)
        self._watched.scope.freeze()
        if self._watched.stored:
            directory.sync()
        return _snapshot("before", self._before)

    def after(self) -> Iterator[Event]:
        """Read the tree again; the violations, the changes and the snapshot, in this order.

        A record of the tree before the run that is no longer what was written gives a violation and no changes.
        """
        assert self._directory is not None
        assert self._before is not None
        with self._directory.read(BEFORE) as file, self._directory.new(AFTER) as out:
            earlier = Earlier(file)
            after = self._walk(out, earlier)
            intact = earlier.finish() == self._before.totals.sha256
        if not intact:
            yield PolicyViolation(rule="record-changed", reason="snapshot")
            yield _snapshot("after", after, intact=False)
            return
        found = self.differences()
        yield from self._violations(found)
        changes = pair_renames([name(each) for each in found if not each.unknown])
        for change in changes[:MAX_CHANGE_EVENTS]:
            yield _event(change)
        yield _snapshot("after", after, changes=changes)
        if self._watched.stored:
            self._directory.sync()
        else:
            for manifest in (BEFORE, AFTER):
                self._directory.remove(manifest)

    def differences(self, times: dict[str, tuple[Entry, Entry]] | None = None) -> list[Difference]:
        """Every path that differs between the two manifests; ``times`` as for ``changes.differences``."""
        with self.directory.read(BEFORE) as old, self.directory.read(AFTER) as new:
            return list(differences(Reader(old), Reader(new), times))

    @property
    def directory(self) -> SnapshotDirectory:
        """The manifests and contents, once ``before`` has begun."""
        assert self._directory is not None
        return self._directory

    @property
    def header(self) -> Header:
        """Which tree was read, once ``before`` is done."""
        assert self._before is not None
        return self._before.header

    @property
    def root(self) -> int:
        """Descriptor of the tree's root, as it was opened before the run."""
        return self._root

    def close(self) -> None:
        """Let go of the descriptors."""
        if self._directory is not None:
            self._directory.close()
        os.close(self._root)

    def _walk(self, out: BinaryIO, earlier: Earlier | None) -> Capture:
        assert self._directory is not None
        keep = None if earlier else self._directory.contents
        with out:
            return Walk(
                self._tree,
                self._watched.scope,
                keep or HashOnly(),
                out,
                taken_ns=os.fstat(out.fileno()).st_mtime_ns,
                stored=keep is not None,
                earlier=earlier,
                max_bytes=self._watched.max_bytes if keep else None,
                progress=self._progress,
                stop=self._stop,
            ).run()

    def _violations(self, found: list[Difference]) -> Iterator[PolicyViolation]:
        hits = [each for each in found if not each.unknown and self._is_guarded(each)]
        for each in hits[:MAX_VIOLATIONS]:
            yield PolicyViolation(
                rule="deny_write", reason=name(each).change, private={"path": text_to_json(each.path)}
            )
        if len(hits) > MAX_VIOLATIONS:
            yield PolicyViolation(rule="deny_write", reason="more", private={"count": len(hits) - MAX_VIOLATIONS})

    def _is_guarded(self, difference: Difference) -> bool:
        sides = (difference.before, difference.after)
        return any(side is not None and self._watched.scope.guarded(side.path, side.kind == "dir") for side in sides)


def weigh(watched: Watched) -> None:
    """Raise TreeTooLarge where the files to be kept are more than ``max_bytes``: a ``stat`` each, nothing is read."""
    path = os.path.realpath(watched.cwd)
    root = os.open(path, OPEN_DIRECTORY)
    try:
        tree = Tree(fd=root, path=path, own=own_below(path, watched.docket_dir), own_id=None)
        with open(os.devnull, "wb") as out:
            Walk(tree, watched.scope, None, out, taken_ns=0, stored=True, max_bytes=watched.max_bytes).run()
    finally:
        os.close(root)


def own_below(root: str, docket_dir: Path) -> str | None:
    """docket's directory as a path below ``root``, or None where it lies elsewhere."""
    relative = os.path.relpath(os.path.realpath(docket_dir), root)
    return None if relative == "." or relative.split("/")[0] == ".." else relative


def _snapshot(
    when: str, capture: Capture, *, changes: list[Change] | None = None, intact: bool | None = None
) -> FsSnapshot:
    totals = capture.totals
    private: dict[str, Json] = {
        "root": text_to_json(capture.header.root),
        "manifest": totals.sha256,
        "tree": totals.tree,
    }
    if capture.uncovered.count:
        private["uncovered"] = _named(capture.uncovered)
    if capture.ignored.count:
        private["ignored"] = _named(capture.ignored)
    counts: Counter[str] = Counter(change.change for change in changes or ())
    return FsSnapshot(
        when=when,
        files=totals.files,
        bytes=totals.bytes,
        entries=totals.entries,
        stored=capture.header.stored,
        uncovered=capture.uncovered.count,
        ignored=capture.ignored.count,
        changes=None if changes is None else dict(sorted(counts.items())),
        unlisted=None if changes is None else max(0, len(changes) - MAX_CHANGE_EVENTS),
        intact=intact,
        private=private,
    )


def _named(found: Uncovered) -> list[Json]:
    return bounded({"path": text_to_json(path), "reason": reason} for path, reason in found.named)


def bounded(items: Iterable[Json]) -> list[Json]:
    """As many of ``items`` as stand in ``MAX_LISTED_BYTES``."""
    out, size = [], 0
    for item in items:
        size += len(encode(item)) + 1
        if size > MAX_LISTED_BYTES:
            break
        out.append(item)
    return out


def _event(change: Change) -> FsChange:
    private: dict[str, Json] = {"path": text_to_json(change.path)}
    if change.origin is not None:
        private["origin"] = text_to_json(change.origin)
    for side, entry in (("before", change.before), ("after", change.after)):
        if entry is not None:
            members = entry_to_json(entry)
            del members["path"]
            private[side] = members
    return FsChange(change=change.change, private=private)
