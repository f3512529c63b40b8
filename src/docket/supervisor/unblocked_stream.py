"""A text stream that never waits for a reader: where nobody empties the pipe or terminal, docket goes on all the same.

The descriptor is shared with the agent, so its flags stay as they are. What can be opened anew (a pipe, a terminal) is,
for docket alone and without blocking; anything else is only written to while it says that it has room. Invariant: what
is not taken waits here, whole and in order, up to a limit.
"""

from __future__ import annotations

import io
import os
import select
import stat
from contextlib import suppress
from typing import TextIO

from docket.clock import SystemClock

MAX_WAITING = 64 * 1024
"""Bytes kept for a reader that does not read: more than a run says. What comes then is dropped: the ledger has it."""
AT_ONCE = 512
"""Bytes for which a pipe that says it has room has it (POSIX.1-2017, PIPE_BUF at least 512)."""
PATIENCE_US = 1_000_000
"""How long a slow reader is waited for at the end."""


class UnblockedStream:
    """Writes to the descriptor of another stream without ever waiting. Raises OSError where that stream is broken."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._own = _opened_anew(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor if self._own is None else self._own, select.POLLOUT)
        self._waiting = bytearray()

    def write(self, text: str) -> None:
        """Write ``text`` as far as somebody reads, and keep the rest for the next write."""
        data = text.encode("utf-8", "backslashreplace")
        if not self._waiting or len(self._waiting) + len(data) <= MAX_WAITING:
            self._waiting += data
        self._send(0)

    def flush(self) -> None:
        """Do what a write does for what waits."""
        self._send(0)

    def close(self) -> None:
        """Give a slow reader a moment to take what waits, and drop the rest."""
        clock = SystemClock()
        limit = clock.monotonic_us() + PATIENCE_US
        with suppress(OSError):
            while self._waiting and (left := limit - clock.monotonic_us()) > 0:
                self._send(left // 1000 + 1)
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def _send(self, patience_ms: int) -> None:
        try:
            while self._waiting and self._poll.poll(patience_ms):
                if self._own is None:
                    sent = os.write(self._descriptor, self._waiting[:AT_ONCE])
                else:
                    sent = os.write(self._own, self._waiting)
                del self._waiting[:sent]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()
            raise


def unblocked(stream: TextIO) -> TextIO | UnblockedStream:
    """Return ``stream``, or what writes to its descriptor without waiting where it has one."""
    try:
        return UnblockedStream(stream.fileno())
    except (OSError, ValueError, io.UnsupportedOperation):  # a stream of a test, or one that was closed
        return stream


def _opened_anew(descriptor: int) -> int | None:
    """A descriptor of docket's own for the pipe or terminal behind ``descriptor``; None where there can be none."""
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or os.isatty(descriptor)):
        return None
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # no /proc, or somebody else's pipe
        return None
