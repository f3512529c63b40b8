"""The life of a run as two tables: the phases it goes through, and what each way to end is called and exits with.

Owns the phase of the run, why it stops, and what its end comes to. Invariants: a phase only changes along the table and
everybody else is told; how a run ended is what docket decided, whatever of it could be recorded; a breach decides over
every other reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from docket.ledger.events import Outcome

EXIT_BREACHED = 42
EXIT_DOCKET_FAILED = 125


class Phase(StrEnum):
    """Where a run stands."""

    PREPARED = "prepared"
    RUNNING = "running"
    STOPPING = "stopping"
    REAPED = "reaped"
    SEALED = "sealed"


NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.PREPARED: frozenset({Phase.RUNNING, Phase.SEALED}),  # sealed at once where the command could not be run
    Phase.RUNNING: frozenset({Phase.STOPPING}),
    Phase.STOPPING: frozenset({Phase.REAPED}),
    Phase.REAPED: frozenset({Phase.SEALED}),
    Phase.SEALED: frozenset(),
}


class Lifecycle:
    """The phase of one run."""

    def __init__(self, told: Callable[[Phase], None] = lambda phase: None) -> None:
        """``told`` hears of every phase that is entered."""
        self.phase = Phase.PREPARED
        self._told = told

    def enter(self, phase: Phase) -> None:
        """Go on to ``phase``. Raises AssertionError where the table has no such step."""
        assert phase in NEXT[self.phase], f"a run that is {self.phase} cannot become {phase}"
        self.phase = phase
        self._told(phase)


class Stop(StrEnum):
    """Why docket ended a run that had not ended by itself."""

    CAP = "cap"
    SIGNAL = "signal"
    EVIDENCE = "evidence"
    GUARDIAN_LOST = "guardian-lost"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the agent ended, and what docket did about it. Exactly one of ``code`` and ``signal``, unless lost."""

    code: int | None = None
    signal: int | None = None
    stop: Stop | None = None
    breached: bool = False
    intact: bool = True
    """Whether the record is what docket wrote, where docket wrote it."""


@dataclass(frozen=True, slots=True)
class End:
    """One row: how a run ended, what ``session.end`` calls it, and what ``docket run`` exits with."""

    name: str
    holds: Callable[[Ending], bool]
    outcome: Outcome
    status: Callable[[Ending], int]


def _of_agent(ending: Ending) -> int:
    """Return the agent's own status; a signal gives 128 + n, as a shell does."""
    return 128 + ending.signal if ending.signal is not None else ending.code or 0


def _of_docket(_: Ending) -> int:
    return EXIT_DOCKET_FAILED


ENDS: tuple[End, ...] = (
    End("a cap was reached", lambda e: e.breached, "breached", lambda _: EXIT_BREACHED),
    End("the record broke", lambda e: e.stop is Stop.EVIDENCE, "failed", _of_docket),
    End("a fault of docket itself", lambda e: e.stop is Stop.INTERNAL, "failed", _of_docket),
    End("the guardian died", lambda e: e.stop is Stop.GUARDIAN_LOST, "lost", _of_docket),
    End("nobody saw the agent end", lambda e: e.code is None and e.signal is None, "lost", _of_docket),
    End("docket was asked to end it", lambda e: e.stop is Stop.SIGNAL, "interrupted", _of_agent),
    End("the agent died of a signal", lambda e: e.signal is not None, "failed", _of_agent),
    End("the agent exited with 0", lambda e: e.code == 0, "completed", _of_agent),
    End("the agent exited with another status", lambda e: True, "failed", _of_agent),
)
"""How a run can end (evidence format section 5): the first row that holds decides."""


def end_of(ending: Ending) -> End:
    """Return the row of ``ENDS`` that describes ``ending``."""
    return next(end for end in ENDS if end.holds(ending))


def outcome(ending: Ending) -> Outcome:
    """Return the ``outcome`` of ``session.end``."""
    return end_of(ending).outcome


def exit_status(ending: Ending) -> int:
    """Return the exit status of ``docket run``: 42 after a breach, 125 where docket failed, else the agent's own.

    A record that another hand changed is 125 whatever else happened: no other status may be believed then.
    """
    return end_of(ending).status(ending) if ending.intact else EXIT_DOCKET_FAILED
