"""Processes that still belong to a run: those whose environment holds its docket number.

Linux only (``/proc``). Sees what this user may see: a process that gave up its environment, or another user's, is not
found, and the answer says how many could not be looked at.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

MAX_ENVIRONMENT = 1 << 20
"""Bytes looked at of an environment; the kernel allows a quarter of the stack, which is 2 MiB by default."""


@dataclass(frozen=True, slots=True)
class Living:
    """Processes of a run by pid, and how many could not be looked at."""

    pids: tuple[int, ...]
    unseen: int


def processes_of(docket: str) -> Living:
    """The live processes whose environment names the run ``docket``."""
    needle, found, unseen = f"DOCKET_RUN={docket}\0".encode(), [], 0
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read(MAX_ENVIRONMENT)
        except PermissionError:
            unseen += 1
            continue
        except OSError:  # it ended meanwhile
            continue
        if needle in environment and not _is_zombie(name):
            found.append(int(name))
    return Living(tuple(sorted(found)), unseen)


def _is_zombie(name: str) -> bool:
    with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    return True
