"""``[usage]`` and ``[cache]``: asking providers for usage, and answering a call from an earlier one of the run."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from docket.policy.keys import key
from docket.policy.kinds import Count, Flag, Optional, Seconds
from docket.primitives.instant import Duration

MAX_ENTRIES = 100_000
"""Answers kept at once: each has a digest and a file of its own."""
MAX_AGE = Decimal(366 * 24 * 3600)
"""A leap year: beyond any run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What docket asks of a provider so that it can count."""

    request_stream_usage: bool = key(
        Flag(),
        "Add stream_options.include_usage to streamed chat requests that say nothing about it, and keep the extra frame"
        " from clients that did not ask. The request is then recorded as amended. Without it such a stream's usage is"
        " unknown, and docket's estimate moves the caps.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Answers an identical request (method, endpoint, body) from a whole earlier answer of this run, for nothing."""

    enabled: bool = key(
        Flag(), "Off unless asked for: an agent that repeats a request may want another answer.", default=False
    )
    ttl_seconds: Duration = key(
        Seconds(Decimal("0.001"), MAX_AGE), "How long an answer may be given again.", default=Duration(3_600_000_000)
    )
    max_entries: int = key(
        Count(1, MAX_ENTRIES), "Answers kept; the one that was used longest ago goes first.", default=1000
    )
    max_hits: int | None = key(
        Optional(Count()),
        "Times that one answer is given again; then the call goes to the provider, and a note says so.",
        default=None,
        example="100",
    )
