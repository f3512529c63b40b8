"""Apply: carry out a plan inside a confined tree, atomically for each file, so that it can be interrupted anywhere.

Invariant: what is about to be replaced or removed is looked at once more right before; where it is not what the plan
saw, the path is refused. A file is replaced by a rename of a finished, synced one that stands beside it under a name
that follows from run and path, so that whoever comes after an interruption finds every left-over. Directories that
had to be made writable are put back, and everything needed for that is durable in the record before the first change.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from docket.errors import FormatError
from docket.snapshot.confined import ConfinedTree, node, set_mode, set_mtime
from docket.snapshot.content import ContentStore, copy_out
from docket.snapshot.manifest import ROOT, Entry, order, parent_of
from docket.snapshot.plan import Do, Step, granted_mode

BATCH = 1024
"""Files that one sync of the filesystem makes durable before they get their names."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory that the plan works in: what it is now, and the time it will be put back to."""

    path: str
    identity: str
    found_mode: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a path: ``done``, ``already there``, ``left``, ``refused`` or ``failed``, and why."""

    path: str
    outcome: str
    reason: str


class _Refused(Exception):
    """The path is not what the plan saw."""


def directories_of(
    steps: Iterable[Step], tree: ConfinedTree, before_of: Callable[[str], Entry | None]
) -> list[Directory]:
    """Every existing directory that the steps change names in, with what it is to be afterwards.

    ``before_of`` gives a directory's entry before the run where its time has not changed again since.
    """
    paths = {parent_of(step.path) for step in steps if step.do.acts and step.path != ROOT}
    out = []
    for path in sorted(paths, key=order):
        status = tree.status(path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            continue
        before = before_of(path)
        out.append(
            Directory(
                path=path,
                identity=f"{status.st_dev} {status.st_ino}",
                found_mode=stat.S_IMODE(status.st_mode),
                mtime_ns=status.st_mtime_ns if before is None else before.mtime_ns,
            )
        )
    return out


class Apply:
    """One restore under way."""

    def __init__(
        self, tree: ConfinedTree, contents: ContentStore | None, run: str, sync: Callable[[int], None]
    ) -> None:
        """``run`` is the docket number; ``sync`` makes the filesystem of a descriptor durable."""
        self._tree, self._contents, self._run, self._sync = tree, contents, run, sync
        self._results: dict[str, Result] = {}

    def clean_up(self, paths: Iterable[str], directories: Iterable[Directory]) -> None:
        """Take away what an interrupted restore of these paths left, and put its directories back."""
        for path in paths:
            with suppress(OSError), self._tree.parent(path) as (fd, _):
                os.unlink(self._temporary(path), dir_fd=fd)
        for directory in directories:
            with suppress(OSError):
                self._put_back(directory, only_if_opened=True)

    def run(self, steps: list[Step], directories: list[Directory]) -> list[Result]:
        """Carry the steps out; a result for every one, in the order of the steps."""
        for step in steps:
            if not step.do.acts:
                outcome = {Do.ALREADY: "already there", Do.LEAVE: "left"}.get(step.do, "refused")
                self._results[step.path] = Result(path=step.path, outcome=outcome, reason=step.reason)
        acting = [step for step in steps if step.do.acts]
        self._open_up(directories)
        for step in reversed(acting):
            self._attempt(step, self._clear)
        folders = [step for step in acting if step.do is not Do.REMOVE and _wanted(step).kind == "dir"]
        for step in folders:
            self._attempt(step, self._make_directory)
        self._give_back([step for step in acting if step.do is not Do.REMOVE and _wanted(step).kind != "dir"])
        self._finish(folders, directories)
        self._sync(self._tree.root)
        for step in acting:
            self._results.setdefault(step.path, Result(path=step.path, outcome="done", reason=step.reason))
        return [self._results[step.path] for step in steps]

    def _attempt(self, step: Step, action: Callable[[Step], None]) -> bool:
        """Do ``action`` unless the path has failed already."""
        if step.path in self._results:
            return False
        outcome = "failed"
        try:
            action(step)
        except _Refused as error:
            outcome, reason = "refused", str(error)
        except FormatError as error:
            reason = str(error)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
        else:
            return True
        self._results[step.path] = Result(path=step.path, outcome=outcome, reason=reason)
        return False

    def _open_up(self, directories: list[Directory]) -> None:
        """Give the owner the right to change names where it is missing. What cannot be opened fails later, by name."""
        if os.geteuid() == 0:
            return
        for directory in directories:
            with suppress(OSError), self._known(directory) as (fd, mode):
                if mode == directory.found_mode and mode & 0o700 != 0o700:
                    set_mode(fd, mode | 0o700)

    def _finish(self, folders: list[Step], directories: list[Directory]) -> None:
        """Put every directory to its last state, the deepest first: one that is closed again hides what is below."""
        known = {directory.path: directory for directory in directories}
        made = {step.path: step for step in folders}
        for path in sorted(known.keys() | made.keys(), key=order, reverse=True):
            if path in known:
                with suppress(OSError):
                    self._put_back(known[path])
            if path in made:
                self._attempt(made[path], self._finish_directory)

    def _put_back(self, directory: Directory, *, only_if_opened: bool = False) -> None:
        with self._known(directory) as (fd, mode):
            if only_if_opened and mode not in (directory.found_mode, directory.found_mode | 0o700):
                return
            set_mtime(fd, directory.mtime_ns)
            if mode != directory.found_mode:
                set_mode(fd, directory.found_mode)

    @contextmanager
    def _known(self, directory: Directory) -> Iterator[tuple[int, int]]:
        """The directory itself, or OSError where another one stands there."""
        with self._tree.directory(directory.path) as fd:
            status = os.fstat(fd)
            if f"{status.st_dev} {status.st_ino}" != directory.identity:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            yield fd, stat.S_IMODE(status.st_mode)

    def _clear(self, step: Step) -> None:
        """Take away what must go before anything can come: removals, and whatever has the wrong kind."""
        now = step.now
        if now is None:
            return
        if step.do is not Do.REMOVE and (_wanted(step).kind == "dir") == (now.kind == "dir"):
            return
        if step.do is not Do.REMOVE and _wanted(step).kind == "file":
            os.close(self._content(_wanted(step)))
        with self._tree.parent(step.path) as (fd, name):
            self._check(fd, name, now)
            if now.kind == "dir":
                try:
                    os.rmdir(name, dir_fd=fd)
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        raise _Refused("holds what does not go with it") from error
                    raise
            else:
                os.unlink(name, dir_fd=fd)

    def _make_directory(self, step: Step) -> None:
        if step.path == ROOT or (step.now is not None and step.now.kind == "dir"):
            return
        with self._tree.parent(step.path) as (fd, name):
            os.mkdir(name, 0o700, dir_fd=fd)

    def _finish_directory(self, step: Step) -> None:
        """Owner, permissions and time of a directory, once nothing in it changes any more."""
        before = _wanted(step)
        with self._tree.directory(step.path) as fd:
            status = os.fstat(fd)
            if step.now is not None and step.now.kind == "dir" and status.st_ino != step.now.inode:
                raise _Refused("changed during the restore")
            if (status.st_uid, status.st_gid) != before.owner:
                os.chown(f"/proc/self/fd/{fd}", *before.owner)
            set_mode(fd, granted_mode(before))
            set_mtime(fd, before.mtime_ns)

    def _give_back(self, steps: list[Step]) -> None:
        """Files and links, in batches: all of a batch written, one sync, then each renamed into its place."""
        for start in range(0, len(steps), BATCH):
            batch = [step for step in steps[start : start + BATCH] if self._attempt(step, self._write)]
            self._sync(self._tree.root)
            for step in batch:
                self._attempt(step, self._place)

    def _write(self, step: Step) -> None:
        before = _wanted(step)
        if self._keeps_content(step):
            return
        temporary = self._temporary(step.path)
        with self._tree.parent(step.path) as (fd, _):
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=fd)
            if before.kind == "link":
                assert before.target is not None
                os.symlink(before.target, temporary, dir_fd=fd)
                _own(temporary, fd, before)
            else:
                self._write_file(temporary, fd, before)

    def _content(self, before: Entry) -> int:
        """Descriptor of what the file held, checked. Raises FormatError where it cannot be given back."""
        assert before.sha256 is not None
        if self._contents is None:
            raise FormatError("its content was not stored")
        return self._contents.open(before.sha256)

    def _write_file(self, temporary: str, directory: int, before: Entry) -> None:
        source = self._content(before)
        try:
            target = os.open(temporary, _NEW, 0o600, dir_fd=directory)
            try:
                copy_out(source, target)
                status = os.fstat(target)
                if (status.st_uid, status.st_gid) != before.owner:
                    os.fchown(target, *before.owner)
                os.fchmod(target, granted_mode(before))
                os.utime(target, ns=(status.st_atime_ns, before.mtime_ns))
            except BaseException:
                os.unlink(temporary, dir_fd=directory)
                raise
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _place(self, step: Step) -> None:
        before = _wanted(step)
        if self._keeps_content(step):
            self._change_mode(step, before)
            return
        temporary = self._temporary(step.path)
        with self._tree.parent(step.path) as (fd, name):
            try:
                now = None if step.now is not None and step.now.kind == "dir" else step.now
                self._check(fd, name, now)
                os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=fd)
                raise

    def _keeps_content(self, step: Step) -> bool:
        """Whether only permissions differ, of a file that has no other name which would change too."""
        now = step.now
        return now is not None and now.kind == "file" and now.same_content(_wanted(step)) and now.links == 1

    def _change_mode(self, step: Step, before: Entry) -> None:
        with self._tree.parent(step.path) as (directory, name), node(directory, name) as (fd, status):
            if step.now is None or not _is(status, step.now) or status.st_nlink != 1:
                raise _Refused("changed during the restore")
            if (status.st_uid, status.st_gid) != before.owner:
                os.chown(f"/proc/self/fd/{fd}", *before.owner)
            set_mode(fd, granted_mode(before))

    def _check(self, directory: int, name: str, now: Entry | None) -> None:
        """Raise _Refused unless ``name`` is still what the plan saw."""
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            status = None
        if (status is None) != (now is None) or (status is not None and now is not None and not _is(status, now)):
            raise _Refused("changed during the restore")

    def _temporary(self, path: str) -> str:
        key = hashlib.sha256(f"{self._run}\0".encode() + os.fsencode(path)).hexdigest()
        return f".docket-restore-{key[:24]}"


def _wanted(step: Step) -> Entry:
    assert step.before is not None
    return step.before


def _is(status: os.stat_result, known: Entry) -> bool:
    """Whether this is the object that was seen, unchanged. Other names of it may have come or gone."""
    if (status.st_dev, status.st_ino) != (known.device, known.inode):
        return False
    if stat.S_ISDIR(status.st_mode):
        return known.kind == "dir"
    same_bytes = known.kind != "file" or status.st_size == known.size
    return same_bytes and status.st_mtime_ns == known.mtime_ns and stat.S_IMODE(status.st_mode) == known.mode


def _own(name: str, directory: int, before: Entry) -> None:
    """Owner and time of a new link."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if (status.st_uid, status.st_gid) != before.owner:
        os.chown(name, *before.owner, dir_fd=directory, follow_symlinks=False)
    os.utime(name, ns=(status.st_atime_ns, before.mtime_ns), dir_fd=directory, follow_symlinks=False)
