"""The one platform switch: which system this is, what it can do, and what a run on it cannot show.

Nothing Linux-only is imported when a module loads; every place that needs a facility asks the ``Host`` first.
Systems that are neither Linux nor macOS are refused by name. No run on a real macOS was made: its paths are tested by
stand-ins.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import NamedTuple

from docket.errors import UsageError


class Host(NamedTuple):
    """What the operating system offers. ``limits`` are sentences for the receipt's ``limits``."""

    name: str
    subreaper: bool
    """Orphaned descendants are handed to the guardian (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    death_signal: bool
    """The agent is killed by the kernel when the guardian dies (prctl(2), PR_SET_PDEATHSIG)."""
    proc_filesystem: bool
    """Processes are listed in /proc (proc(5)); elsewhere ``ps`` is asked."""
    full_sync: bool
    """fsync(2) does not reach the platter; fcntl F_FULLFSYNC is needed (fcntl(2) of macOS)."""
    limits: tuple[str, ...] = ()


LINUX = Host(name="linux", subreaper=True, death_signal=True, proc_filesystem=True, full_sync=False)

MACOS = Host(
    name="darwin",
    subreaper=False,
    death_signal=False,
    proc_filesystem=False,
    full_sync=True,
    limits=(
        "macOS has no child subreaper: an orphan that left the agent's process group (a daemon) may outlive the run",
        "macOS has no parent-death signal: when docket and its guardian are both killed, the agent is not ended",
        "docket was not tested on a real macOS",
    ),
)


@lru_cache(maxsize=8)
def host(platform: str = sys.platform) -> Host:
    """The host for a ``sys.platform`` string. Raises UsageError that names an unsupported system."""
    if platform.startswith("linux"):
        return LINUX
    if platform == "darwin":
        return MACOS
    raise UsageError(
        f"docket cannot supervise processes on {platform!r}",
        hint="run it on Linux (or macOS, with weaker guarantees), for example in a container",
    )
