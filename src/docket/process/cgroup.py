"""A control group of the run's own, where a delegated one is writable: membership cannot be left by forking.

``cgroup.kill`` ends every member at once, which no walk over the process table can promise (cgroups(7) version 2,
Linux 5.14). Only an extra: everything works without it, and a failure anywhere means going on without.
"""

from __future__ import annotations

import os

_PREFIX = "docket-"


class ControlGroup:
    """One directory in the cgroup2 hierarchy that holds the agent and all its descendants."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def of(cls, guardian: int) -> ControlGroup | None:
        """The group that the guardian with this pid would have made, whether it did or not."""
        home = _own_group()
        return None if home is None else cls(os.path.join(home, f"{_PREFIX}{guardian}"))

    @classmethod
    def create(cls, guardian: int) -> ControlGroup | None:
        """A new group below the one this process is in, or None where that is not delegated to this user."""
        group = cls.of(guardian)
        if group is None:
            return None
        home = os.path.dirname(group.path)
        if not os.access(os.path.join(home, "cgroup.procs"), os.W_OK):
            return None
        _sweep(home)
        try:
            os.mkdir(group.path)
        except OSError:
            return None
        if os.path.exists(os.path.join(group.path, "cgroup.kill")):
            return group
        group.remove()
        return None

    def enter(self) -> None:
        """Move the calling process in. Raises OSError where the kernel refuses it."""
        self._write("cgroup.procs", b"0")

    def kill(self) -> bool:
        """SIGKILL for every member at once. False if the group is gone."""
        try:
            self._write("cgroup.kill", b"1")
        except OSError:
            return False
        return True

    def remove(self) -> None:
        """Remove the directory; it stays while a member survives."""
        try:
            os.rmdir(self.path)
        except OSError:
            return

    def _write(self, name: str, data: bytes) -> None:
        descriptor = os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def _sweep(home: str) -> None:
    """Remove the empty groups of guardians that were killed."""
    for name in os.listdir(home):
        pid = name.removeprefix(_PREFIX)
        if pid != name and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            ControlGroup(os.path.join(home, name)).remove()


def _own_group() -> str | None:
    """The directory of this process's own cgroup2 group, if the hierarchy is mounted."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as lines:
            own = next((line[3:].strip() for line in lines if line.startswith("0::")), None)
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            root = next((row.split()[1] for row in mounts if row.split()[2] == "cgroup2"), None)
    except OSError:
        return None
    if own is None or root is None or "/.." in own:
        return None
    return os.path.normpath(root + own)
