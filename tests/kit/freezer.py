"""A process that SIGKILL does not end: frozen in a version 1 freezer group, as good as uninterruptible sleep."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup/freezer")


class Freezer:
    """One freezer group. ``thaw`` lets what was killed meanwhile die."""

    def __init__(self, name: str) -> None:
        self.path = ROOT / name
        self.path.mkdir()

    @staticmethod
    def available() -> bool:
        """Whether this machine lets us make one (version 1 controller, root)."""
        probe = ROOT / f"docket-probe-{os.getpid()}"
        try:
            probe.mkdir()
            found = (probe / "freezer.state").exists()
            probe.rmdir()
        except OSError:
            return False
        return found

    def freeze(self, pid: int) -> None:
        """Move the process in and freeze it."""
        (self.path / "cgroup.procs").write_text(str(pid))
        (self.path / "freezer.state").write_text("FROZEN")

    def thaw(self) -> None:
        """Let everything in it run again."""
        (self.path / "freezer.state").write_text("THAWED")

    def remove(self) -> None:
        """Remove the empty group."""
        self.path.rmdir()
