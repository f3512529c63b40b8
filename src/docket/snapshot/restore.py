"""Restore: from the record of a run to a plan, and from a plan to the tree and to a record of its own.

Invariant: the root is the one that the operator confirmed, not merely the one that the record names; the record of a
restore (``docket/restore/v1``, in ``restores/``) is durable before the first change and says afterwards what became
of every path; ledger and receipt are not touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from docket import __version__
from docket.errors import FormatError, SnapshotError
from docket.primitives.canonical import Json, JsonObject, decode_object, encode
from docket.primitives.instant import timestamp
from docket.snapshot.apply import Apply, Directory, Result, directories_of
from docket.snapshot.capture import OPEN_DIRECTORY
from docket.snapshot.confined import ConfinedTree
from docket.snapshot.directory import SnapshotDirectory
from docket.snapshot.manifest import (
    MAX_FILE_BYTES,
    MAX_TIME_NS,
    ROOT,
    Entry,
    check_path,
    entry_to_json,
    parent_of,
    text_from_json,
    text_to_json,
)
from docket.snapshot.outputs import Outputs
from docket.snapshot.plan import Here, Step, Terms, make
from docket.snapshot.record import Changed, Taken, read_changes, read_taken
from docket.snapshot.watch import FileWatch
from docket.storage.durable import DIRECTORY_MODE, replace, sync_filesystem
from docket.storage.paths import MAX_DOCUMENT, RESTORES, RunDirectory
from docket.storage.regular import open_regular

FORMAT = "docket/restore/v1"
_NUMBERED = re.compile(r"restore-([0-9]{4})\.json")
_TIME = re.compile(r"-?[0-9]{1,19}")
MAX_RESTORES = 9999
"""Restores of one run that are recorded: four digits of a name."""


class RootError(SnapshotError):
    """The directory that the record names is not there, or nobody but the record says that it is the right one."""

    code = "restore-root"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for. ``selected`` says which entries; ``root`` is a root named on purpose."""

    selected: Callable[[Entry], bool] = field(default=lambda _: True)
    force: bool = False
    root: Path | None = None
    clean_outputs: bool = False


@dataclass(kw_only=True)
class Plan:
    """A plan and what it takes to carry it out."""

    root: str
    steps: list[Step]
    changed: Changed
    left_out: tuple[tuple[str, str], ...] = ()
    outputs: Outputs | None = None
    """What was written during the run where it was not watched; None where that was not looked for."""


class Restore:
    """A restore of one run, over the tree that the run was of."""

    def __init__(self, run: RunDirectory, directory: SnapshotDirectory, tree: ConfinedTree, root: str) -> None:
        self._run, self._directory, self._tree, self._root = run, directory, tree, root
        self._interrupted = Interrupted.read(run)

    def plan(
        self,
        changed: Changed,
        request: Request,
        left_out: tuple[tuple[str, str], ...] = (),
        span: tuple[int, int | None] | None = None,
    ) -> Plan:
        """What would be done to each path that the run changed. Reads the tree, changes nothing.

        What was written below ``left_out`` in the ``span`` of the run is looked for where that is given.
        """
        here: dict[str, Here] = {}
        for difference in changed.found:
            sides = (difference.before, difference.after)
            sizes = [side.size for side in sides if side is not None and side.size <= MAX_FILE_BYTES]
            here[difference.path] = self._tree.look(difference.path, sizes)
        for path in [parent_of(path) for path in here if path != ROOT]:
            if path not in here:
                here[path] = self._tree.look(path, ())
        contents = self._directory.contents
        terms = Terms(
            has_content=contents.has if contents is not None else lambda _: False,
            selected=request.selected,
            force=request.force,
            recorded_end=changed.recorded_end,
            own=self._own(),
            partway=self._interrupted.paths,
        )
        steps = make(changed.found, here, terms)
        outputs = Outputs(self._tree, left_out, span) if span is not None and steps else None
        return Plan(root=self._root, steps=steps, changed=changed, left_out=left_out, outputs=outputs)

    def apply(self, plan: Plan, request: Request, unix_us: int) -> tuple[list[Result], str]:
        """Carry ``plan`` out; what became of each path, and the name of the record.

        Raises OSError where the record cannot be written: then nothing was changed.
        """
        work = Apply(self._tree, self._directory.contents, self._run.name, sync_filesystem)
        work.clean_up(self._interrupted.paths, self._interrupted.directories)
        directories = directories_of(plan.steps, self._tree, lambda path: self._time_before(path, plan.changed))
        record = _Record(self._run, plan, directories, request, timestamp(unix_us))
        record.write(None)
        results = work.run(plan.steps, directories)
        record.write(results)
        self._interrupted.settle(self._run, {step.path for step in plan.steps})
        return results, record.name

    def text_now(self, step: Step, limit: int) -> str | None:
        """What stands there now as text: empty where there is nothing; None where it is no text or too long."""
        if step.now is None:
            return ""
        if step.now.kind == "link":
            return step.now.target
        data = self._tree.read(step.path, limit) if step.now.kind == "file" else None
        return _as_text(data, limit)

    def text_before(self, step: Step, limit: int) -> str | None:
        """As ``text_now``, of what the snapshot holds."""
        if step.before is None:
            return ""
        if step.before.kind == "link":
            return step.before.target
        if step.before.sha256 is None or step.before.size > limit or self._directory.contents is None:
            return None
        try:
            fd = self._directory.contents.open(step.before.sha256)
        except FormatError:
            return None
        with os.fdopen(fd, "rb") as file:
            return _as_text(file.read(limit + 1), limit)

    def _own(self) -> str | None:
        root, own = self._root, os.path.realpath(self._run.path.parent.parent)
        return os.path.relpath(own, root) if own.startswith(root.rstrip("/") + "/") else None

    def _time_before(self, path: str, changed: Changed) -> Entry | None:
        """The entry of a directory before the run, where nothing has changed in it since the run."""
        pair = changed.times.get(path)
        status = self._tree.status(path)
        if pair is None or status is None or status.st_mtime_ns != pair[1].mtime_ns:
            return None
        return pair[0]


def _as_text(data: bytes | None, limit: int) -> str | None:
    if data is None or len(data) > limit or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


@contextmanager
def opened(run: RunDirectory, request: Request) -> Iterator[tuple[Restore, Plan]]:
    """The restore of an ended run and its plan. Raises FormatError (evidence), RootError (the tree)."""
    before, after = read_taken(run)
    directory = SnapshotDirectory.open(run)
    try:
        changed = read_changes(directory, before, after)
        path, root = confirm_root(run, changed, request.root)
        try:
            restore = Restore(run, directory, ConfinedTree(root), path)
            yield restore, restore.plan(changed, request, _left_out(before, after), _span(before, after))
        finally:
            os.close(root)
    finally:
        directory.close()


def roll_back(run: RunDirectory, watch: FileWatch, unix_us: int) -> tuple[list[Result], str | None]:
    """Undo a run that has just ended, from what its watch holds: what became of each path, the name of the record.

    Raises FormatError, OSError: then nothing was changed.
    """
    times: dict[str, tuple[Entry, Entry]] = {}
    changed = Changed(header=watch.header, found=watch.differences(times), recorded_end=True, times=times)
    request = Request()
    restore = Restore(run, watch.directory, ConfinedTree(watch.root), watch.header.root)
    plan = restore.plan(changed, request)
    if not plan.steps:
        return [], None
    return restore.apply(plan, request, unix_us)


def _span(before: Taken, after: Taken | None) -> tuple[int, int | None]:
    return before.at_ns, after.at_ns if after is not None else None


def _left_out(before: Taken, after: Taken | None) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(before.left_out + (after.left_out if after is not None else ())))


def confirm_root(run: RunDirectory, changed: Changed, named: Path | None) -> tuple[str, int]:
    """Path and descriptor of the root of the run, which somebody beside the record confirms.

    That is ``named``, the directory that holds docket's own, or the working directory: one of them must be the root,
    by path or by inode. A record that was handed over can so never choose what is written to. Raises RootError.
    """
    header = changed.header
    candidates = [named] if named is not None else [run.path.parent.parent.parent, Path()]
    for candidate in candidates:
        try:
            path = os.path.realpath(candidate)
            status = os.stat(path)
            if path == header.root or (status.st_dev, status.st_ino) == (header.device, header.inode):
                return path, os.open(path, OPEN_DIRECTORY)
        except OSError:  # the working directory may be gone as well
            continue
    raise RootError(
        f"the run was of {header.root}, which is not here",
        hint="go there, or name the directory with --root; it must be the one that the run was of",
    )


class Interrupted:
    """What restores of a run that did not end had begun with."""

    def __init__(self, records: dict[str, JsonObject]) -> None:
        """``records`` by file name; each has ``plan`` and ``directories``."""
        self._records = records
        self.paths: frozenset[str] = frozenset()
        self.directories: list[Directory] = []
        for document in records.values():
            self.paths |= {path for path, acts in _plan_paths(document) if acts}
            self.directories += list(_plan_directories(document))

    @classmethod
    def read(cls, run: RunDirectory) -> Interrupted:
        """Those of ``run``; a record that cannot be read is none."""
        records: dict[str, JsonObject] = {}
        with suppress(FileNotFoundError), _restores(run, make_it=False) as fd:
            for name in sorted(os.listdir(fd)):
                if not _NUMBERED.fullmatch(name):
                    continue
                with suppress(OSError, FormatError):
                    document = _read_record(fd, name)
                    if document.get("state") == "started":
                        records[name] = document
        return cls(records)

    def settle(self, run: RunDirectory, done: set[str]) -> None:
        """Close the records all of whose paths a later restore has dealt with."""
        with _restores(run, make_it=False) as fd:
            for name, document in self._records.items():
                if {path for path, acts in _plan_paths(document) if acts} <= done:
                    replace(run.disk, name, encode(document | {"state": "superseded"}) + b"\n", fd)


@contextmanager
def _restores(run: RunDirectory, *, make_it: bool) -> Iterator[int]:
    if make_it:
        with suppress(FileExistsError):
            os.mkdir(RESTORES, DIRECTORY_MODE, dir_fd=run.fd)
            run.disk.sync_directory(run.fd)
    try:
        fd = os.open(RESTORES, OPEN_DIRECTORY, dir_fd=run.fd)
    except NotADirectoryError as error:
        raise FormatError(f"{run.path / RESTORES} is no directory") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _read_record(directory: int, name: str) -> JsonObject:
    with os.fdopen(open_regular(name, directory=directory), "rb") as file:
        data = file.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise FormatError(f"larger than {MAX_DOCUMENT} bytes")
    document = decode_object(data.removesuffix(b"\n"))
    if document.get("format") != FORMAT:
        raise FormatError(f"format is not {FORMAT}")
    list(_plan_paths(document))
    list(_plan_directories(document))
    return document


def _plan_paths(document: JsonObject) -> Iterator[tuple[str, bool]]:
    plan = document.get("plan")
    for item in plan if isinstance(plan, list) else []:
        if isinstance(item, dict):
            path = text_from_json(item.get("path"))
            check_path(path)
            yield path, item.get("do") in ("restore", "recreate", "remove")


def _plan_directories(document: JsonObject) -> Iterator[Directory]:
    listed = document.get("directories")
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            raise FormatError("not a directory of a restore")
        path, mode, mtime = text_from_json(item.get("path")), item.get("mode"), item.get("mtime_ns")
        check_path(path)
        if type(mode) is not int or not 0 <= mode <= 0o7777 or not isinstance(mtime, str) or not _TIME.fullmatch(mtime):
            raise FormatError("not a directory of a restore")
        if abs(int(mtime)) > MAX_TIME_NS:
            raise FormatError("not a time")
        yield Directory(path=path, identity=str(item.get("id")), found_mode=mode, mtime_ns=int(mtime))


class _Record:
    """The record of one restore, written before and after it."""

    def __init__(
        self, run: RunDirectory, plan: Plan, directories: list[Directory], request: Request, created_at: str
    ) -> None:
        self._run, self._plan, self._directories = run, plan, directories
        self._head: JsonObject = {
            "format": FORMAT,
            "run": run.name,
            "root": text_to_json(plan.root),
            "tool": {"name": "docket", "version": __version__},
            "created_at": created_at,
            "forced": request.force,
            "outputs": [text_to_json(path) for path in plan.outputs.paths] if plan.outputs is not None else [],
            "clean_outputs": request.clean_outputs,
        }
        self.name = ""

    def write(self, results: list[Result] | None) -> None:
        """Make the record durable: what is about to happen, or what has happened. Raises OSError."""
        document: JsonObject = self._head | {
            "state": "started" if results is None else "finished",
            "plan": plan_to_json(self._plan.steps),
            "directories": [
                {
                    "path": text_to_json(each.path),
                    "id": each.identity,
                    "mode": each.found_mode,
                    "mtime_ns": str(each.mtime_ns),
                }
                for each in self._directories
            ],
        }
        if results is not None:
            document["outcomes"] = results_to_json(results)
        with _restores(self._run, make_it=True) as fd:
            if not self.name:
                self.name = _next_name(fd)
            replace(self._run.disk, self.name, encode(document) + b"\n", fd)


def _next_name(directory: int) -> str:
    taken = [int(match[1]) for match in map(_NUMBERED.fullmatch, os.listdir(directory)) if match]
    number = max(taken, default=0) + 1
    if number > MAX_RESTORES:
        raise FormatError(f"{MAX_RESTORES} restores of this run are recorded; no more have room")
    return f"restore-{number:04}.json"


def plan_to_json(steps: list[Step]) -> list[Json]:
    """The steps with what each path was, became and is."""
    out: list[Json] = []
    for step in steps:
        item: JsonObject = {"path": text_to_json(step.path), "do": step.do.value, "reason": step.reason}
        for side, entry in (("before", step.before), ("after", step.after), ("now", step.now)):
            if entry is not None:
                members = entry_to_json(entry)
                del members["path"]
                item[side] = members
        out.append(item)
    return out


def results_to_json(results: list[Result]) -> list[Json]:
    """What became of each path."""
    return [
        {"path": text_to_json(result.path), "outcome": result.outcome, "reason": result.reason} for result in results
    ]
