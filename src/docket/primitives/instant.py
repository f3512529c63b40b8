"""Moments: ``Instant`` on the monotonic clock, and the RFC 3339 spelling of the wall clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

Instant = NewType("Instant", int)
"""Microseconds on a monotonic clock; only differences mean something."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def timestamp(unix_us: int) -> str:
    """RFC 3339 in UTC with microseconds, for example ``2026-11-30T12:00:00.000000Z``."""
    second, us = divmod(unix_us, 1_000_000)
    return f"{_second(second)}.{us:06d}Z"


@lru_cache(maxsize=1)
def _second(unix: int) -> str:
    """Many batches are written within one second."""
    return (_EPOCH + timedelta(seconds=unix)).isoformat()


def whole_seconds(wait_us: int) -> int:
    """``wait_us`` in whole seconds, rounded up and at least 1: what ``Retry-After`` says (RFC 9110 10.2.3)."""
    return max(1, -(-wait_us // 1_000_000))


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, exact to the microsecond."""

    us: int

    @property
    def seconds(self) -> float:
        """For interfaces that want a float; never for arithmetic that decides."""
        return self.us / 1_000_000

    def __str__(self) -> str:
        """Decimal seconds, in the spelling of the evidence format (section 1)."""
        whole, fraction = divmod(self.us, 1_000_000)
        digits = f"{fraction:06d}".rstrip("0")
        return f"{whole}.{digits}" if digits else str(whole)
