"""Capture: read a tree into a manifest, once, in order, in constant memory, following no link.

Owns the walk. Invariant: every object is reached from the root's descriptor by one name at a time without following
links; only regular files are opened, and what was opened is checked to be the file that was seen; docket's own
directory is left out by its identity and by its name; a mount below the root is not entered. What could not be read
is an entry with a ``gap``, never a silence.

A file is not read again where the earlier manifest shows the same device, inode, size, times and mode, and none of
its times is so late that a change in the same tick could hide (git's racy-clean rule).
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import BinaryIO, NamedTuple

from docket.errors import SnapshotError, UsageError
from docket.snapshot.content import Digester
from docket.snapshot.file_reader import Found, read_file
from docket.snapshot.manifest import (
    MAX_DEPTH,
    ROOT,
    Entry,
    Header,
    Tally,
    Totals,
    file_line_without_digest,
    kind_of,
    seen_of,
    to_line,
)
from docket.snapshot.previous_manifest import Earlier
from docket.snapshot.scope import Ignores, Scope, Take, read_gitignore

RACY_NS = 2_000_000_000
"""A time this close before the walk may hide a later change: two seconds is the coarsest tick that a filesystem of
Linux keeps (FAT)."""
MAX_ENTRIES = 5_000 * 1024
"""Entries of one manifest: about a gigabyte of it, and far beyond any tree that a run should watch whole."""
MAX_GAPS = 1000
"""Gaps that are named one by one; the rest are counted."""
BATCH_FILES = 64
"""Files that one task reads: enough to make handing over cheap."""
BATCH_BYTES = 4 << 20
"""Bytes after which a task's batch is closed, so that large files spread over the workers."""
MAX_QUEUE = 8192
"""Lines that wait behind a batch before the walk waits too: bounds memory."""
MAX_BATCHES = 32
"""Batches under way: bounds descriptors and memory."""
WORKERS = min(4, os.cpu_count() or 1)
"""Threads that read: more only wait for the same disk."""
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Progress = Callable[[int, int], None]
"""Told the number of entries and bytes so far, now and then."""


class CaptureStopped(SnapshotError):
    """The walk was told to stop."""

    code = "capture-stopped"


class TreeTooLarge(UsageError):
    """The tree is beyond a limit; nothing was started."""

    code = "tree-too-large"


@dataclass
class Uncovered:
    """What a capture does not cover: the first paths with their reasons, and how many there are."""

    count: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)

    def add(self, path: str, reason: str) -> None:
        self.count += 1
        if len(self.named) < MAX_GAPS:
            self.named.append((path, reason))


@dataclass(frozen=True, kw_only=True)
class Capture:
    """What one walk found. ``ignored`` are the topmost paths left out by rule, ``reused`` files not read again."""

    header: Header
    totals: Totals
    uncovered: Uncovered
    ignored: Uncovered
    reused: int


class Tree(NamedTuple):
    """The root to walk, by descriptor, and what to leave out: docket's own directory by name and by identity."""

    fd: int
    path: str
    own: str | None
    own_id: tuple[int, int] | None


class _Batch:
    """Files of one directory that one task reads."""

    def __init__(self) -> None:
        self.files: list[Found] = []
        self.bytes = 0
        self.future: Future[list[Entry]] | None = None


class _Pending(NamedTuple):
    """A line that waits for a batch, in its place in the queue."""

    batch: _Batch
    place: int


class _Ready(NamedTuple):
    """A line as it is written; ``size`` only of a file."""

    line: bytes
    size: int | None


class Walk:
    """One capture under way."""

    def __init__(
        self,
        tree: Tree,
        scope: Scope,
        digester: Digester | None,
        out: BinaryIO,
        *,
        taken_ns: int,
        stored: bool,
        earlier: Earlier | None = None,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """``out`` receives the manifest; ``taken_ns`` is the filesystem's own time now.

        ``stored``: the digester keeps contents, at most ``max_bytes`` of them. Without a digester files are weighed
        and not read, and none is named.
        """
        root = os.fstat(tree.fd)
        self._tree, self._scope, self._digester, self._out = tree, scope, digester, out
        self._header = Header(root=tree.path, device=root.st_dev, inode=root.st_ino, taken_ns=taken_ns, stored=stored)
        self._earlier, self._max_bytes = earlier, max_bytes
        self._safe_ns = earlier.header.taken_ns - RACY_NS if earlier else 0
        self._progress, self._stop = progress, stop or threading.Event()
        self._queue: deque[_Ready | _Pending] = deque()
        self._batches = 0
        self._tally = Tally()
        self._uncovered, self._ignored = Uncovered(), Uncovered()
        self._lazy: list[tuple[str, os.stat_result]] = []
        self._entries = self._bytes = self._reused = self._found_bytes = 0

    def run(self) -> Capture:
        """Walk. Raises CaptureStopped, TreeTooLarge, FormatError (the earlier manifest), OSError (``out``)."""
        line = self._header.to_line()
        self._tally.header(line)
        self._out.write(line)
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="docket-read") as self._pool:
            root = os.fstat(self._tree.fd)
            if is_searchable(self._tree.fd, root.st_mode):
                self._other_line(ROOT, root)
                ignores = self._scope.enter(ROOT, Ignores(), lambda: read_gitignore(self._tree.fd))
                self._directory(self._tree.fd, "", 1, ignores, False)
            else:
                self._other_line(ROOT, root, gap="unreadable")
                self._uncovered.add(ROOT, "unreadable")
            self._drain(0)
        self._out.write(self._tally.flush())
        return Capture(
            header=self._header,
            totals=self._tally.totals(),
            uncovered=self._uncovered,
            ignored=self._ignored,
            reused=self._reused,
        )

    def _directory(self, fd: int, prefix: str, depth: int, ignores: Ignores, guarded_only: bool) -> None:
        """Everything below the directory ``fd``; ``prefix`` is its path with a slash, or empty."""
        if self._stop.is_set():
            raise CaptureStopped("stopped while the files were read")
        try:
            with os.scandir(fd) as names:
                found = sorted(names, key=attrgetter("name"))
        except OSError:
            self._uncovered.add(prefix[:-1] or ROOT, "unreadable")
            return
        batch: _Batch | None = None
        for each in found:
            path = prefix + each.name
            try:
                status = each.stat(follow_symlinks=False)
            except OSError:
                self._uncovered.add(path, "vanished")
                continue
            is_dir = stat.S_ISDIR(status.st_mode)
            if is_dir and self._is_own(path, status):
                continue
            take = Take.YES
            if not self._scope.takes_all:
                take = self._scope.take(path, is_dir, ignores, guarded_only=guarded_only)
            if take is Take.NO:
                if not guarded_only:
                    self._ignored.add(path, "ignored")
                continue
            if is_dir:
                self._submit(fd, batch)
                batch = None
                self._enter(fd, each.name, path, status, depth, ignores, take)
            elif stat.S_ISREG(status.st_mode):
                batch = self._file(fd, each.name, path, status, batch)
            else:
                self._other(fd, each.name, path, status)
        self._submit(fd, batch)

    def _is_own(self, path: str, status: os.stat_result) -> bool:
        return path == self._tree.own or (status.st_dev, status.st_ino) == self._tree.own_id

    def _enter(
        self, parent: int, name: str, path: str, status: os.stat_result, depth: int, ignores: Ignores, take: Take
    ) -> None:
        gap = None
        if status.st_dev != self._header.device:
            gap = "other-filesystem"
        elif depth >= MAX_DEPTH:
            gap = "too-deep"
        fd = -1
        if gap is None:
            try:
                fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
                if not is_searchable(fd, status.st_mode):
                    os.close(fd)
                    gap = "unreadable"
            except OSError as error:
                gap = "vanished" if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
        if gap is not None:
            self._other_line(path, status, gap=gap)
            self._uncovered.add(path, gap)
            return
        try:
            if take is Take.DESCEND:
                self._lazy.append((path, status))
            else:
                self._other_line(path, status)
            ignores = self._scope.enter(path, ignores, lambda: read_gitignore(fd))
            self._directory(fd, path + "/", depth + 1, ignores, take is Take.DESCEND)
            if self._lazy and self._lazy[-1][0] == path:
                self._lazy.pop()
        finally:
            os.close(fd)

    def _file(self, fd: int, name: str, path: str, status: os.stat_result, batch: _Batch | None) -> _Batch | None:
        if self._header.stored:
            self._weigh(path, status)
        if self._digester is None:
            return batch
        if (line := self._unchanged(path, status)) is not None:
            self._reused += 1
            self._bytes += status.st_size
            self._emit_line(line, status.st_size)
            return batch
        if batch is not None and (len(batch.files) >= BATCH_FILES or batch.bytes >= BATCH_BYTES):
            self._submit(fd, batch)
            batch = None
        if batch is None:
            batch = _Batch()
        self._emit(_Pending(batch, len(batch.files)))
        batch.files.append(Found(name, path, status))
        batch.bytes += status.st_size
        return batch

    def _weigh(self, path: str, status: os.stat_result) -> None:
        """Hold a file that is to be kept against the budget, and name what a content does not keep."""
        self._found_bytes += status.st_size
        if self._max_bytes is not None and self._found_bytes > self._max_bytes:
            raise TreeTooLarge(
                f"the files to be kept are larger than --snapshot-max-bytes ({self._max_bytes:,} bytes)",
                hint="raise it, or leave paths out with [files] ignore",
            )
        if status.st_nlink > 1:
            self._uncovered.add(path, "hard-link")
        if status.st_mode & 0o6000:
            self._uncovered.add(path, "set-id")

    def _unchanged(self, path: str, status: os.stat_result) -> bytes | None:
        """The earlier line of ``path`` where it still holds."""
        if self._earlier is None or max(status.st_mtime_ns, status.st_ctime_ns) >= self._safe_ns:
            return None
        head, tail = file_line_without_digest(path, status.st_mode & 0o7777, status.st_size, seen_of(status))
        return self._earlier.line_of(path, head, tail)

    def _other(self, fd: int, name: str, path: str, status: os.stat_result) -> None:
        """A link, FIFO, socket or device: named, never opened."""
        if not stat.S_ISLNK(status.st_mode):
            if self._header.stored:
                self._uncovered.add(path, kind_of(status.st_mode))
            self._other_line(path, status)
            return
        try:
            target = os.readlink(name, dir_fd=fd)
        except OSError:
            self._uncovered.add(path, "vanished")
            return
        self._other_line(path, status, target=target)

    def _submit(self, fd: int, batch: _Batch | None) -> None:
        if batch is not None:
            batch.future = self._pool.submit(self._read, os.dup(fd), batch.files)
            self._batches += 1
            self._drain(MAX_BATCHES)

    def _read(self, directory: int, files: list[Found]) -> list[Entry]:
        try:
            assert self._digester is not None
            return [read_file(directory, found, self._digester, self._stop) for found in files]
        finally:
            os.close(directory)

    def _other_line(
        self, path: str, status: os.stat_result, *, target: str | None = None, gap: str | None = None
    ) -> None:
        """The line of whatever is no regular file."""
        entry = Entry(
            path=path,
            kind=kind_of(status.st_mode),
            mode=stat.S_IMODE(status.st_mode),
            target=target,
            gap=gap,
            seen=seen_of(status),
        )
        line = to_line(entry)
        if self._earlier is not None:
            self._earlier.pass_over(line)
        self._emit_line(line, None)

    def _emit_line(self, line: bytes, size: int | None) -> None:
        if self._lazy:
            self._name_directories_above()
        if self._queue:
            self._emit(_Ready(line, size))
        else:
            self._count()
            self._write(line, size)

    def _name_directories_above(self) -> None:
        """A directory that is entered for guarded paths only is named once one is found."""
        lazy, self._lazy = self._lazy, []
        for path, status in lazy:
            self._other_line(path, status)

    def _emit(self, item: _Ready | _Pending) -> None:
        if self._lazy:
            self._name_directories_above()
        self._count()
        self._queue.append(item)
        if len(self._queue) % BATCH_FILES == 0:
            self._drain(MAX_BATCHES if len(self._queue) < MAX_QUEUE else 0)

    def _count(self) -> None:
        self._entries += 1
        if self._entries % 1024 == 0:
            if self._progress is not None:
                self._progress(self._entries, self._bytes)
            if self._entries > MAX_ENTRIES:
                raise TreeTooLarge(
                    f"{self._tree.path} holds more than {MAX_ENTRIES:,} entries",
                    hint="name what to watch with [files] watch, or leave directories out with [files] ignore",
                )

    def _drain(self, batches: int) -> None:
        """Write what is ready, in order, waiting until at most ``batches`` are under way."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, _Pending):
                future = item.batch.future
                if future is None or (not future.done() and self._batches <= batches):
                    return
                entry = future.result()[item.place]
                if item.place == len(item.batch.files) - 1:
                    self._batches -= 1
                if entry.gap is not None:
                    self._uncovered.add(entry.path, entry.gap)
                self._bytes += entry.size
                item = _Ready(to_line(entry), entry.size)
            self._queue.popleft()
            self._write(item.line, item.size)

    def _write(self, line: bytes, size: int | None) -> None:
        if run := self._tally.add(line, file_bytes=size):
            self._out.write(run)


def is_searchable(directory: int, mode: int) -> bool:
    """Whether names in ``directory`` can be looked at: one may be listed and yet tell nothing of what it holds."""
    if mode & 0o111 == 0o111:
        return True
    try:
        os.stat(".", dir_fd=directory)
    except PermissionError:
        return False
    return True
