"""What a program wants on the record, kept until it is: in order, each once, through an absence of the boundary.

Every item has an idempotency key of its own, so that sending it again after a lost answer records nothing twice.
Invariants: an item leaves the outbox only by an answer (recorded, or refused for good); nothing is sent before what was
put in earlier; with a file, what was put in is there again after the process died.
"""

from __future__ import annotations

import fcntl
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from docket.errors import DocketError

MAX_ITEMS = 1000
"""Items that wait: beyond them the program is told at once, since memory is bounded."""
FIRST_WAIT, LONGEST_WAIT = 0.2, 30.0
"""Seconds before the next try, doubled each time."""


class OutboxError(DocketError):
    """The outbox takes nothing: it is full, closed, or another process has its file."""

    code = "outbox"


@dataclass(frozen=True, slots=True)
class Item:
    """One event to be recorded: its key, and the body of the request."""

    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """An item that the boundary refused for good, with its status and reason."""

    item: Item
    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Later:
    """Nobody answered, or the answer was to try again, after ``seconds`` where it said so."""

    seconds: float | None = None


class Send(Protocol):
    """Sends an item. Returns None where it is on the record."""

    def __call__(self, item: Item) -> Refusal | Later | None: ...


class Outbox:
    """Delivers items in a thread of its own. Usable from any thread."""

    def __init__(
        self,
        send: Send,
        *,
        path: Path | None = None,
        run: str = "",
        on_refused: Callable[[Refusal], None] = lambda _: None,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """``path`` keeps the items of a process that dies, for a later one of the same ``run``.

        ``wait`` waits for an event so many seconds at most. Raises OutboxError where another process has ``path`` or it
        holds what another run should record, OSError where it cannot be used.
        """
        self._send = send
        self._on_refused = on_refused
        self._wait = wait
        self._file = _ItemFile(path, run) if path is not None else None
        self._items = deque(self._file.items() if self._file is not None else ())
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="docket outbox", daemon=True)
        self._thread.start()

    def put(self, body: bytes) -> None:
        """Take an event. Raises OutboxError where there is no room, or after the end; OSError of the file."""
        with self._changed:
            if self._closed.is_set():
                raise OutboxError("this session is closed")
            if len(self._items) >= MAX_ITEMS:
                raise OutboxError(f"{MAX_ITEMS} events wait already", hint="is the run that takes them still there?")
            item = Item(str(uuid.uuid4()), body)
            if self._file is not None:
                self._file.append(item)
            self._items.append(item)
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """How many items have no answer yet."""
        return len(self._items)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until every item has its answer, at most so long. Return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._items, seconds)

    def close(self, seconds: float) -> int:
        """Flush, stop, and return how many items are left; with a file the next process delivers them."""
        self.flush(seconds)
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        self._thread.join(seconds)
        if self._file is not None and not self._thread.is_alive():
            self._file.close(self._items)
        return len(self._items)

    def _deliver(self) -> None:
        tries = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._closed.is_set())
                if self._closed.is_set():
                    return
                item = self._items[0]
            answer = self._send(item)
            if isinstance(answer, Later):
                wait = answer.seconds if answer.seconds is not None else FIRST_WAIT * 2.0 ** min(tries, 16)
                tries += 1
                self._wait(self._closed, min(wait, LONGEST_WAIT))
                continue
            tries = 0
            if answer is not None:
                self._on_refused(answer)
            with self._changed:
                self._items.popleft()
                if self._file is not None:
                    self._file.done(item)
                self._changed.notify_all()


class _ItemFile:
    """Items on disk: the run, a line each, and a line for each that has its answer. One process at a time."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise OutboxError(f"{path} is used by another process", hint="give each process an outbox") from None
        other, self._kept = self._left()
        if self._kept and other != run:
            os.close(self._fd)
            message = f"{path} holds {len(self._kept)} events of the run {other or 'that it does not name'}"
            raise OutboxError(message, hint="resume that run to have them recorded, or give another file")
        os.ftruncate(self._fd, 0)
        self._write({"run": run})
        for item in self._kept:
            self.append(item)

    def items(self) -> list[Item]:
        """What an earlier process left."""
        return self._kept

    def append(self, item: Item) -> None:
        self._write({"key": item.key, "body": item.body.decode()})

    def done(self, item: Item) -> None:
        self._write({"done": item.key})

    def close(self, left: deque[Item]) -> None:
        """Remove the file where nothing is left in it."""
        if not left:
            self._path.unlink(missing_ok=True)
        os.close(self._fd)

    def _write(self, line: dict[str, str]) -> None:
        data = orjson.dumps(line) + b"\n"
        while data:
            data = data[os.write(self._fd, data) :]

    def _left(self) -> tuple[str, list[Item]]:
        """The run, and the items without an answer; a last line that a dying process left in the middle is none."""
        with open(os.dup(self._fd), "rb") as file:
            file.seek(0)
            lines = file.read().split(b"\n")
        run, items = "", dict[str, Item]()
        for line in lines[:-1]:
            match orjson.loads(line):
                case {"run": str(name)}:
                    run = name
                case {"key": str(key), "body": str(body)}:
                    items[key] = Item(key, body.encode())
                case {"done": str(key)}:
                    items.pop(key, None)
        return run, list(items.values())
