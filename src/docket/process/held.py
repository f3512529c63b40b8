"""Signals held back while nobody stands who records them: from a run's first moment, and from its last.

A SIGTERM that comes while docket still prepares would end it before there is a record, or leave one that has no end.
Held back, it is pending, and the relay (docket.process.signals) gets it once it stands. One that comes when the relay
has gone and the status is known would put itself in the place of the agent's status: it is too late, and ends nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that ask for the end of a run."""
FORWARDED = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
"""Signals that are the agent's."""


@contextmanager
def held_back() -> Iterator[frozenset[int]]:
    """Hold the signals of a run back in this thread and those that it starts; gives the mask before.

    The mask is as before again afterwards, so that what was not let through then acts as if nobody had held it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, *FORWARDED))
    try:
        yield frozenset(int(number) for number in before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hold_back() -> None:
    """Hold them back again, for whoever holds them back around the run."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, *FORWARDED))


def too_late() -> None:
    """Let none of them act on this process any more, those that are pending included: its run has ended, and how."""
    for number in (*ENDING, *FORWARDED):
        signal.signal(number, signal.SIG_IGN)


def let_through() -> None:
    """Let the held signals come; those that are pending do at once. Also those that docket's caller had blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING, *FORWARDED))
