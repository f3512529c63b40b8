"""What supervision reports: how the agent started, how it ended, and what outlived it. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from docket.process.reaper import Orphan

__all__ = ["ExecFailed", "ExitStatus", "Orphan", "Reaped", "Spawned"]


@dataclass(frozen=True, slots=True)
class Spawned:
    """The agent runs: execve(2) succeeded."""

    pid: int


@dataclass(frozen=True, slots=True)
class ExecFailed:
    """The command cannot be run. ``status`` is docket's exit status for it: 127 not found, 126 any other reason."""

    status: int
    reason: str
    """Names the command and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How the agent ended: exactly one of ``code`` (0 to 255) and ``signal`` (its number)."""

    code: int | None = None
    signal: int | None = None
    core_dumped: bool = False

    @property
    def shell_status(self) -> int:
        """The exit status a shell would show: the code, or 128 + the signal (POSIX.1-2017, 2.8.2)."""
        return self.code if self.code is not None else 128 + (self.signal or 0)


@dataclass(frozen=True, slots=True)
class Reaped:
    """Everything the agent started is gone, except ``survivors``."""

    orphans: tuple[Orphan, ...]
    """Every descendant that outlived the agent, survivors included."""
    unnamed: int = 0
    """Further orphans beyond the number that is named one by one (reaper.MAX_ORPHANS)."""
    guardian_lost: bool = False
    """The guardian died during the run; docket reaped what it could."""

    @property
    def survivors(self) -> tuple[Orphan, ...]:
        """What SIGKILL did not end within 10 s (uninterruptible sleep, or another user's process)."""
        return tuple(orphan for orphan in self.orphans if orphan.ended == "survived")
