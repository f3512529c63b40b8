"""Reading one regular file into its entry, or into the reason why its content is not known."""

from __future__ import annotations

import os
import stat
import threading
from typing import NamedTuple

from docket.snapshot.content import Digester
from docket.snapshot.manifest import MAX_FILE_BYTES, Entry, seen_of

_OPEN_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""A FIFO that took the file's place does not make the reader wait."""


class Found(NamedTuple):
    """A file to be read."""

    name: str
    path: str
    status: os.stat_result


def read_file(directory: int, found: Found, digester: Digester, stop: threading.Event) -> Entry:
    """The entry of a file, read once more where it changed meanwhile. A gap where it cannot be read."""
    gap = "changing" if found.status.st_size <= MAX_FILE_BYTES else "too-large"
    for _ in range(2):
        if stop.is_set() or gap == "too-large":
            break
        try:
            fd = os.open(found.name, _OPEN_FILE, dir_fd=directory)
        except FileNotFoundError:
            gap = "vanished"
            break
        except OSError:
            gap = "unreadable"
            break
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                gap = "changing"
                continue
            sha256, size = digester.read(fd)
            after = os.fstat(fd)
        except OSError:
            gap = "unreadable"
            break
        finally:
            os.close(fd)
        if seen_of(before) == seen_of(after) and size == after.st_size:
            return Entry(
                path=found.path,
                kind="file",
                mode=stat.S_IMODE(after.st_mode),
                size=size,
                sha256=sha256,
                seen=seen_of(after),
            )
    return Entry(
        path=found.path,
        kind="file",
        mode=stat.S_IMODE(found.status.st_mode),
        size=found.status.st_size,
        gap=gap,
        seen=seen_of(found.status),
    )
