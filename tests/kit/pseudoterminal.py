"""A real pseudo-terminal with a program on it, written to and read from like a person would."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence

from docket.clock import SystemClock
from kit.processes import PATIENCE


class PseudoTerminal:
    """``argv`` as the leader of a new session whose controlling terminal is ours."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        size: tuple[int, int] = (24, 80),
    ) -> None:
        """``size`` is rows and columns."""
        self.master, slave = pty.openpty()
        self.resize(*size)
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.transcript = b""
        self._unread = b""

    def send(self, text: str) -> None:
        """Type."""
        os.write(self.master, text.encode())

    def expect(self, pattern: str, patience: float = PATIENCE) -> re.Match[str]:
        """Read until ``pattern`` appears after what was expected before; fails with all that was shown."""
        clock = SystemClock()
        limit = clock.monotonic_us() + int(patience * 1e6)
        while True:
            text = self._unread.decode("utf-8", "replace")
            if match := re.search(pattern, text):
                self._unread = text[match.end() :].encode()
                return match
            left = (limit - clock.monotonic_us()) / 1e6
            if left <= 0 or not self._read(left):
                raise AssertionError(f"no {pattern!r} after:\n{self.transcript.decode('utf-8', 'replace')}")

    def glimpse(self, pattern: str) -> re.Match[str]:
        """As ``expect``, but what stands around the match may still be expected."""
        mark = len(self.transcript) - len(self._unread)
        found = self.expect(pattern)
        self._unread = self.transcript[mark:]
        return found

    def rest(self) -> str:
        """Read until no program has the terminal any more, and return all that was shown."""
        while self._read(PATIENCE):
            pass
        self.process.wait()
        return self.transcript.decode()

    def _read(self, patience: float) -> bool:
        if not select.select([self.master], [], [], patience)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: no process has the terminal open any more
            return False
        self.transcript += data
        self._unread += data
        self.received(data)
        return bool(data)

    def received(self, data: bytes) -> None:
        """What the screen got just now; for whoever records it."""

    def resize(self, rows: int, columns: int) -> None:
        """Change the window size, as a terminal emulator does."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def foreground(self) -> int:
        """The process group in the foreground."""
        return os.tcgetpgrp(self.master)

    def hang_up(self) -> None:
        """Close the terminal: its processes see a hangup."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def close(self) -> None:
        """Hang up and end whatever still sits there."""
        self.hang_up()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
