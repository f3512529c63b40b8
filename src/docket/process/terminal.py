"""The controlling terminal: hand it to the agent's process group, take it back, restore its modes.

Invariants: the terminal is only taken from docket's own group, and only given back where docket had given it away, so
that a run in the background never steals it (POSIX.1-2017, 11.1 General Terminal Interface). SIGTTOU is blocked around
every change: the caller is usually a background group itself. A terminal that vanished is no error.
"""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

CONTROLLING = "/dev/tty"


class Terminal:
    """A controlling terminal, seen from a supervisor in the process group ``home``."""

    def __init__(self, descriptor: int, home: int) -> None:
        self.descriptor = descriptor
        self._home = home
        self._modes = self._read_modes()
        self._agent_modes: list[Any] | None = None
        self._away = False

    @classmethod
    def open(cls, home: int) -> Terminal | None:
        """The terminal of this session if stdin is one, else None. ``home`` is the process group docket lives in."""
        if not os.isatty(0):
            return None
        try:
            descriptor = os.open(CONTROLLING, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:  # stdin is a terminal, but not of this session
            return None
        return cls(descriptor, home)

    @property
    def away(self) -> bool:
        """Whether the agent's side has the terminal."""
        return self._away

    def at_home(self) -> bool:
        """Whether docket's own group is in the foreground, so that the terminal is docket's to give."""
        try:
            return os.tcgetpgrp(self.descriptor) == self._home
        except OSError:
            return False

    def hand_over(self, group: int) -> bool:
        """Put ``group`` in the foreground, with the modes it had when it lost it. False if docket has no terminal."""
        if self._away or not self.at_home():
            return False
        modes = self._read_modes()
        if modes is not None:
            self._modes = modes
        if self._agent_modes is not None:
            self._write_modes(self._agent_modes)
        self._away = _foreground(self.descriptor, group)
        return self._away

    def take_back(self, *, keep_modes: bool = False) -> None:
        """Undo ``hand_over``: docket's group in the foreground, its modes restored.

        ``keep_modes`` remembers the agent's modes for the next hand-over (it was stopped, not ended).
        """
        if not self._away:
            return
        self._away = False
        self._agent_modes = self._read_modes() if keep_modes else None
        _foreground(self.descriptor, self._home)
        if self._modes is not None:
            self._write_modes(self._modes)

    def still_ours(self, groups: Iterable[int]) -> bool:
        """Whether one of ``groups`` is in the foreground: once docket died, its shell may have taken the terminal."""
        try:
            return os.tcgetpgrp(self.descriptor) in set(groups)
        except OSError:
            return False

    def adopt(self) -> None:
        """Take over from a guardian that died while it had handed the terminal to the agent."""
        self._away = True

    def forget(self) -> None:
        """Someone else has the terminal now: leave it alone."""
        self._away = False

    def close(self) -> None:
        """Let go of the terminal without touching it."""
        os.close(self.descriptor)

    def _read_modes(self) -> list[Any] | None:
        try:
            return termios.tcgetattr(self.descriptor)
        except termios.error:
            return None

    def _write_modes(self, modes: list[Any]) -> None:
        with _sigttou_blocked():
            try:
                # Not TCSADRAIN: output held by Ctrl-S would keep the guardian waiting for ever.
                termios.tcsetattr(self.descriptor, termios.TCSANOW, modes)
            except termios.error:
                return


def _foreground(descriptor: int, group: int) -> bool:
    with _sigttou_blocked():
        try:
            os.tcsetpgrp(descriptor, group)
        except OSError:  # the group is gone (EPERM) or the terminal is (EIO, ENOTTY)
            return False
    return True


@contextmanager
def _sigttou_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
