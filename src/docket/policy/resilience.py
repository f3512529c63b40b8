"""``[resilience]`` and ``[health]``: how a run behaves while the world misbehaves. docs/resilience.md tells each key's
event, metric and receipt member.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

from docket.policy.keys import key
from docket.policy.kinds import Address, Choice, Choices, Count, Flag, Number, Optional, Seconds, Size, Text
from docket.primitives.instant import Duration

WriteFailure: TypeAlias = Literal["continue", "refuse", "stop"]
"""``on_write_failure``: go on and disclose; forward no model call meanwhile; stop the run."""
BLIND_KINDS = ("connect", "timeout", "truncated", "status", "error-event")
"""Failures in which the provider said nothing usable."""
FAILURE_KINDS = (*BLIND_KINDS, "overload")
"""What a breaker can be told to count."""
MAX_PER_SECOND = 100_000
"""Above this a call has less than ten microseconds: no limit any more."""
MAX_PER_MINUTE = 600_000
"""One instant is kept for each call of the last minute: at most 20 MiB."""
DAY = Decimal(86_400)
"""No timeout or cooldown of a run is longer."""
LEAST = Decimal("0.001")
MIB = 2**20
MIN_LEDGER_BYTES = 64 * 1024
"""Room for a start, a few calls, and the reserve in which a run's end always fits."""
MAX_STORED_BYTES = 2**40
"""A tebibyte: beyond any run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """What happens while a provider, the agent or the disk misbehaves."""

    breaker_threshold: int = key(
        Count(0, 10_000),
        "Blind failures in a row (no connection, silence, cut or broken answer, 5xx that is no overload) after which"
        " an upstream is given a rest and its calls are refused at once. 0 is off.",
        default=5,
    )
    breaker_cooldown_seconds: Duration = key(
        Seconds(Decimal("0.1"), DAY),
        "Length of the first rest. Then exactly one call is let through as a probe; if it fails, the rest doubles.",
        default=Duration(30_000_000),
    )
    breaker_max_cooldown_seconds: Duration = key(
        Seconds(Decimal("0.1"), DAY), "The rest never gets longer than this.", default=Duration(300_000_000)
    )
    breaker_counts: tuple[str, ...] = key(
        Choices(FAILURE_KINDS),
        "Which failures count. overload (429, 529, 503 with retry-after) is an answer, and counts only if named.",
        default=BLIND_KINDS,
    )
    upstream_timeout: Duration = key(
        Seconds(LEAST, DAY),
        "Seconds of silence from an upstream, before the head or between bytes, after which the call fails."
        " Never a limit on a stream that is alive.",
        default=Duration(300_000_000),
    )
    connect_timeout: Duration = key(
        Seconds(LEAST, DAY), "Seconds to reach an upstream, TLS included.", default=Duration(10_000_000)
    )
    max_calls_per_second: Decimal | None = key(
        Optional(Number(Decimal("0.001"), Decimal(MAX_PER_SECOND))),
        "Calls per second, with a burst of one second's worth (at least one call).",
        default=None,
        example="2",
    )
    max_calls_per_minute: int | None = key(
        Optional(Count(1, MAX_PER_MINUTE)), "Calls in any sixty seconds.", default=None, example="60"
    )
    on_write_failure: WriteFailure = key(
        Choice[WriteFailure](get_args(WriteFailure)),
        "When an event cannot be written. continue: the run goes on, caps still bind, the receipt tells what is"
        " missing. refuse: no model call is forwarded while the record is broken. stop: the run is stopped, exit 125.",
        default="continue",
    )
    fail_fast_evidence: bool = key(Flag(), 'Short for on_write_failure = "stop".', default=False)
    max_ledger_bytes: int = key(
        Size(MIN_LEDGER_BYTES, MAX_STORED_BYTES),
        "Size of the ledger at which the run is stopped (exit 42). Room for its end is reserved within it.",
        default=256 * MIB,
    )
    max_blob_bytes: int = key(
        Size(0, MAX_STORED_BYTES),
        "Bytes of recorded bodies in all; further ones are not kept, and their events say so.",
        default=1024 * MIB,
    )
    max_events: int | None = key(
        Optional(Count(16)),
        "Events at which the run is stopped (exit 42); those of the session and its processes are exempt.",
        default=None,
        example="1_000_000",
    )
    min_free_bytes: int = key(
        Size(0, MAX_STORED_BYTES),
        "Free space of the ledger's volume below which the run reports itself not ready.",
        default=16 * MIB,
    )

    @property
    def write_failure(self) -> WriteFailure:
        """``continue``, ``refuse`` or ``stop``, the short form considered."""
        return "stop" if self.fail_fast_evidence else self.on_write_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Who can look at a run from outside. On loopback /docket/{livez,startupz,readyz,healthz,metrics} always answer."""

    listen: str | None = key(
        Optional(Address()),
        "A second address that serves those five routes and nothing else, for a kubelet or a Prometheus elsewhere.",
        default=None,
        example='"0.0.0.0:9464"',
        private=True,
    )
    metrics_file: str | None = key(
        Optional(Text()),
        "Where the last metrics are written at the end of the run, in the text format (for a textfile collector).",
        default=None,
        example='"/var/lib/node_exporter/docket.prom"',
        private=True,
    )
