"""The limiter: never more than it promises in any window, and who obeys its hint is admitted."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from docket.control.limiter import Limiter
from docket.ledger.events import RateLimited
from docket.policy.parse import parse
from docket.policy.resilience import MAX_PER_MINUTE, MAX_PER_SECOND, Resilience
from docket.primitives.instant import Instant, whole_seconds

S = 1_000_000
T0 = Instant(77 * S)


def test_a_fraction_of_a_call_per_second_says_two_seconds_and_then_admits() -> None:
    """One token every 1.5 s, burst 1; two calls 0.1 s apart; the obeying client is admitted."""
    limiter = Limiter(per_second=Fraction(2, 3))
    assert limiter.ask(T0) is None
    limiter.take(T0)
    now = Instant(T0 + S // 10)
    refused = limiter.ask(now)
    assert refused is not None
    assert refused.retry_after == 2
    assert refused.limited == RateLimited(
        limit="max_calls_per_second",
        retry_after=2,
        state={"burst": 1, "interval_us": 1_500_000, "full_in_us": 1_400_000, "wait_us": 1_400_000},
    )
    assert limiter.ask(Instant(now + 2 * S)) is None


def test_burst_is_one_second_of_steady_traffic() -> None:
    limiter = Limiter(per_second=Fraction(5))
    for _ in range(5):
        assert limiter.ask(T0) is None
        limiter.take(T0)
    assert limiter.ask(T0) is not None
    assert limiter.ask(Instant(T0 + S // 5)) is None


def test_the_minute_slides() -> None:
    limiter = Limiter(per_minute=2)
    for seconds in (0, 50):
        limiter.take(Instant(T0 + seconds * S))
    refused = limiter.ask(Instant(T0 + 55 * S))
    assert refused is not None
    assert (refused.code, refused.retry_after) == ("max_calls_per_minute", 5)
    assert limiter.ask(Instant(T0 + 60 * S)) is None


def test_the_longer_wait_of_both_limits_is_told() -> None:
    limiter = Limiter(per_second=Fraction(1), per_minute=1)
    limiter.take(T0)
    refused = limiter.ask(T0)
    assert refused is not None
    assert (refused.code, refused.retry_after) == ("max_calls_per_minute", 60)


def test_without_limits_nothing_is_refused_and_absurd_ones_are_errors() -> None:
    assert Limiter().ask(T0) is None
    for bad in (0, -1, MAX_PER_MINUTE + 1):
        with pytest.raises(ValueError, match="not between"):
            Limiter(per_minute=bad)
    for rate in (Fraction(0), Fraction(-1), Fraction(MAX_PER_SECOND + 1)):
        with pytest.raises(ValueError, match="not between"):
            Limiter(per_second=rate)


@given(st.integers(-5, 10**13))
def test_a_hint_is_whole_never_zero_and_never_short(wait_us: int) -> None:
    seconds = whole_seconds(wait_us)
    assert seconds >= 1
    assert seconds * S >= wait_us
    assert seconds == 1 or (seconds - 1) * S < wait_us


def test_the_policy_file_states_the_limits_exactly() -> None:
    limiter = Limiter.of(parse("[resilience]\nmax_calls_per_second = 0.1\nmax_calls_per_minute = 5").resilience)
    limiter.take(T0)
    refused = limiter.ask(T0)
    assert refused is not None
    assert refused.retry_after == 10
    assert Limiter.of(Resilience()).ask(T0) is None


RATES = st.one_of(
    st.integers(1, 50).map(Fraction), st.fractions(min_value=Fraction(1, 100), max_value=20, max_denominator=100)
)


@given(rate=RATES, gaps=st.lists(st.one_of(st.just(0), st.integers(0, 3 * S)), min_size=1, max_size=120))
@settings(max_examples=100, deadline=None)
def test_over_any_window_never_more_than_burst_and_rate(rate: Fraction, gaps: list[int]) -> None:
    limiter, now, admitted = Limiter(per_second=rate), T0, []
    for gap in gaps:
        now = Instant(now + gap)
        if limiter.ask(now) is None:
            limiter.take(now)
            admitted.append(now)
    burst = max(1, int(rate))
    for first, begin in enumerate(admitted):
        for last in range(first, len(admitted)):
            window = Fraction(admitted[last] - begin, S)
            assert last - first + 1 <= burst + rate * window


class LimiterMachine(RuleBasedStateMachine):
    """Both limits together, against a plain list of what was admitted."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = Limiter(per_second=Fraction(3, 2), per_minute=7)
        self.now = T0
        self.admitted: list[int] = []

    @rule(us=st.integers(0, 20 * S))
    def time_passes(self, us: int) -> None:
        self.now = Instant(self.now + us)

    @rule(n=st.integers(1, 10))
    def calls_come(self, n: int) -> None:
        for _ in range(n):
            if self.limiter.ask(self.now) is None:
                self.limiter.take(self.now)
                self.admitted.append(self.now)

    @rule()
    def a_client_obeys(self) -> None:
        refused = self.limiter.ask(self.now)
        if refused is not None:
            assert refused.retry_after is not None
            self.now = Instant(self.now + refused.retry_after * S)
            assert self.limiter.ask(self.now) is None

    @invariant()
    def no_window_holds_more_than_its_limit(self) -> None:
        recent = [t for t in self.admitted if t > self.now - 60 * S]
        assert len(recent) <= 7
        for first, begin in enumerate(recent):
            assert len(recent) - first <= 1 + Fraction(3, 2) * Fraction(self.now - begin, S)


LimiterMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLimiterMachine = LimiterMachine.TestCase
