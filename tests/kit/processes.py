"""Watching real processes: whether they live, and waiting for the very end of one."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from pathlib import Path

from docket.clock import SystemClock
from docket.process.tree import descendants, processes

PATIENCE = 20.0
"""Seconds after which a thing that has not happened is a failure, on a loaded machine."""


def gone(pid: int, patience: float = PATIENCE) -> bool:
    """Wait until the process has ended; False if it lives on."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], patience)[0])
    finally:
        os.close(descriptor)


def until(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Look until ``condition`` holds, for what the kernel announces to nobody but a parent; False if it never did."""
    clock = SystemClock()
    limit = clock.monotonic_us() + int(patience * 1e6)
    while not condition():
        if clock.monotonic_us() >= limit:
            return False
        select.select([], [], [], 0.005)
    return True


def state(pid: int) -> str:
    """The letter of proc(5), or an empty string for no process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text[text.rindex(")") + 2]


def below(pid: int) -> list[int]:
    """Living descendants."""
    return [row.pid for row in descendants(pid, processes()) if row.alive]


def argument_holders(marker: str) -> list[int]:
    """Every living process with ``marker`` in its command line, wherever it hangs."""
    holders = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line:
                holders.append(int(name))
    return holders
