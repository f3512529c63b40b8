"""What kind of file system a path is on, and whether room that was given back on it is there for whoever asks next.

Invariant: an unknown file system promises nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
PROMISING = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "ramfs", "vfat", "f2fs"})
"""File systems on which a freed block is a free block: no copy on write, no snapshot that keeps it, no server that
counts differently."""


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system that holds ``path`` (proc(5), mountinfo); ``unknown`` where nobody says."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "unknown"
    real, found, longest = os.path.realpath(path), "unknown", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].encode().decode("unicode_escape") if before.count(" ") >= 4 else ""
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if point and inside and len(point) >= longest:
            found, longest = after.split(" ")[0], len(point)
    return found


def room_is_promised(file_system: str) -> bool:
    """Return whether reserved room that is given back can be written again, other writers apart."""
    return file_system in PROMISING
