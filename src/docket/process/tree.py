"""Who descends from a process, and signals that can only reach the process that was meant.

A process is its pid *and* its start time: pids are reused. A signal goes through a pidfd whose start time was compared
after it was opened, so that it cannot hit a newcomer (pidfd_open(2)). Listing is a snapshot: callers repeat it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

from docket.host import Host, host

MAX_COMMAND = 4096
"""Bytes of a command line that are kept: one page is what ps(1) users know, and an agent chooses the text."""


class Process(NamedTuple):
    """One row of the process table. ``start`` is opaque: equal pid and start mean the same process."""

    pid: int
    parent: int
    start: str
    alive: bool
    group: int = 0


def processes(machine: Host | None = None) -> list[Process]:
    """Every process this one may see, as a snapshot."""
    machine = machine or host()
    return _proc_processes() if machine.proc_filesystem else _ps_processes()


def descendants(root: int, rows: Iterable[Process]) -> list[Process]:
    """The rows whose chain of parents leads to ``root``, parents before children; ``root`` itself is left out."""
    children: dict[int, list[Process]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row)
    found: list[Process] = []
    queue, seen = [root], {root}
    while queue:
        for row in children.get(queue.pop(), ()):
            if row.pid not in seen:
                seen.add(row.pid)
                found.append(row)
                queue.append(row.pid)
    return found


def send(process: Process, number: int, machine: Host | None = None) -> bool:
    """Signal exactly this process. False when it is gone or may not be signalled (EPERM)."""
    machine = machine or host()
    if not machine.proc_filesystem:
        return _kill(process.pid, number)
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:  # seccomp profiles older than the call refuse it with ENOSYS or EPERM
        return same(process) and _kill(process.pid, number)
    try:
        if not same(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


def same(process: Process) -> bool:
    """Whether the pid still names this process (Linux)."""
    row = _stat(process.pid)
    return row is not None and row.start == process.start


def parent(pid: int, machine: Host | None = None) -> int:
    """The parent's pid; 0 when there is none or the process is gone."""
    machine = machine or host()
    if not machine.proc_filesystem:
        return int(_ps(f"-p{pid}", "-oppid=").strip() or 0)
    row = _stat(pid)
    return row.parent if row is not None else 0


def command(pid: int, machine: Host | None = None) -> str:
    """The command line, arguments joined by spaces, at most MAX_COMMAND bytes; without one, the name in brackets."""
    machine = machine or host()
    if not machine.proc_filesystem:
        return _ps(f"-p{pid}", "-ocommand=").strip()[:MAX_COMMAND]
    line = _read(f"/proc/{pid}/cmdline", MAX_COMMAND).rstrip(b"\0").replace(b"\0", b" ")
    if not line:
        name = _read(f"/proc/{pid}/comm", 64).strip()
        line = b"[" + name + b"]" if name else b""
    return line.decode("utf-8", "replace")


def in_own_namespace() -> bool:
    """Whether /proc shows the PID namespace this process lives in (Linux)."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _proc_processes() -> list[Process]:
    rows = (_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [row for row in rows if row is not None]


def _stat(pid: int) -> Process | None:
    text = _read(f"/proc/{pid}/stat", 1024)
    if not text:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name may hold spaces and brackets (proc(5))
    # A zombie leader whose other threads still run is alive: state Z, more than one thread.
    alive = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1
    return Process(pid, int(fields[1]), fields[19].decode(), alive, int(fields[2]))


def _read(path: str, size: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, size)
    except OSError:  # the process ended in between (ESRCH)
        return b""
    finally:
        os.close(descriptor)


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _ps_processes() -> list[Process]:
    rows = []
    for line in _ps("-A", "-opid=,ppid=,pgid=,stat=,lstart=").splitlines():
        pid, above, group, state, start = line.split(None, 4)
        rows.append(Process(int(pid), int(above), start.strip(), not state.startswith("Z"), int(group)))
    return rows


def _ps(*arguments: str) -> str:
    import subprocess  # only where there is no /proc; the guardian on Linux starts without it

    with subprocess.Popen(["/bin/ps", *arguments], stdout=subprocess.PIPE, text=True) as listing:
        output, _ = listing.communicate()
    return "".join(line for line in output.splitlines(keepends=True) if line.split()[:1] != [str(listing.pid)])
