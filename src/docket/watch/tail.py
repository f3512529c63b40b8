"""The durable events of one run's ledger as they are written, read by cursor: lines of the file, never parsed whole.

Owns the way from a cursor (a ``seq``) to a place in the file, and what counts as durable for a reader of another
process: while a docket holds the run, the events that its last checkpoint covers, which is never more than two seconds
behind; afterwards every whole line. Never writes, keeps no list of events, and reads the same whether the run goes on,
ended, died with a torn tail, or was continued.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from docket.clock import Clock
from docket.errors import LedgerError
from docket.ledger.chain import MAX_LINE
from docket.storage.lock import holder_of
from docket.storage.paths import CHECKPOINTS, LEDGER, LOCK, RunDirectory
from docket.storage.regular import open_regular

START = -1
"""The cursor before the first event."""
CHUNK = 256 * 1024
"""Bytes of lines handed over at once: some hundred events, and what a slow reader makes wait."""
KEPT = 8
"""Chunks kept for readers that stand at the same place: the newest ones, so that ten watchers cost one reading."""
NOTES = 4096
"""Bytes of the end of the checkpoints file that hold its last whole note."""
_SEQ = re.compile(rb'"seq":([0-9]{1,16}),"ts":"')
_NOTE = re.compile(rb"docket/[^\n]+\n([1-9][0-9]{0,15})\n(?:[^\n]+\n)+\n[^\n]+ docket/[^\n]+\n")
LOOK_US = 1_000_000
"""How often the lock is looked at while a docket holds it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event as it stands in the file, without its line feed."""

    seq: int
    content: bytes

    @property
    def hash(self) -> str:
        """The event's own hash, or nothing where the line is no event."""
        with suppress(orjson.JSONDecodeError, TypeError, KeyError):
            return str(orjson.loads(self.content)["hash"])
        return ""


class LedgerTail:
    """The ledger of ``run``, held open."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open the run directory ``path``. Raises UsageError, LedgerError where there is no ledger to read."""
        self.run = RunDirectory.open(path)
        try:
            self._fd = _open(self.run, LEDGER)
        except LedgerError:
            self.run.close()
            raise
        self._end = 0
        self._size = 0
        self._chunks: OrderedDict[int, tuple[Line, ...]] = OrderedDict()
        self._places: dict[int, int] = {}
        self._clock = clock
        self._looked: tuple[int, int, int] | None = None
        self.live = True
        """Whether a docket held the run when it was looked at last."""
        self.refresh()

    @property
    def last(self) -> int:
        """The ``seq`` of the last durable event, or START where there is none yet."""
        return self._size - 1

    def refresh(self) -> bool:
        """Look again; return whether there is more, or less, than before. Raises LedgerError if the ledger is gone."""
        status = os.fstat(self._fd)
        try:
            named = os.stat(LEDGER, dir_fd=self.run.fd, follow_symlinks=False)
        except OSError as error:
            raise LedgerError(f"{self.run.path / LEDGER} is gone: {error.strerror}") from error
        if (named.st_ino, named.st_dev) != (status.st_ino, status.st_dev):
            raise LedgerError(f"{self.run.path / LEDGER} is another file now", hint="docket verify says what happened")
        self._look(status)
        size = self._attested() if self.live else self._whole(status.st_size)
        if status.st_size < self._end:
            self._forget()
        changed, self._size = size != self._size, size
        return changed

    def read(self, after: int) -> tuple[Line, ...]:
        """Return the next durable events behind the cursor ``after``: at most some CHUNK bytes; none at the end."""
        if after >= self.last:
            return ()
        cached = self._chunks.get(after)
        if cached is None:
            cached = self._read(after)
            if cached:
                self._chunks[after] = cached
                while len(self._chunks) > KEPT:
                    self._chunks.popitem(last=False)
        return cached

    def line(self, seq: int) -> Line | None:
        """Return the durable event ``seq``, or None where there is none such."""
        if not 0 <= seq <= self.last:
            return None
        found = self._read(seq - 1, most=1)
        return found[0] if found and found[0].seq == seq else None

    def close(self) -> None:
        """Let go of the file and the directory."""
        os.close(self._fd)
        self.run.close()

    def _look(self, ledger: os.stat_result) -> None:
        """Find out whether a docket holds the run, without getting into the way of one that is about to take it.

        The lock of a run that nobody holds is tried again only when something about the run has changed.
        """
        with suppress(OSError):
            lock = os.stat(LOCK, dir_fd=self.run.fd, follow_symlinks=False)
            moment = self._clock.monotonic_us() // LOOK_US if self.live else 0
            looked = (moment, lock.st_mtime_ns, ledger.st_size if not self.live else 0)
            if looked == self._looked:
                return
            self._looked = looked
            self.live = lock.st_size > 0 and holder_of(self.run) is not None
            return
        self.live = False

    def _attested(self) -> int:
        """The size that the last whole note states."""
        with suppress(LedgerError):
            fd = _open(self.run, CHECKPOINTS)
            try:
                length = os.fstat(fd).st_size
                data = os.pread(fd, NOTES, max(0, length - NOTES))
            finally:
                os.close(fd)
            sizes = _NOTE.findall(data)
            if sizes:
                return int(sizes[-1])
        return 0

    def _whole(self, length: int) -> int:
        """The number of whole lines: the ``seq`` of the last one, and one."""
        start = max(0, length - MAX_LINE)
        data = os.pread(self._fd, length - start, start)
        end = data.rfind(b"\n")
        if end < 0:
            return 0
        number = _seq_of(data[data.rfind(b"\n", 0, end) + 1 : end])
        return 0 if number is None else number + 1

    def _read(self, after: int, most: int = 1 << 30) -> tuple[Line, ...]:
        offset = self._places.get(after)
        if offset is None:
            offset = self._offset_of(after + 1)
        lines: list[Line] = []
        data = os.pread(self._fd, CHUNK, offset)
        while data and b"\n" not in data and len(data) < MAX_LINE:
            data += os.pread(self._fd, MAX_LINE, offset + len(data))
        for content in data.split(b"\n")[:-1]:
            seq = after + 1 + len(lines)
            if seq > self.last or len(lines) == most:
                break
            if _seq_of(content) != seq:
                raise LedgerError(
                    f"the ledger of {self.run.name} does not hold event {seq} where it should stand",
                    hint="docket verify says what happened",
                )
            offset += len(content) + 1
            lines.append(Line(seq, content))
        if lines:
            self._end = max(self._end, offset)
            self._places = {lines[-1].seq: offset} | ({} if len(self._places) > KEPT else self._places)
        return tuple(lines)

    def _offset_of(self, seq: int) -> int:
        """Where the line of event ``seq`` begins, found by halving: lines are in order, and each names its ``seq``."""
        low, high = 0, os.fstat(self._fd).st_size
        while high - low > MAX_LINE:
            middle = (low + high) // 2
            data = os.pread(self._fd, 2 * MAX_LINE, middle)
            begin = data.find(b"\n") + 1
            end = data.find(b"\n", begin)
            number = _seq_of(data[begin:end]) if 0 < begin < end else None
            if number is None or number > seq:
                high = middle
            elif number == seq:
                return middle + begin
            else:
                low = middle + begin
        data = os.pread(self._fd, high - low + 2 * MAX_LINE, low)
        offset = 0
        while (end := data.find(b"\n", offset)) >= 0:
            if _seq_of(data[offset:end]) == seq:
                return low + offset
            offset = end + 1
        raise LedgerError(
            f"the ledger of {self.run.name} holds no event {seq}", hint="docket verify says what happened"
        )

    def _forget(self) -> None:
        self._chunks.clear()
        self._places.clear()
        self._end = 0


def _seq_of(content: bytes) -> int | None:
    """The ``seq`` of a line: the last member of this spelling, since those of ``data`` and ``private`` stand before."""
    found = _SEQ.findall(content)
    return int(found[-1]) if found else None


def _open(run: RunDirectory, name: str) -> int:
    try:
        return open_regular(name, directory=run.fd)
    except OSError as error:
        raise LedgerError(f"cannot open {run.path / name}: {error.strerror}", hint="docket ls lists runs") from error
