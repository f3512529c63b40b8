"""What acted on a run's calls beside the provider: breaker, limiter, waits, cache, clock, losses, each with its time.

A fold over the entries of a ledger, for people. Constant memory: of each kind the number and the first few are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from docket.ledger.chain import Entry
from docket.ledger.events import (
    BreakerClosed,
    BreakerHalfOpen,
    BreakerOpen,
    CapExceeded,
    CapWarning,
    ClockStep,
    FaultInjected,
    LedgerGap,
    LedgerRecovered,
    ModelCacheHit,
    ModelDenied,
    ModelRequest,
    PolicyViolation,
    ProcOrphan,
    RateLimited,
    RetryScheduled,
    RollbackApplied,
    RollbackRefused,
    Unauthorized,
)

MAX_TOLD = 5
"""Actions of one kind that are told one by one; further ones are counted."""
MAX_KINDS = 200
"""Kinds that are kept apart, such as the codes of refusals."""


class Actions:
    """The fold."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._told: dict[str, list[str]] = {}
        self._waits = 0
        self._longest_us = 0
        self._longest_at = ""

    def add(self, entry: Entry) -> None:
        """Take the next entry. Raises FormatError where a known event is not as this version writes it."""
        match entry.event:
            case ModelRequest(waited_us=waited_us):
                if waited_us:
                    self._waits += 1
                    if waited_us > self._longest_us:
                        self._longest_us, self._longest_at = waited_us, _time(entry)
            case BreakerOpen(upstream=upstream, reason=reason, failures=failures):
                self._tell(f"breaker of {upstream}", entry, f"opened after {failures} failures, {reason}")
            case BreakerHalfOpen(upstream=upstream):
                self._tell(f"breaker of {upstream}", entry, "let one call try")
            case BreakerClosed(upstream=upstream, reason=reason):
                self._tell(f"breaker of {upstream}", entry, f"closed, {reason}")
            case RateLimited(limit=limit, retry_after=retry_after, count=count):
                calls = f"{count} calls" if count > 1 else "a call"
                self._tell("limiter", entry, f"{calls} refused under {limit}, for {retry_after} s", count)
            case ModelDenied(code=code, count=count):
                self._tell(f"refused, {code}", entry, f"{count} calls" if count > 1 else "a call", count)
            case RetryScheduled(attempt=attempt, reason=reason, status=status, wait_us=wait_us):
                why = f"{reason} {status}" if status else reason
                self._tell("tried again", entry, f"attempt {attempt} after {wait_us / 1_000_000:g} s: {why}")
            case CapWarning(cap=cap, limit=limit, observed=observed):
                self._tell("warning", entry, f"{cap}: {observed} of {limit} used")
            case CapExceeded(cap=cap, limit=limit, observed=observed):
                self._tell("breach", entry, f"{cap}: {observed} of {limit}")
            case ModelCacheHit(origin=origin):
                self._tell("cache", entry, f"answered as call {origin} was")
            case ClockStep(step_us=step_us):
                self._tell("clock", entry, f"the wall clock moved by {step_us / 1_000_000:.3f} s")
            case PolicyViolation(rule=rule, reason=reason):
                self._tell("violation", entry, f"{rule}: {reason}" if reason else rule)
            case LedgerGap(lost=lost):
                self._tell("lost", entry, f"{lost['count']} events could not be written before this one")
            case LedgerRecovered(bytes=size):
                self._tell("recovered", entry, f"{size} torn bytes were put aside")
            case Unauthorized(count=count):
                self._tell("without the run's token", entry, f"{count} requests", count)
            case FaultInjected(fault=fault):
                self._tell("drill", entry, f"{fault} was injected")
            case ProcOrphan(pid=pid, ended=ended):
                self._tell("orphan", entry, f"process {pid} outlived the agent: {ended}")
            case RollbackApplied(done=done, failed=failed, refused=refused):
                self._tell("rollback", entry, f"{done} paths put back, {failed} failed, {refused} refused")
            case RollbackRefused(reason=reason):
                self._tell("rollback", entry, f"not done: {reason}")
            case _:
                pass

    def lines(self) -> Iterator[str]:
        """Yield what acted, a kind at a time: the number, and the first few with their times."""
        if self._waits:
            longest = f"{self._longest_us / 1_000_000:.2f} s at {self._longest_at}"
            yield f"  waited for money: {self._waits:,} calls, the longest {longest}"
        for kind, told in sorted(self._told.items()):
            yield f"  {kind}: {self._counts[kind]:,}"
            yield from (f"    {line}" for line in told)
            further = self._counts[kind] - len(told)
            if further > 0 and len(told) == MAX_TOLD:
                yield f"    and {further:,} more"

    def _tell(self, kind: str, entry: Entry, what: str, count: int = 1) -> None:
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind = "other"
        self._counts[kind] = self._counts.get(kind, 0) + count
        told = self._told.setdefault(kind, [])
        if len(told) < MAX_TOLD:
            told.append(f"{_time(entry)}  {what}")


def _time(entry: Entry) -> str:
    return entry.ts[:23] + "Z"
