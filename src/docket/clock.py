"""The only reader of time. Everything else is told ``now``.

Deadlines, caps and durations are monotonic (``monotonic_us``); the wall clock (``unix_us``) is a label for people and
never decides anything. Linux's CLOCK_MONOTONIC stands still while the machine is suspended.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time, in integer microseconds."""

    def monotonic_us(self) -> int:
        """Microseconds on a clock that never goes back; its zero means nothing."""
        ...

    def unix_us(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z on the wall clock, which may step."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000

    def unix_us(self) -> int:
        return time.time_ns() // 1000
