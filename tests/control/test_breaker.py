"""The breaker's table row by row, its classes of failure, and its invariants as a state machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from docket.control.breaker import (
    DEFAULT_COUNTS,
    MAX_BREAKERS,
    TABLE,
    Breaker,
    BreakerPolicy,
    Breakers,
    Closed,
    Ended,
    HalfOpen,
    Open,
    Permit,
    Row,
    Verdict,
    judge,
    row,
)
from docket.ledger.events import BreakerClosed, BreakerHalfOpen, BreakerOpen, Event
from docket.policy.parse import parse
from docket.policy.resilience import Resilience
from docket.primitives.instant import Instant
from docket.providers import registry
from tests.kit.calls import call_of

S = 1_000_000
FIXTURES = Path(__file__).parents[1] / "fixtures/usage"
POLICY = BreakerPolicy(threshold=3, cooldown_us=2 * S, max_cooldown_us=5 * S, probe_lease_us=60 * S)
T0 = Instant(1_000 * S)


def at(seconds: float) -> Instant:
    return Instant(T0 + int(seconds * S))


def tripped(policy: BreakerPolicy = POLICY) -> Breaker:
    breaker = Breaker("main", policy)
    for ticket in range(policy.threshold):
        breaker.settle(ticket, Verdict.BLIND, "connect", T0)
    return breaker


def half_open(ticket: int = 100) -> Breaker:
    breaker = tripped()
    breaker.take(ticket, at(2))
    return breaker


START = {Closed: lambda: Breaker("main", POLICY), Open: tripped, HalfOpen: half_open}
AFTER: dict[str, tuple[object, list[type[Event]]]] = {
    "closed-answer-resets": (Closed(), []),
    "closed-blind-counts": (Closed(failures=1), []),
    "closed-neutral-stays": (Closed(), []),
    "open-late-answer-stays": (Open(until=at(2), cooldown_us=2 * S), []),
    "open-late-blind-stays": (Open(until=at(2), cooldown_us=2 * S), []),
    "open-late-neutral-stays": (Open(until=at(2), cooldown_us=2 * S), []),
    "probe-answer-closes": (Closed(), [BreakerClosed]),
    "probe-blind-reopens": (Open(until=at(7), cooldown_us=4 * S), [BreakerOpen]),
    "probe-neutral-frees": (HalfOpen(cooldown_us=2 * S, probe=None, lease_until=at(62)), []),
    "half-open-late-answer-stays": (HalfOpen(cooldown_us=2 * S, probe=100, lease_until=at(62)), []),
    "half-open-late-blind-stays": (HalfOpen(cooldown_us=2 * S, probe=100, lease_until=at(62)), []),
    "half-open-late-neutral-stays": (HalfOpen(cooldown_us=2 * S, probe=100, lease_until=at(62)), []),
}


@pytest.mark.parametrize("line", TABLE, ids=lambda line: line.label)
def test_row(line: Row) -> None:
    breaker = START[line.state]()
    events = breaker.settle(100 if line.whose == "probe" else 7, line.verdict, "why", at(3))
    state, types = AFTER[line.label]
    assert breaker.state == state
    assert [type(event) for event in events] == types


def test_the_table_has_exactly_one_row_for_every_state_part_and_verdict() -> None:
    keys = [(line.state, line.whose, line.verdict) for line in TABLE]
    assert len(set(keys)) == len(keys) == 3 + 3 + 6
    assert {line.label for line in TABLE} == AFTER.keys()
    for state in (Closed(), tripped().state, half_open().state):
        for verdict in Verdict:
            for probe in (True, False):
                assert row(state, verdict, probe=probe) in TABLE


def test_an_answer_between_failures_starts_the_count_again() -> None:
    breaker = Breaker("main", POLICY)
    for verdict in (Verdict.BLIND, Verdict.BLIND, Verdict.INFORMED, Verdict.BLIND, Verdict.BLIND):
        assert breaker.settle(1, verdict, "timeout", T0) == ()
    assert breaker.settle(1, Verdict.BLIND, "timeout", T0) == (
        BreakerOpen(upstream="main", reason="timeout", failures=3, cooldown_us=2 * S),
    )


def test_open_refuses_with_the_remaining_time_rounded_up_and_then_lets_one_probe_pass() -> None:
    breaker = tripped()
    refused = breaker.ask(at(0.1))
    assert refused is not None
    assert (refused.code, refused.retry_after, refused.estimated) == ("breaker_open", 2, False)
    assert breaker.ask(at(0.1 + 2)) is None
    assert breaker.take(9, at(2.1)) == (BreakerHalfOpen(upstream="main"),)
    second = breaker.ask(at(2.2))
    assert second is not None
    assert second.estimated


def test_while_a_probe_is_under_way_the_hint_grows_with_it() -> None:
    breaker = half_open(9)
    hints = []
    for seconds in (2.1, 3, 12, 30, 55):
        refused = breaker.ask(at(seconds))
        assert refused is not None
        hints.append(refused.retry_after)
    assert hints == [1, 1, 10, 28, 7], "as long as the probe has taken, at most what is left of its lease"


def test_the_slot_of_a_probe_that_never_ends_is_free_after_its_lease() -> None:
    breaker = half_open(9)
    assert breaker.ask(at(61.9)) is not None
    assert breaker.ask(at(62)) is None
    assert breaker.take(10, at(62)) == ()
    assert breaker.settle(9, Verdict.INFORMED, "complete", at(63)) == (), "the one that lost its slot decides nothing"
    assert breaker.settle(10, Verdict.INFORMED, "complete", at(64)) == (
        BreakerClosed(upstream="main", reason="complete"),
    )


def test_each_failed_probe_doubles_the_cooldown_up_to_the_ceiling_and_an_answer_resets_it() -> None:
    breaker, now, seen = tripped(), T0, []
    for ticket in range(4):
        assert isinstance(breaker.state, Open)
        seen.append(breaker.state.cooldown_us // S)
        now = breaker.state.until
        breaker.take(ticket, now)
        breaker.settle(ticket, Verdict.BLIND, "connect", now)
    assert seen == [2, 4, 5, 5]
    breaker.take(50, at(60))
    breaker.settle(50, Verdict.INFORMED, "status-400", at(60))
    for ticket in range(3):
        breaker.settle(ticket, Verdict.BLIND, "connect", at(60))
    assert breaker.state == Open(until=at(62), cooldown_us=2 * S)


def test_the_policy_file_states_the_breaker() -> None:
    policy = parse(
        "[resilience]\nbreaker_threshold = 2\nbreaker_counts = ['overload', 'connect']\nconnect_timeout = 0.5"
    )
    assert BreakerPolicy.of(policy.resilience) == BreakerPolicy(
        threshold=2, counts=frozenset({"connect", "overload"}), probe_lease_us=300_500_000
    )
    assert BreakerPolicy.of(Resilience()) == BreakerPolicy()


def test_threshold_zero_is_off() -> None:
    breakers = Breakers(BreakerPolicy(threshold=0))
    for _ in range(50):
        assert breakers.ask("main", None, T0) is None
        permit, events = breakers.take("main", None, T0)
        assert events == breakers.settle(permit, Ended(reason="connect"), T0) == ()


BLIND = [
    Ended(reason="connect"),
    Ended(reason="timeout"),
    Ended(reason="truncated", status=200),
    Ended(reason="status", status=500),
    Ended(reason="status", status=502),
    Ended(reason="status", status=503),
    Ended(reason="status", status=504, retry_after=True),
    Ended(reason="error-event", status=200, error_type="api_error"),
    Ended(reason="error-event", status=200),
]
INFORMED = [
    Ended(reason="complete", status=200),
    Ended(reason="incomplete", status=200),
    Ended(reason="status", status=400),
    Ended(reason="status", status=401),
    Ended(reason="status", status=404),
    Ended(reason="status", status=429),
    Ended(reason="status", status=429, retry_after=True),
    Ended(reason="status", status=503, retry_after=True),
    Ended(reason="status", status=503, error_type="overloaded_error"),
    Ended(reason="status", status=529),
    Ended(reason="error-event", status=200, error_type="overloaded_error"),
]
NEUTRAL = [
    Ended(reason="client-gone", status=200),
    Ended(reason="stale"),
    Ended(reason="unterminated", status=200),
    Ended(reason="lost"),
    Ended(reason="something new"),
]


@pytest.mark.parametrize(
    ("ended", "verdict"),
    [(e, v) for v, es in zip(Verdict, (INFORMED, BLIND, NEUTRAL), strict=True) for e in es],
    ids=repr,
)
def test_class(ended: Ended, verdict: Verdict) -> None:
    assert judge(ended) is verdict


@pytest.mark.parametrize(
    ("case", "path", "verdict"),
    [
        ("u11_chat_error_inside_200", "/v1/chat/completions", Verdict.BLIND),
        ("a08_anthropic_error_event", "/v1/messages", Verdict.INFORMED),
    ],
)
def test_an_error_event_inside_a_200_stream_is_no_success(case: str, path: str, verdict: Verdict) -> None:
    """A failure of the upstream, unless it says overload; that counts where ``breaker_counts`` names it."""
    body = (FIXTURES / f"{case}.sse").read_bytes()
    family = "anthropic" if "anthropic" in case else "openai"
    endpoint = registry.recognise(family, "POST", path)
    asked = call_of(endpoint, b'{"stream":true}', path, provider=family)
    observer = registry.observer_of(asked, status=200, media_type=b"text/event-stream")
    assert observer is not None
    observer.feed(body)
    seen = observer.finish(clean=True)
    assert seen.terminal == "error"
    ended = Ended(reason="error-event", status=200, error_type=seen.error_type)
    assert judge(ended) is verdict
    assert judge(ended, DEFAULT_COUNTS | {"overload"}) is Verdict.BLIND


def test_counts_tune_the_classes() -> None:
    assert judge(Ended(reason="timeout"), DEFAULT_COUNTS - {"timeout"}) is Verdict.NEUTRAL
    assert judge(Ended(reason="status", status=500), DEFAULT_COUNTS - {"status"}) is Verdict.NEUTRAL
    for busy in (Ended(reason="status", status=429), Ended(reason="status", status=529)):
        assert judge(busy, DEFAULT_COUNTS | {"overload"}) is Verdict.BLIND
    assert judge(Ended(reason="status", status=400), DEFAULT_COUNTS | {"overload"}) is Verdict.INFORMED


def test_credentials_do_not_share_a_breaker() -> None:
    breakers = Breakers(POLICY)
    for _ in range(3):
        permit, _ = breakers.take("main", "aa", T0)
        breakers.settle(permit, Ended(reason="connect"), T0)
    assert breakers.ask("main", "aa", T0) is not None
    assert breakers.ask("main", "bb", T0) is None
    assert breakers.ask("other", "aa", T0) is None
    assert breakers.states() == {"main": "open"}


@given(st.lists(st.tuples(st.text("abcdef", min_size=1), st.booleans()), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_any_number_of_credentials_keeps_a_bounded_number_of_breakers(calls: list[tuple[str, bool]]) -> None:
    breakers = Breakers(POLICY)
    for n in range(MAX_BREAKERS + 10):
        permit, _ = breakers.take("main", f"fill-{n}", T0)
        breakers.settle(permit, Ended(reason="connect"), T0)
    for credential, works in calls:
        if breakers.ask("main", credential, T0) is None:
            permit, _ = breakers.take("main", credential, T0)
            breakers.settle(permit, Ended(reason="complete" if works else "connect"), T0)
    assert len(breakers._breakers) <= MAX_BREAKERS + 1


class BreakerMachine(RuleBasedStateMachine):
    """Many calls, any ends, any times: what an operator may rely on."""

    def __init__(self) -> None:
        super().__init__()
        self.breakers = Breakers(POLICY)
        self.now = T0
        self.under_way: list[Permit] = []
        self.probes: dict[int, Instant] = {}
        self.story: list[type[Event]] = []
        self.blind_in_a_row = 0

    @property
    def name(self) -> str:
        return self.breakers.states().get("main", "closed")

    def note(self, events: tuple[Event, ...]) -> None:
        self.story += [type(event) for event in events]

    @rule(us=st.integers(0, 10 * S))
    def time_passes(self, us: int) -> None:
        self.now = Instant(self.now + us)

    @rule()
    def a_call_comes(self) -> None:
        before = self.name
        refused = self.breakers.ask("main", "k", self.now)
        assert self.name == before, "asking changes nothing"
        if refused is not None:
            assert before != "closed"
            assert refused.retry_after is not None
            assert refused.retry_after >= 1
            if not refused.estimated:
                later = Instant(self.now + refused.retry_after * S)
                assert self.breakers.ask("main", "k", later) is None, "who obeys is admitted"
            return
        permit, events = self.breakers.take("main", "k", self.now)
        self.note(events)
        self.under_way.append(permit)
        if before != "closed":
            self.probes = {t: lease for t, lease in self.probes.items() if lease > self.now}
            self.probes[permit.ticket] = Instant(self.now + POLICY.probe_lease_us)
            assert len(self.probes) == 1, "exactly one probe"

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), ended=st.sampled_from(BLIND + INFORMED + NEUTRAL))
    def a_call_ends(self, data: st.DataObject, ended: Ended) -> None:
        permit = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        before = self.name
        self.probes.pop(permit.ticket, None)
        events = self.breakers.settle(permit, ended, self.now)
        self.note(events)
        if before == "closed":
            verdict = judge(ended)
            self.blind_in_a_row = {Verdict.BLIND: self.blind_in_a_row + 1, Verdict.INFORMED: 0}.get(
                verdict, self.blind_in_a_row
            )
            assert bool(events) == (self.blind_in_a_row >= POLICY.threshold)
        if self.name != "closed" or before != "closed":
            self.blind_in_a_row = 0

    @precondition(lambda self: self.under_way)
    @rule()
    def a_call_is_cancelled_before_it_was_sent(self) -> None:
        permit = self.under_way.pop()
        self.probes.pop(permit.ticket, None)
        before = self.name
        self.breakers.release(permit, self.now)
        assert self.name == before

    @invariant()
    def the_story_is_one_that_can_be_told(self) -> None:
        follows = {
            None: {BreakerOpen},
            BreakerOpen: {BreakerHalfOpen},
            BreakerHalfOpen: {BreakerOpen, BreakerClosed},
            BreakerClosed: {BreakerOpen},
        }
        last = None
        for step in self.story:
            assert step in follows[last]
            last = step
        assert self.name == {None: "closed", BreakerOpen: "open", BreakerHalfOpen: "half-open"}.get(last, "closed")

    @invariant()
    def it_never_stays_shut_for_ever(self) -> None:
        horizon = Instant(self.now + max(POLICY.max_cooldown_us, POLICY.probe_lease_us))
        assert self.breakers.ask("main", "k", horizon) is None


BreakerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBreakerMachine = BreakerMachine.TestCase
