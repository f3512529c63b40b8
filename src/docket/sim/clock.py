"""Stand-ins for the machine's clocks: one that only tests move, and one that lies about the wall on schedule.

The monotonic side never goes back in either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docket.clock import Clock


class ManualClock:
    """Stands still until told to move. Microseconds."""

    def __init__(self, monotonic_us: int = 0, unix_us: int = 1_796_040_000_000_000) -> None:
        self._monotonic_us = monotonic_us
        self._unix_us = unix_us

    def monotonic_us(self) -> int:
        return self._monotonic_us

    def unix_us(self) -> int:
        return self._unix_us

    def advance(self, us: int) -> None:
        """Let ``us`` microseconds pass on both clocks. Raises ValueError if that would go back."""
        if us < 0:
            raise ValueError("time passes forward")
        self._monotonic_us += us
        self._unix_us += us

    def step(self, us: int) -> None:
        """Set the wall clock forward or back by ``us`` microseconds."""
        self._unix_us += us


@dataclass(frozen=True, slots=True, kw_only=True)
class Lie:
    """From ``after_us`` of the run on, the wall clock is off by ``step_us`` more, or stands still."""

    after_us: int
    step_us: int = 0
    freeze: bool = False


class LyingClock:
    """The truth of another clock, with lies about the wall. Steps add up; the last freeze that is due holds it."""

    def __init__(self, truth: Clock, lies: Sequence[Lie]) -> None:
        self._truth = truth
        self._began_us = truth.monotonic_us()
        self._lies = sorted(lies, key=lambda lie: lie.after_us)
        self._unix_began_us = truth.unix_us()

    def monotonic_us(self) -> int:
        return self._truth.monotonic_us()

    def unix_us(self) -> int:
        elapsed_us = self._truth.monotonic_us() - self._began_us
        due = [lie for lie in self._lies if lie.after_us <= elapsed_us]
        off_us = sum(lie.step_us for lie in due)
        frozen = [lie for lie in due if lie.freeze]
        if frozen:
            return self._unix_began_us + frozen[-1].after_us + off_us
        return self._truth.unix_us() + off_us
