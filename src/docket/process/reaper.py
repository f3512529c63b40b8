"""Ends what outlived the agent, and says of each straggler what it was and how it ended.

A state machine without a loop of its own: ``begin``, then ``tick`` whenever a child ended or ``wait_us`` passed, with
every wait status handed to ``ended``, until ``done``. First SIGTERM to every descendant, at the deadline SIGKILL until
none is left, at most KILL_LIMIT_US later the rest are survivors. Where orphans are handed to this process (subreaper),
only having no child left proves that the tree is empty: a walk over the process table is not atomic.
"""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

from docket.host import Host, host
from docket.process.cgroup import ControlGroup
from docket.process.tree import Process, command, descendants, processes, send

KILL_LIMIT_US = 10_000_000
"""SIGKILL ends everything but uninterruptible sleep; a receipt is not held up for longer than this by that."""
KILLING_LOOK_US = 20_000
"""Between two looks at the process table while killing; one costs about 5 ms on a machine with 200 processes."""
WAITING_LOOK_US = 100_000
"""The same while a grace period runs: only to meet processes that stragglers still start."""
MAX_ORPHANS = 4_096
"""Stragglers that are named one by one; a fork bomb must not make the ledger grow without limit."""
STOP_ROUNDS = 20
"""Rounds of SIGSTOP before a SIGKILL round: stopped processes keep their slots, so a fork bomb cannot refill them."""

_Key = tuple[int, str]


class Orphan(NamedTuple):
    """A descendant that outlived the agent. ``ended``: ``exited``, ``terminated``, ``killed`` or ``survived``."""

    pid: int
    ended: str
    command: str


class Reaper:
    """The end of one tree of processes below ``root``, which is the calling process. ``agent`` is no straggler."""

    def __init__(self, root: int, agent: int, group: ControlGroup | None = None, machine: Host | None = None) -> None:
        self._root = root
        self._agent = agent
        self._group = group
        self._machine = machine or host()
        self._commands: dict[_Key, str] = {}
        self._endings: dict[_Key, str] = {}
        self._by_pid: dict[int, _Key] = {}
        self._terminated: set[_Key] = set()
        self._beyond: set[_Key] = set()
        self._deadline: int | None = None
        self._kill_deadline: int | None = None
        self._next_look = 0
        self.unnamed = 0
        """Stragglers beyond MAX_ORPHANS."""
        self.done = False

    @property
    def begun(self) -> bool:
        """Whether the tree is being ended."""
        return self._deadline is not None

    def begin(self, now: int, grace_us: int) -> None:
        """Start ending what is there: SIGTERM now, SIGKILL after ``grace_us``. Repeated: the earlier deadline holds."""
        deadline = now + grace_us
        self._deadline = deadline if self._deadline is None else min(deadline, self._deadline)
        self._next_look = now

    def ended(self, pid: int, status: int) -> None:
        """A wait status of a child arrived: remember how a straggler ended."""
        key = self._by_pid.pop(pid, None)
        if key is None:
            return
        if os.WIFEXITED(status):
            self._endings[key] = "exited"
        else:
            self._endings[key] = "killed" if os.WTERMSIG(status) == signal.SIGKILL else "terminated"

    def tick(self, now: int, *, childless: bool) -> None:
        """Look at the tree and signal what has to be signalled. ``childless``: wait(2) says there is no child left."""
        if self._deadline is None or self.done:
            return
        if childless and self._machine.subreaper:
            self._finish([])
            return
        if now < self._next_look and not (now >= self._deadline and self._kill_deadline is None):
            return
        self._next_look = now + (WAITING_LOOK_US if now < self._deadline else KILLING_LOOK_US)
        rows = self._walk()
        if not rows and not self._machine.subreaper:
            self._finish([])
        elif now < self._deadline:
            self._terminate(rows)
        else:
            self._kill(rows)
            if self._kill_deadline is None:
                self._kill_deadline = now + KILL_LIMIT_US
            elif now >= self._kill_deadline:
                self._finish([row for row in self._walk() if row.alive])

    def wait_us(self, now: int) -> int | None:
        """Microseconds until ``tick`` has something to do even if no child ends; None: nothing."""
        if self._deadline is None or self.done:
            return None
        moment = self._next_look if now >= self._deadline else min(self._next_look, self._deadline)
        return max(0, moment - now)

    @property
    def orphans(self) -> list[Orphan]:
        """Every straggler that was seen, in order of discovery; whole once ``done``."""
        default = "terminated" if self._kill_deadline is None else "killed"  # its own parent reaped it
        return [Orphan(key[0], self._endings.get(key, default), text) for key, text in self._commands.items()]

    def _walk(self) -> list[Process]:
        table = processes(self._machine)
        rows = descendants(self._root, table)
        if not self._machine.subreaper:  # orphans are no descendants any more, but most are still in the agent's group
            found = {row.pid for row in rows}
            rows += [row for row in table if row.group == self._agent and row.pid not in found]
        keys = {(row.pid, row.start) for row in rows}
        self._terminated &= keys
        self._beyond &= keys
        for row in rows:
            if row.alive and row.pid != self._agent:
                self._meet(row)
        return rows

    def _meet(self, row: Process) -> None:
        key = (row.pid, row.start)
        if key in self._commands or key in self._beyond:
            return
        if len(self._commands) < MAX_ORPHANS:
            self._commands[key] = command(row.pid, self._machine)
            self._by_pid[row.pid] = key
        else:
            self._beyond.add(key)
            self.unnamed += 1

    def _terminate(self, rows: list[Process]) -> None:
        for row in rows:
            key = (row.pid, row.start)
            if row.alive and key not in self._terminated:
                self._terminated.add(key)
                send(row, signal.SIGTERM, self._machine)
                send(row, signal.SIGCONT, self._machine)  # a stopped process acts on SIGTERM only once it goes on

    def _kill(self, rows: list[Process]) -> None:
        if self._group is not None:
            self._group.kill()
        halted: set[_Key] = set()
        for _ in range(STOP_ROUNDS):
            fresh = [row for row in rows if (row.pid, row.start) not in halted]
            if not fresh:
                break
            for row in fresh:
                halted.add((row.pid, row.start))
                send(row, signal.SIGSTOP, self._machine)
            rows = self._walk()
        for row in rows:
            send(row, signal.SIGKILL, self._machine)

    def _finish(self, survivors: list[Process]) -> None:
        for row in survivors:
            key = (row.pid, row.start)
            self._endings[key] = "survived"
            self._commands.setdefault(key, command(row.pid, self._machine))
        if self._group is not None:
            self._group.remove()
        self.done = True
