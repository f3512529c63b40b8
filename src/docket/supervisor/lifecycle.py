"""The life of a run as one table: prepared, running, stopping, reaped, sealed.

Owns why a run stops, and what its end is called. Invariant: the first reason to stop decides the outcome, but a breach
decides over all (a ``cap.exceeded`` anywhere makes the run ``breached``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from docket.ledger.events import Outcome

EXIT_BREACHED = 42
EXIT_DOCKET_FAILED = 125


class Phase(StrEnum):
    """Where a run stands; it only moves down this list."""

    PREPARED = "prepared"
    RUNNING = "running"
    STOPPING = "stopping"
    REAPED = "reaped"
    SEALED = "sealed"


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
    stop_signal: int | None = None
    """The signal that made docket stop the run, where ``stop`` is ``signal``."""
    breached: bool = False


def outcome(ending: Ending) -> Outcome:
    """The ``outcome`` of ``session.end`` (evidence format section 5)."""
    if ending.breached:
        return "breached"
    if ending.stop in (Stop.EVIDENCE, Stop.INTERNAL):
        return "failed"
    if ending.stop is Stop.GUARDIAN_LOST or (ending.code is None and ending.signal is None):
        return "lost"
    if ending.stop is Stop.SIGNAL or ending.signal is not None:
        return "interrupted" if ending.stop is Stop.SIGNAL else "failed"
    return "completed" if ending.code == 0 else "failed"


def exit_status(ending: Ending) -> int:
    """The exit status of ``docket run``: 42 after a breach, 125 where docket failed, else the child's own.

    A signalled child gives 128 + n, as a shell does.
    """
    if ending.stop in (Stop.EVIDENCE, Stop.INTERNAL, Stop.GUARDIAN_LOST):
        return EXIT_DOCKET_FAILED
    if ending.breached:
        return EXIT_BREACHED
    if ending.signal is not None:
        return 128 + ending.signal
    return EXIT_DOCKET_FAILED if ending.code is None else ending.code
