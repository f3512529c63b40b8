"""What the signals that reach docket mean: ending the run, or something for the agent, or job control.

Used by the supervisor around everything from the run directory to the sealed receipt::

    with SignalRelay(guardian, grace_seconds=10) as relay:
        ...                     # relay.ending is the Signals that asked for the end of the run, else None

SIGTERM, SIGINT, SIGHUP and a vanished terminal end the run: the first is forwarded to the agent's group and starts the
grace period, after which the tree is killed; a second SIGTERM or SIGINT kills at once. Before there is an agent, the
first waits for it and a second ends docket. SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH are only forwarded. A signal that
was ignored when docket started (nohup, a background job of a script) stays ignored, by docket and by the agent, as
POSIX shells do.

Job control: when the agent stops, docket stops its own group the way the terminal would have done it; SIGCONT resumes
both. Ctrl-C in a terminal reaches only the agent, which is the foreground group: docket has no part in it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from docket.process.held import ENDING, FORWARDED, hold_back, let_through
from docket.process.supervision import Guardian
from docket.process.tree import parent


class SignalRelay:
    """Handlers for docket's own signals while a run lasts. ``on_ending`` gets the first ending signal, once."""

    def __init__(
        self,
        guardian: Guardian,
        *,
        grace_seconds: float,
        on_ending: Callable[[signal.Signals], None] = lambda number: None,
    ) -> None:
        self._guardian = guardian
        self._grace = grace_seconds
        self._on_ending = on_ending
        self._installed: list[signal.Signals] = []
        self._ignored: frozenset[signal.Signals] = frozenset()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = False
        self._sigttou: Any = signal.SIG_DFL
        self.ending: signal.Signals | None = None
        """The signal that asked for the end of the run; SIGHUP where the terminal vanished."""

    def __enter__(self) -> SignalRelay:
        self._loop = asyncio.get_running_loop()
        self._ignored = frozenset(
            number
            for number in (*ENDING, *FORWARDED, signal.SIGTSTP, signal.SIGCONT)
            if signal.getsignal(number) == signal.SIG_IGN
        )
        for number in ENDING:
            self._install(number, self._end, number)
        for number in FORWARDED:
            self._install(number, self._guardian.signal, number)
        self._install(signal.SIGCONT, self._guardian.signal, signal.SIGCONT)
        self._install(signal.SIGTSTP, self._stop_both)
        # docket's own messages must not stop it in the background, where the terminal says `tostop`.
        self._sigttou = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        self._guardian.on_stopped = self._suspend
        self._guardian.on_hangup = self._hung_up
        let_through()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold_back()
        if self._loop is not None:
            for number in self._installed:
                self._loop.remove_signal_handler(number)
        signal.signal(signal.SIGTTOU, self._sigttou)

    def _install(self, number: signal.Signals, action: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None and number not in self._ignored:
            self._loop.add_signal_handler(number, action, *arguments)
            self._installed.append(number)

    def _end(self, number: signal.Signals) -> None:
        again = self.ending is not None and number != signal.SIGHUP
        if again and not self._guardian.forked:
            _die(number)
        self._guardian.stop(0 if again else self._grace, number)
        if self.ending is None:
            self.ending = number
            self._on_ending(number)

    def _hung_up(self) -> None:
        if signal.SIGHUP not in self._ignored and self.ending is None:
            self._end(signal.SIGHUP)

    def _stop_both(self) -> None:
        self._asked = True
        self._guardian.signal(signal.SIGTSTP)  # once the agent has stopped, the guardian says so

    def _suspend(self, number: int) -> None:
        """Stop docket, and its group as the terminal would if it was the agent that stopped; returns when it goes on.

        Nobody could continue an orphaned group, so there the agent goes on at once (POSIX.1-2017, 2.4.3).
        """
        if _orphaned():
            self._asked = False
            self._guardian.signal(signal.SIGCONT)
            return
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if self._asked:  # whoever sent SIGTSTP has sent it to everyone who was meant
            self._asked = False
            signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        else:
            # The others of a pipeline and docket in one call: the SIGCONT of a shell that has seen only the others stop
            # undoes a stop that docket has still to take (POSIX.1-2017, 2.4.1), and could not undo one still to come.
            os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)


def _die(number: int) -> None:
    """End docket at once: asked twice before there is an agent. The guardian goes with it."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _orphaned() -> bool:
    """Whether docket's group is orphaned: no ancestor in the same session, but another group, could continue it."""
    group, session, pid = os.getpgrp(), os.getsid(0), os.getppid()
    while pid:
        try:
            if os.getsid(pid) != session:
                return True
            if os.getpgid(pid) != group:
                return False
        except ProcessLookupError:
            return True
        pid = parent(pid)
    return True
