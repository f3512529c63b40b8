"""The circuit breaker: one per upstream and credential, closed, open or half-open. A pure state machine.

It owns the decision whether an upstream may be asked at all. Invariant: while half-open at most one call, the probe,
is under way, and its slot is always freed: by its end, by its release, or by the end of its lease. Only *blind*
failures (the provider said nothing usable) count; an *informed* answer, however unwelcome, resets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from docket.control.decision import Refused
from docket.ledger.events import BreakerClosed, BreakerHalfOpen, BreakerOpen, EndReason, Event
from docket.policy.resilience import BLIND_KINDS, Resilience
from docket.primitives.frozen import value
from docket.primitives.instant import Instant, whole_seconds

MAX_BREAKERS = 256
"""Breakers kept at once: an agent that sends a new credential with each call must not grow memory."""

DEFAULT_COUNTS = frozenset(BLIND_KINDS)
"""The blind failures; overload is an informed answer unless ``breaker_counts`` names it."""

OVERLOAD_TYPES = frozenset(
    {
        "overloaded_error",  # Anthropic, HTTP 529 and error events
        "rate_limit_error",  # Anthropic, HTTP 429
        "rate_limit_exceeded",  # OpenAI
        "server_is_overloaded",  # OpenAI Responses
        "slow_down",  # OpenAI
        "engine_overloaded",  # OpenAI-compatible servers
        "RESOURCE_EXHAUSTED",  # Gemini
    }
)
"""Error types with which a provider says that it is busy: it is there, and asks for patience."""
_BLIND_REASONS: frozenset[EndReason] = frozenset({"connect", "timeout", "truncated"})
_NEUTRAL_REASONS: frozenset[EndReason] = frozenset({"client-gone", "stale", "lost", "unterminated"})


class Verdict(StrEnum):
    """What the end of one call says about its upstream."""

    INFORMED = "informed"
    """The upstream answered and knew what it said."""
    BLIND = "blind"
    """The upstream failed without an answer that means something."""
    NEUTRAL = "neutral"
    """The end says nothing about the upstream."""


@value
class Ended:
    """How a call ended: the ``reason`` of its end event, and what the provider said."""

    reason: EndReason
    status: int | None = None
    error_type: str | None = None
    retry_after: bool = False
    """Whether the answer carried a ``retry-after`` header."""


def judge(ended: Ended, counts: frozenset[str] = DEFAULT_COUNTS) -> Verdict:
    """What ``ended`` says about its upstream; a blind kind that ``counts`` leaves out is neutral."""
    if ended.reason in _NEUTRAL_REASONS:
        return Verdict.NEUTRAL
    if ended.reason in _BLIND_REASONS:
        return _counted(ended.reason, counts)
    overloaded = ended.error_type in OVERLOAD_TYPES
    if ended.reason == "error-event":
        return _overload(counts) if overloaded else _counted("error-event", counts)
    if ended.status is not None and ended.status >= 500:
        if overloaded or ended.status == 529 or (ended.status == 503 and ended.retry_after):
            return _overload(counts)
        return _counted("status", counts)
    if ended.status == 429:
        return _overload(counts)
    return Verdict.NEUTRAL if ended.status is None else Verdict.INFORMED


def _counted(kind: str, counts: frozenset[str]) -> Verdict:
    return Verdict.BLIND if kind in counts else Verdict.NEUTRAL


def _overload(counts: frozenset[str]) -> Verdict:
    return Verdict.BLIND if "overload" in counts else Verdict.INFORMED


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """Settings of every breaker of a run; durations in microseconds. ``threshold`` 0 is off."""

    threshold: int = 5
    cooldown_us: int = 30_000_000
    max_cooldown_us: int = 300_000_000
    counts: frozenset[str] = DEFAULT_COUNTS
    probe_lease_us: int = 310_000_000
    """Longest time that a probe keeps its slot: the connect and the silence timeout of its call together."""

    @classmethod
    def of(cls, keys: Resilience) -> BreakerPolicy:
        """The settings that ``[resilience]`` states."""
        return cls(
            threshold=keys.breaker_threshold,
            cooldown_us=keys.breaker_cooldown_seconds.us,
            max_cooldown_us=keys.breaker_max_cooldown_seconds.us,
            counts=frozenset(keys.breaker_counts),
            probe_lease_us=keys.connect_timeout.us + keys.upstream_timeout.us,
        )


Ticket: TypeAlias = int
"""Names one permit through a breaker; never used twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Calls pass; ``failures`` blind ones came in a row."""

    failures: int = 0


CLOSED = Closed()
"""The state of an upstream that does well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Calls are refused until ``until``; ``cooldown_us`` is what it took this time."""

    until: Instant
    cooldown_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    """One probe at a time passes; ``probe`` is None while the slot is free."""

    cooldown_us: int
    probe: Ticket | None
    lease_until: Instant


State: TypeAlias = Closed | Open | HalfOpen
Whose: TypeAlias = Literal["any", "probe", "late"]
"""A call's part in its breaker: any while none is probing, else the probe or one that was let through before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: what a verdict does in a state. ``whose`` is a call's part in it."""

    label: str
    state: type[Closed] | type[Open] | type[HalfOpen]
    whose: Whose
    verdict: Verdict
    does: Literal["stay", "reset", "count", "reopen", "close", "free"]


TABLE: tuple[Row, ...] = (
    Row(label="closed-answer-resets", state=Closed, whose="any", verdict=Verdict.INFORMED, does="reset"),
    Row(label="closed-blind-counts", state=Closed, whose="any", verdict=Verdict.BLIND, does="count"),
    Row(label="closed-neutral-stays", state=Closed, whose="any", verdict=Verdict.NEUTRAL, does="stay"),
    Row(label="open-late-answer-stays", state=Open, whose="any", verdict=Verdict.INFORMED, does="stay"),
    Row(label="open-late-blind-stays", state=Open, whose="any", verdict=Verdict.BLIND, does="stay"),
    Row(label="open-late-neutral-stays", state=Open, whose="any", verdict=Verdict.NEUTRAL, does="stay"),
    Row(label="probe-answer-closes", state=HalfOpen, whose="probe", verdict=Verdict.INFORMED, does="close"),
    Row(label="probe-blind-reopens", state=HalfOpen, whose="probe", verdict=Verdict.BLIND, does="reopen"),
    Row(label="probe-neutral-frees", state=HalfOpen, whose="probe", verdict=Verdict.NEUTRAL, does="free"),
    Row(label="half-open-late-answer-stays", state=HalfOpen, whose="late", verdict=Verdict.INFORMED, does="stay"),
    Row(label="half-open-late-blind-stays", state=HalfOpen, whose="late", verdict=Verdict.BLIND, does="stay"),
    Row(label="half-open-late-neutral-stays", state=HalfOpen, whose="late", verdict=Verdict.NEUTRAL, does="stay"),
)
"""State x verdict. *Late* calls were let through before the breaker opened: they know nothing newer than it does."""


_ROWS = {(row.state, row.whose, row.verdict): row for row in TABLE}


def row(state: State, verdict: Verdict, *, probe: bool) -> Row:
    """The one row that applies; ``probe`` says whether the call holds the slot."""
    whose: Whose = ("probe" if probe else "late") if isinstance(state, HalfOpen) else "any"
    return _ROWS[type(state), whose, verdict]


@dataclass(slots=True)
class Breaker:
    """One breaker. ``ask`` decides and changes nothing; ``take`` lets a call through; ``settle`` learns from its end.

    Two calls that ``ask`` in the same turn must not both ``take``: the caller does ask and take without yielding.
    """

    upstream: str
    policy: BreakerPolicy
    state: State = CLOSED

    def ask(self, now: Instant) -> Refused | None:
        """The temporary refusal of a call at ``now``, or None if it may pass.

        How long a probe takes is not known: the hint is as long as it has taken already, so that a client's few
        attempts are not used up within the first seconds of a silent one.
        """
        match self.state:
            case Open(until=until) if now < until:
                return self._refusal(until - now, estimated=False)
            case HalfOpen(probe=probe, lease_until=lease) if probe is not None and now < lease:
                began = lease - self.policy.probe_lease_us
                return self._refusal(min(now - began, lease - now), estimated=True)
            case _:
                return None

    def take(self, ticket: Ticket, now: Instant) -> tuple[Event, ...]:
        """Let the call ``ticket`` through; it becomes the probe where one is due. Only after ``ask`` gave None."""
        if isinstance(self.state, Closed):
            return ()
        first = isinstance(self.state, Open)
        lease = Instant(now + self.policy.probe_lease_us)
        self.state = HalfOpen(cooldown_us=self.state.cooldown_us, probe=ticket, lease_until=lease)
        return (BreakerHalfOpen(upstream=self.upstream),) if first else ()

    def settle(self, ticket: Ticket, verdict: Verdict, reason: str, now: Instant) -> tuple[Event, ...]:
        """Learn how ``ticket`` ended: ``verdict`` decides, ``reason`` goes into the event. Gives the transition."""
        state = self.state
        probe = isinstance(state, HalfOpen) and state.probe == ticket
        match row(state, verdict, probe=probe).does:
            case "stay":
                return ()
            case "reset":
                self.state = CLOSED
                return ()
            case "count":
                return self._count(reason, now)
            case "free":
                assert isinstance(state, HalfOpen)
                self.state = replace(state, probe=None)
                return ()
            case "close":
                self.state = CLOSED
                return (BreakerClosed(upstream=self.upstream, reason=reason),)
            case "reopen":
                assert isinstance(state, HalfOpen)
                return self._open(min(2 * state.cooldown_us, self.policy.max_cooldown_us), 1, reason, now)

    def _count(self, reason: str, now: Instant) -> tuple[Event, ...]:
        assert isinstance(self.state, Closed)
        failures = self.state.failures + 1
        if self.policy.threshold and failures >= self.policy.threshold:
            return self._open(min(self.policy.cooldown_us, self.policy.max_cooldown_us), failures, reason, now)
        self.state = Closed(failures=failures)
        return ()

    def _open(self, cooldown_us: int, failures: int, reason: str, now: Instant) -> tuple[Event, ...]:
        self.state = Open(until=Instant(now + cooldown_us), cooldown_us=cooldown_us)
        return (BreakerOpen(upstream=self.upstream, reason=reason, failures=failures, cooldown_us=cooldown_us),)

    def _refusal(self, wait_us: int, *, estimated: bool) -> Refused:
        seconds = whole_seconds(wait_us)
        about = "about " if estimated else ""
        return Refused(
            code="breaker_open",
            message=f"upstream {self.upstream} failed repeatedly and is given a rest; try again in {about}{seconds} s",
            retry_after=seconds,
            estimated=estimated,
        )


@value
class Permit:
    """A call's way through its breaker, to be settled once."""

    breaker: Breaker
    ticket: Ticket


class Breakers:
    """All breakers of a run, by upstream and credential fingerprint (a keyed hash, in memory only)."""

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._breakers: dict[tuple[str, str | None], Breaker] = {}
        self._tickets = 0

    def ask(self, upstream: str, credential: str | None, now: Instant) -> Refused | None:
        """The temporary refusal of a call, or None. Charges nothing."""
        if not self._policy.threshold:
            return None
        breaker = self._breakers.get((upstream, credential)) or self._breakers.get((upstream, None))
        return None if breaker is None or breaker.state is CLOSED else breaker.ask(now)

    def take(self, upstream: str, credential: str | None, now: Instant) -> tuple[Permit, tuple[Event, ...]]:
        """Let one call through; gives its permit and the transition that this was, if any."""
        self._tickets += 1
        breaker = self._breakers.get((upstream, credential)) or self._of(upstream, credential)
        events = () if breaker.state is CLOSED else breaker.take(self._tickets, now)
        return Permit(breaker, self._tickets), events

    def settle(self, permit: Permit, ended: Ended, now: Instant) -> tuple[Event, ...]:
        """Learn from the end of a call; gives the transition that this was, if any."""
        verdict = judge(ended, self._policy.counts)
        if verdict is not Verdict.BLIND and permit.breaker.state is CLOSED:
            return ()  # as the table says: nothing to reset, nothing to count
        reason = ended.error_type or (f"status-{ended.status}" if ended.reason == "status" else ended.reason)
        return permit.breaker.settle(permit.ticket, verdict, reason, now)

    def release(self, permit: Permit, now: Instant) -> None:
        """The call never reached its upstream (cancelled before it was sent): its slot is free again."""
        permit.breaker.settle(permit.ticket, Verdict.NEUTRAL, "released", now)

    def states(self) -> dict[str, Literal["closed", "half-open", "open"]]:
        """The worst state of each upstream that was asked, whatever the credential."""
        worst: dict[str, Literal["closed", "half-open", "open"]] = {}
        rank = {"closed": 0, "half-open": 1, "open": 2}
        for breaker in self._breakers.values():
            name: Literal["closed", "half-open", "open"] = "closed"
            if isinstance(breaker.state, Open):
                name = "open"
            elif isinstance(breaker.state, HalfOpen):
                name = "half-open"
            if rank[name] >= rank[worst.get(breaker.upstream, "closed")]:
                worst[breaker.upstream] = name
        return worst

    def _of(self, upstream: str, credential: str | None) -> Breaker:
        key = (upstream, credential)
        if len(self._breakers) >= MAX_BREAKERS and not self._forget_idle():
            key = (upstream, None)
        return self._breakers.setdefault(key, Breaker(upstream, self._policy))

    def _forget_idle(self) -> bool:
        """Drop one breaker that holds no knowledge; whether there was one."""
        for key, breaker in self._breakers.items():
            if breaker.state is CLOSED:
                del self._breakers[key]
                return True
        return False
