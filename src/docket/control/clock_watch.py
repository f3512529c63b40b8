"""Notices steps of the wall clock by comparing it with the monotonic one. A pure state machine.

Nothing here changes a decision: deadlines, caps and durations are monotonic. A step only explains why time labels jump.
Linux's CLOCK_MONOTONIC stands still during suspend, so a suspend shows as a step forward.
"""

from __future__ import annotations

from docket.ledger.events import ClockStep

STEP_US = 1_000_000
"""A difference above this between two looks is a step; slewing by NTP moves at most 0.5 ms a second."""
LOOK_EVERY_SECONDS = 1.0
"""How often the supervisor looks."""


class ClockWatch:
    """Remembers by how much the wall clock leads; each look compares with the look before."""

    def __init__(self, unix_us: int, monotonic_us: int) -> None:
        self._lead_us = unix_us - monotonic_us

    def look(self, unix_us: int, monotonic_us: int) -> ClockStep | None:
        """The step since the last look (microseconds, negative for back), or None."""
        step_us = unix_us - monotonic_us - self._lead_us
        self._lead_us += step_us
        return ClockStep(step_us=step_us) if abs(step_us) > STEP_US else None
