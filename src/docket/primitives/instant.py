"""Moments: ``Instant`` on the monotonic clock, and the RFC 3339 spelling of the wall clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NewType

Instant = NewType("Instant", int)
"""Microseconds on a monotonic clock; only differences mean something."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def timestamp(unix_us: int) -> str:
    """RFC 3339 in UTC with microseconds, for example ``2026-11-30T12:00:00.000000Z``."""
    return (_EPOCH + timedelta(microseconds=unix_us)).isoformat(timespec="microseconds") + "Z"


def whole_seconds(wait_us: int) -> int:
    """``wait_us`` in whole seconds, rounded up and at least 1: what ``Retry-After`` says (RFC 9110 10.2.3)."""
    return max(1, -(-wait_us // 1_000_000))
