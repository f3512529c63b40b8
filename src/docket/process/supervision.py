"""docket's end of the guardian: start it, have it spawn the agent, learn how that ended, and have the rest reaped.

Order of use: ``Guardian.start()`` before docket has any thread, event loop or signal handler (the agent inherits the
signals that were ignored then); inside the loop ``await spawn(...)``, ``await exited()``, ``await reap(grace)``,
``await close()``; ``stop`` and ``signal`` at any time between. Invariants: losing the guardian ends the run, never
hangs it: ``exited`` and ``reap`` still answer, ``lost`` says so, and docket, itself a subreaper, ends what it can find.
docket starts no other child process: as PID 1 every foreign orphan is reaped here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from signal import SIGCHLD, SIGCONT, SIGKILL, SIGTERM
from typing import TypeVar

from docket.clock import SystemClock
from docket.errors import ProcessError
from docket.host import host
from docket.process import kernel
from docket.process.cgroup import ControlGroup
from docket.process.outcome import ExecFailed, ExitStatus, Orphan, Reaped, Spawned
from docket.process.reaper import KILL_LIMIT_US, Reaper
from docket.process.terminal import Terminal
from docket.process.wire import Frames, frame

START_SECONDS = 20.0
"""A Python that has not started by then (it takes 0.03 s) is not going to."""
ANSWER_SECONDS = KILL_LIMIT_US / 1e6 + 10.0
"""How long past a grace period the guardian may take to report: its own bound, and slack for a loaded machine."""

_T = TypeVar("_T")


class Guardian:
    """The running guardian process and what it has reported."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, terminal: Terminal | None) -> None:
        self._process = process
        self._control = control
        self._terminal = terminal
        self._machine = host()
        self._clock = SystemClock()
        self._link: _Link | None = None
        self._forked: int | None = None
        self._agent: int | None = None
        self._stage: asyncio.Future[list[bytes]] | None = None
        self._exit: asyncio.Future[ExitStatus] | None = None
        self._reaped: asyncio.Future[Reaped] | None = None
        self._gone: asyncio.Future[None] | None = None
        self._early: list[tuple[str | int, ...]] = []
        self._orphans: list[Orphan] = []
        self._closing = False
        self._salvage: Reaper | None = None
        self.adopts = False
        """Whether a trial showed that orphans are handed to the guardian."""
        self.lost = False
        """The guardian died before docket was done with it."""
        self.on_stopped: Callable[[int], None] = lambda number: None
        """Called with the signal when the agent was stopped and docket should stop as well (job control)."""
        self.on_hangup: Callable[[], None] = lambda: None
        """Called when the terminal vanished."""

    @classmethod
    def start(cls, mask: Iterable[int] | None = None) -> Guardian:
        """Start the guardian; returns at once. The agent gets the signal ``mask``, by default the one of now.

        Raises ProcessError, UsageError on an unsupported system.
        """
        machine = host()
        if machine.subreaper:
            kernel.become_subreaper()
        ours, theirs = socket.socketpair()
        try:
            terminal = Terminal.open(os.getpgrp())
            theirs.set_inheritable(True)
            blocked = ",".join(
                str(int(number)) for number in (signal.pthread_sigmask(signal.SIG_BLOCK, ()) if mask is None else mask)
            )
            arguments = (str(theirs.fileno()), str(os.getpgrp()), blocked)
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "docket.process.guardian", *arguments],
                close_fds=False,  # what the user passed to docket is the agent's; docket's own are not inheritable
                process_group=0,  # what is sent to docket's group must not reach the one that cleans up after it
            )
        except OSError as error:
            ours.close()
            raise ProcessError(f"the guardian could not be started: {error.strerror}") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        signal.signal(SIGCHLD, signal.SIG_DFL)  # whoever started docket may have ignored or blocked it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {SIGCHLD})
        return cls(process, ours, terminal)

    @property
    def forked(self) -> bool:
        """Whether the agent was forked."""
        return self._forked is not None

    @property
    def pid(self) -> int:
        """The guardian's process id."""
        return self._process.pid

    async def spawn(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Spawned | ExecFailed:
        """Run ``argv`` with exactly ``env`` in directory ``cwd``; returns once execve(2) has succeeded or failed.

        The command is looked up in the PATH of ``env``. Raises ProcessError when the guardian does not work, or an
        argument holds a NUL.
        """
        await self._attach()
        try:
            message = frame(
                "spawn",
                os.fsencode(cwd),
                len(argv),
                *(os.fsencode(argument) for argument in argv),
                *(os.fsencode(name) + b"=" + os.fsencode(value) for name, value in env.items()),
            )
        except ValueError as error:
            raise ProcessError(f"the command cannot be passed to execve: {error}") from error
        answer = await self._answer(message)
        if answer[0] == b"failed":
            self._exit = None
            return ExecFailed(int(answer[1]), answer[2].decode("utf-8", "replace"))
        self._agent = int(answer[1])
        for early in self._early:
            self._tell(*early)
        return Spawned(self._agent)

    def signal(self, number: int) -> None:
        """Send a signal to the agent's process group: before the spawn, at the spawn; after its end, nowhere."""
        self._tell("signal", int(number))

    def stop(self, grace_seconds: float, number: int = SIGTERM) -> None:
        """End the agent: ``number`` to its group now, SIGKILL to the whole tree once the grace period is over.

        Returns at once; ``exited`` tells. Repeated: the signal is sent again and the earlier deadline holds, so
        ``stop(0)`` kills.
        """
        self._tell("stop", int(number), _microseconds(grace_seconds))

    async def exited(self) -> ExitStatus:
        """How the agent itself ended; its descendants may still run. Raises ProcessError if none was spawned."""
        return await asyncio.shield(_expect(self._exit))

    async def reap(self, grace_seconds: float) -> Reaped:
        """End every descendant (SIGTERM, after the grace period SIGKILL) and return when none is left.

        At most 10 s after the SIGKILL the rest is returned as survivors. An earlier ``stop`` keeps its deadline.
        """
        loop = asyncio.get_running_loop()
        if self._reaped is None:
            self._reaped = loop.create_future()
        if self._agent is None:
            return Reaped((), guardian_lost=self.lost)
        if self.lost:
            self._tick()
        else:
            self._tell("reap", _microseconds(grace_seconds))
        for seconds in (grace_seconds + ANSWER_SECONDS, ANSWER_SECONDS):
            try:
                async with asyncio.timeout(seconds):
                    return await asyncio.shield(self._reaped)
            except TimeoutError:
                self._lose()
        return Reaped(tuple(self._orphans), guardian_lost=True)

    async def close(self) -> None:
        """Let the guardian go and wait for its end."""
        self._closing = True
        if self._link is not None:
            self._link.close()
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await _expect(self._gone)
            except TimeoutError:
                self._process.kill()
                self._process.wait()
            loop.remove_signal_handler(SIGCHLD)
        else:
            self._control.close()
            await asyncio.to_thread(self._process.wait)
        if self._terminal is not None:
            self._terminal.close()
            self._terminal = None

    # ── messages ──

    async def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        self._exit, self._gone = loop.create_future(), loop.create_future()
        loop.add_signal_handler(SIGCHLD, self._child_changed)
        self._stage = loop.create_future()
        _, self._link = await loop.create_connection(lambda: _Link(self._hear, self._disconnected), sock=self._control)
        answer = await self._answer(b"")
        if answer[0] != b"ready":
            raise ProcessError(f"processes cannot be supervised here: {answer[1].decode('utf-8', 'replace')}")
        self.adopts = answer[1:] == [b"adopts"]

    async def _answer(self, message: bytes) -> list[bytes]:
        if self._stage is None:
            self._stage = asyncio.get_running_loop().create_future()
        if self._link is not None and message:
            self._link.write(message)
        try:
            async with asyncio.timeout(START_SECONDS):
                return await self._stage
        except TimeoutError:
            raise ProcessError("the guardian does not answer") from None
        finally:
            self._stage = None

    def _tell(self, *fields: str | int) -> None:
        if self._agent is None:
            self._early.append(fields)
        elif self._link is not None and not self.lost:
            self._link.write(frame(*fields))

    def _hear(self, message: list[bytes]) -> None:
        verb, *fields = message
        match verb:
            case b"ready" | b"unready" | b"spawned" | b"failed":
                if self._stage is not None and not self._stage.done():
                    self._stage.set_result(message)
            case b"forked":
                self._forked = int(fields[0])
            case b"exited":
                number = int(fields[1])
                if fields[0] == b"code":
                    self._ended(ExitStatus(code=number))
                else:
                    self._ended(ExitStatus(signal=number, core_dumped=fields[2] == b"1"))
            case b"orphan":
                self._orphans.append(Orphan(int(fields[0]), fields[1].decode(), fields[2].decode("utf-8", "replace")))
            case b"reaped":
                self._settle(Reaped(tuple(self._orphans), int(fields[0])))
            case b"terminal" if self._terminal is not None:
                if fields[0] == b"away":
                    self._terminal.adopt()
                else:
                    self._terminal.forget()
            case b"stopped":
                self.on_stopped(int(fields[0]))
            case b"hangup":
                self.on_hangup()

    def _ended(self, status: ExitStatus) -> None:
        if self._exit is not None and not self._exit.done():
            self._exit.set_result(status)

    def _settle(self, reaped: Reaped) -> None:
        if self._reaped is not None and not self._reaped.done():
            self._reaped.set_result(reaped)

    # ── the guardian's own end, and children that are handed to docket ──

    def _disconnected(self) -> None:
        if not self._closing:
            self._lose()

    def _lose(self) -> None:
        """The guardian is dead, or of no use: end the run without it."""
        if self.lost:
            return
        self.lost = True
        self._process.kill()
        self._process.wait()
        self._guardian_gone()
        self._stage_lost()
        if self._terminal is not None:
            self._terminal.take_back()
        if self._forked is None:
            return
        if not self._machine.subreaper:
            _kill_group(self._forked)
        group = ControlGroup.of(self._process.pid) if self._machine.proc_filesystem else None
        self._salvage = Reaper(os.getpid(), self._forked, group)
        self._salvage.begin(self._clock.monotonic_us(), 0)
        self._tick()

    def _stage_lost(self) -> None:
        """Answer for the guardian: an agent that was forked may have run, and counts as spawned."""
        if self._stage is None or self._stage.done():
            return
        if self._forked is None:
            self._stage.set_exception(ProcessError("the guardian died before it started the agent"))
        else:
            self._stage.set_result([b"spawned", str(self._forked).encode()])

    def _tick(self) -> None:
        reaper = self._salvage
        if reaper is None:
            self._settle(Reaped((), guardian_lost=True))
            return
        childless = self._collect()
        now = self._clock.monotonic_us()
        reaper.tick(now, childless=childless)
        if reaper.done:
            self._ended(ExitStatus(signal=int(SIGKILL)))
            self._settle(Reaped(tuple(self._orphans + reaper.orphans), reaper.unnamed, guardian_lost=True))
            return
        asyncio.get_running_loop().call_later((reaper.wait_us(now) or 0) / 1e6 + 0.001, self._tick)

    def _child_changed(self) -> None:
        if self._process.poll() is not None:
            self._guardian_gone()
        elif self._machine.subreaper and _was_stopped(self._process.pid):
            self._process.send_signal(SIGCONT)  # whoever stopped it: a stopped guardian guards nothing
        if os.getpid() == 1 or self.lost:
            self._collect()

    def _guardian_gone(self) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _collect(self) -> bool:
        """Reap every child that ended except the guardian. True when there is no child left."""
        if not self._machine.subreaper:
            return False  # orphans are not handed to docket, and waitid(2) is not in every Python there
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is None:
                    return False
                if found.si_pid == self._process.pid:
                    self._process.poll()
                    self._guardian_gone()
                    continue
                pid, status = os.waitpid(found.si_pid, 0)
            except ChildProcessError:
                return True
            if pid == self._forked:
                self._ended(_status(status))
            elif self._salvage is not None:
                self._salvage.ended(pid, status)


class _Link(asyncio.Protocol):
    """The socket, as messages."""

    def __init__(self, hear: Callable[[list[bytes]], None], disconnected: Callable[[], None]) -> None:
        self._hear = hear
        self._disconnected = disconnected
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            self._hear(message)

    def connection_lost(self, error: Exception | None) -> None:
        self._disconnected()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _expect(future: asyncio.Future[_T] | None) -> asyncio.Future[_T]:
    if future is None:
        raise ProcessError("nothing was spawned")
    return future


def _status(status: int) -> ExitStatus:
    if os.WIFEXITED(status):
        return ExitStatus(code=os.WEXITSTATUS(status))
    return ExitStatus(signal=os.WTERMSIG(status), core_dumped=os.WCOREDUMP(status))


def _was_stopped(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
    except ChildProcessError:
        return False


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1_000_000))
