"""The guardian: a small single-threaded process between docket and the agent.

Run as ``python -I -m docket.process.guardian SOCKET GROUP``: the number of its socket and docket's process group. It is
the child subreaper, starts the agent in its own process group (its own session when stdin is no terminal), does job
control, and reports over the socket. Invariant: it ends no earlier than everything it started; when the socket closes,
however docket died, it kills every descendant, walking until none is left. It carries no parent-death signal itself,
the agent carries the guardian's. It knows nothing of ledgers or HTTP.

From docket: ``spawn cwd argc argv... env...``, ``signal n``, ``stop n grace_us``, ``reap grace_us``.
To docket: ``ready adopts?``, ``forked pid``, ``spawned pid``, ``failed status text``, ``terminal away|home``,
``stopped n``, ``hangup``, ``exited code|signal n core``, ``orphan pid ended command``, ``reaped unnamed``.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

from docket.clock import SystemClock
from docket.host import host
from docket.process import kernel
from docket.process.cgroup import ControlGroup
from docket.process.launch import Command, Launch, launch
from docket.process.reaper import Reaper
from docket.process.terminal import Terminal
from docket.process.tree import descendants, in_own_namespace, processes
from docket.process.wire import Frames, frame

_JOB_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGSTOP)
_LEFT_ALONE = frozenset(
    {signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    | {signal.SIGTRAP, signal.SIGSYS}
)
"""Uncatchable, or a fault of the guardian's own that must end it."""
_READ = 256 * 1024


class Guardian:
    """One agent, from its start to the end of everything it started."""

    def __init__(self, control: socket.socket, home: int, mask: frozenset[int]) -> None:
        """``home`` is docket's process group, ``mask`` the signals that the agent is to find blocked."""
        self._machine = host()
        self._clock = SystemClock()
        self._control = control
        self._frames = Frames()
        self._terminal = Terminal.open(home)
        self._group: ControlGroup | None = None
        self._launch: Launch | None = None
        self._agent = 0
        self._running = False
        self._reaper: Reaper | None = None
        self._stop_deadline: int | None = None
        self._stop_asked = False
        self._halted = False
        self._reported = True
        self._connected = True
        self._childless = True
        self._poll = select.poll()
        self._mask = mask
        self._ignored, self._wakeup = _take_signals()

    def run(self) -> None:
        """Serve docket until it is gone and nothing is left."""
        if self._machine.subreaper:
            kernel.become_subreaper()
            kernel.forbid_inspection()
        if self._machine.proc_filesystem and not in_own_namespace():
            self._say("unready", "/proc does not show this PID namespace; mount it (unshare --mount-proc)")
            return
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)
        if self._terminal is not None:
            self._poll.register(self._terminal.descriptor, 0)
        self._say("ready", *(("adopts",) if self._machine.subreaper and kernel.adopts_orphans() else ()))
        try:
            while self._connected or not self._empty():
                self._step()
        finally:
            self._restore_terminal()

    def _step(self) -> None:
        for descriptor, events in self._poll.poll(self._timeout_ms()):
            if descriptor == self._control.fileno():
                self._receive()
            elif descriptor == self._wakeup:
                os.read(self._wakeup, 4096)
            elif self._launch is not None and descriptor == self._launch.verdict:
                self._launched(self._launch)
            else:
                self._poll.unregister(descriptor)
                if events & (select.POLLHUP | select.POLLERR):  # POLLNVAL: macOS cannot poll terminals
                    self._say("hangup")
        self._wait()
        self._advance()

    def _timeout_ms(self) -> int | None:
        now = self._clock.monotonic_us()
        waits = [self._reaper.wait_us(now) if self._reaper is not None else None]
        if self._running and self._stop_deadline is not None:
            waits.append(max(0, self._stop_deadline - now))
        return min((wait // 1000 + 1 for wait in waits if wait is not None), default=None)

    def _empty(self) -> bool:
        return self._reaper is None or self._reaper.done

    # ── docket's words ──

    def _receive(self) -> None:
        try:
            data = self._control.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        for verb, *fields in self._frames.feed(data):
            self._obey(verb, fields)

    def _obey(self, verb: bytes, fields: list[bytes]) -> None:
        match verb:
            case b"spawn":
                self._spawn(fields)
            case b"signal":
                self._signal(int(fields[0]))
            case b"stop":
                self._stop(int(fields[0]), int(fields[1]))
            case b"reap" if self._reaper is not None:
                self._reap(self._reaper, int(fields[0]))
            case _:
                raise ValueError(f"unknown message {verb!r}")

    def _lost(self) -> None:
        """The socket closed: docket is done, or dead. Nothing that was started stays."""
        self._connected = False
        self._poll.unregister(self._control)
        if self._terminal is not None and self._terminal.away:
            groups = {self._agent} | {_group_of(row.pid) for row in descendants(os.getpid(), processes())}
            if not self._terminal.still_ours(groups):
                self._terminal.forget()
        self._restore_terminal()
        if self._reaper is not None:
            self._reaper.begin(self._clock.monotonic_us(), 0)

    def _say(self, *fields: bytes | str | int) -> None:
        if self._connected:
            try:
                self._control.sendall(frame(*fields))
            except OSError:
                return  # docket is gone: the next read says so

    # ── the agent's life ──

    def _spawn(self, fields: list[bytes]) -> None:
        count = int(fields[1])
        pairs = [entry.partition(b"=") for entry in fields[2 + count :]]
        command = Command(fields[2 : 2 + count], {name: value for name, _, value in pairs}, fields[0])
        self._group = ControlGroup.create(os.getpid()) if self._machine.proc_filesystem else None
        self._launch = launch(
            command,
            machine=self._machine,
            own_session=self._terminal is None,
            place=self._place,
            prepare=self._enter_group,
            ignored=self._ignored,
            mask=self._mask,
        )
        self._poll.register(self._launch.verdict, select.POLLIN)

    def _place(self, pid: int) -> None:
        """The agent exists and waits: everything that must hold at its first instruction."""
        self._agent = pid
        self._running = True
        self._childless = False
        self._reaper = Reaper(os.getpid(), pid, self._group)
        self._say("forked", pid)  # said before the agent can do anything: should the guardian die, docket ends the tree
        self._give_terminal()

    def _enter_group(self) -> None:
        if self._group is not None:
            try:
                self._group.enter()
            except OSError:
                return  # not every writable group takes members; the walk does without

    def _launched(self, started: Launch) -> None:
        verdict = os.read(started.verdict, 65536)
        self._poll.unregister(started.verdict)
        os.close(started.verdict)
        self._launch = None
        if verdict:
            status, text = verdict.split(b" ", 1)
            self._running = False  # its exit status is not the agent's
            self._take_terminal()
            self._say("failed", status, text)
        else:
            self._say("spawned", self._agent)

    def _signal(self, number: int) -> None:
        if not self._running:
            return
        if number == signal.SIGCONT:
            self._give_terminal()
        if number == signal.SIGTSTP:
            if self._halted:
                self._say("stopped", number)
                return
            self._stop_asked = True
            if self._terminal is None:
                number = signal.SIGSTOP  # the kernel discards SIGTSTP for a group without a job-control parent
        self._kill_group(number)

    def _stop(self, number: int, grace_us: int) -> None:
        if not self._running:
            return
        deadline = self._clock.monotonic_us() + grace_us
        self._stop_deadline = min(deadline, self._stop_deadline or deadline)
        self._kill_group(number)
        self._kill_group(signal.SIGCONT)

    def _reap(self, reaper: Reaper, grace_us: int) -> None:
        now = self._clock.monotonic_us()
        if self._stop_deadline is not None:
            grace_us = min(grace_us, max(0, self._stop_deadline - now))  # one grace period, not two
        self._reported = False
        reaper.begin(now, grace_us)

    def _kill_group(self, number: int) -> None:
        try:
            os.killpg(self._agent, number)  # unreaped while _running, so the number cannot have been reused
        except (ProcessLookupError, PermissionError):
            return

    def _wait(self) -> None:
        flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        while True:
            try:
                pid, status = os.waitpid(-1, flags)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                if pid == self._agent and self._running:
                    self._halted = os.WIFSTOPPED(status)
                    if self._halted:
                        self._stopped(os.WSTOPSIG(status))
            elif pid == self._agent and self._running:
                if self._launch is not None:
                    self._launched(self._launch)
                if self._running:
                    self._exited(status)
            elif self._reaper is not None:
                self._reaper.ended(pid, status)

    def _exited(self, status: int) -> None:
        self._running = False
        self._take_terminal()
        if os.WIFEXITED(status):
            self._say("exited", "code", os.WEXITSTATUS(status), 0)
        else:
            self._say("exited", "signal", os.WTERMSIG(status), int(os.WCOREDUMP(status)))

    def _advance(self) -> None:
        reaper = self._reaper
        if reaper is None:
            return
        now = self._clock.monotonic_us()
        if self._running and self._stop_deadline is not None and now >= self._stop_deadline:
            reaper.begin(now, 0)
        reaper.tick(now, childless=self._childless)
        if reaper.done:
            self._report(reaper)

    def _report(self, reaper: Reaper) -> None:
        if self._running:  # not even SIGKILL ended it: it is among the survivors
            self._running = False
            self._take_terminal()
            self._say("exited", "signal", int(signal.SIGKILL), 0)
        if self._reported:
            return
        self._reported = True
        for orphan in reaper.orphans:
            self._say("orphan", orphan.pid, orphan.ended, orphan.command)
        self._say("reaped", reaper.unnamed)

    # ── job control ──

    def _stopped(self, number: int) -> None:
        wants_terminal = number in (signal.SIGTTIN, signal.SIGTTOU)
        if wants_terminal and self._terminal is not None and self._terminal.at_home():
            # `fg` on a running job gives docket's group the terminal without a SIGCONT.
            self._give_terminal()
            self._kill_group(signal.SIGCONT)
            return
        self._take_terminal(keep_modes=True)
        if self._stop_asked or (self._terminal is not None and number in _JOB_STOPS):
            self._say("stopped", number)
        self._stop_asked = False

    def _give_terminal(self) -> None:
        if self._terminal is not None and self._terminal.hand_over(self._agent):
            self._say("terminal", "away")

    def _take_terminal(self, *, keep_modes: bool = False) -> None:
        if self._terminal is not None and self._terminal.away:
            self._terminal.take_back(keep_modes=keep_modes)
            self._say("terminal", "home")

    def _restore_terminal(self) -> None:
        if self._terminal is not None:
            self._terminal.take_back()


def _take_signals() -> tuple[frozenset[int], int]:
    """Let every signal only wake the loop. Returns what was ignored before, and the descriptor that wakes.

    Handlers, unlike ignored signals, are not inherited through execve. Python itself ignores SIGPIPE and SIGXFSZ.
    """
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    own = {signal.SIGPIPE, signal.SIGXFSZ}
    ignored = set()
    for number in signal.valid_signals():
        was_ignored = signal.getsignal(number) == signal.SIG_IGN and number not in own
        if was_ignored:
            ignored.add(int(number))
        if number == signal.SIGCHLD or not (was_ignored or number in _LEFT_ALONE):
            signal.signal(number, _note)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return frozenset(ignored), reading


def _note(number: int, frame: object) -> None:
    """Do nothing: the wakeup descriptor has already noted it."""


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def main() -> None:
    """Run as a process, for which docket.process.supervision gives the arguments."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    mask = frozenset(int(number) for number in sys.argv[3].split(",") if number)
    Guardian(control, int(sys.argv[2]), mask).run()


if __name__ == "__main__":
    main()
