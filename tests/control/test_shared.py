"""Shared budgets under any order of calls and leases: nothing is spent that was not leased before."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from docket.control.budget import Amounts, Budget, Wait
from docket.control.decision import Refused
from docket.control.shared import AHEAD, SharedBudget

BASE = Amounts(usd=1000, tokens=7, calls=3)


class Leased(RuleBasedStateMachine):
    """Calls come, settle at no more than they hold, or are released; leases arrive; the store refuses."""

    calls = Bundle("calls")

    @initialize(limited=st.tuples(st.booleans(), st.booleans()))
    def start(self, limited: tuple[bool, bool]) -> None:
        self.asked = 0
        self.budget = Budget(hold="worst")
        for meter, earlier in zip(self.budget.meters, BASE, strict=True):
            meter.booked = earlier
        self.shared = SharedBudget(Amounts(int(limited[0]), int(limited[1]), 1), BASE, self.news)
        self.budget.shared = self.shared
        self.leased = [0, 0, 0]

    def news(self) -> None:
        self.asked += 1

    @rule(target=calls, usd=st.integers(0, 40), tokens=st.integers(0, 40))
    def arrive(self, usd: int, tokens: int) -> Amounts | None:
        hold, before = Amounts(usd, tokens, 1), self.asked
        answer = self.budget.ask(hold)
        if answer is None:
            self.budget.reserve(hold)
            return hold
        if isinstance(answer, Wait):
            assert self.asked > before
        else:
            assert answer is self.shared.refused
            assert (self.asked > before) is not answer.final
        return None

    @rule(hold=consumes(calls), part=st.fractions(0, 1))
    def settle(self, hold: Amounts | None, part: object) -> None:
        if hold is not None:
            self.budget.settle(hold, Amounts(int(hold.usd * part), int(hold.tokens * part), 1))  # type: ignore[operator]

    @rule(hold=consumes(calls))
    def release(self, hold: Amounts | None) -> None:
        if hold is not None:
            self.budget.release(hold)

    @rule(amounts=st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5)))
    def lease(self, amounts: tuple[int, int, int]) -> None:
        self.shared.grant(tuple(amount if at in self.shared.limited else None for at, amount in enumerate(amounts)))
        for at in self.shared.limited:
            self.leased[at] += amounts[at]

    @rule(final=st.booleans())
    def refuse(self, final: bool) -> None:
        self.shared.refuse(Refused(code="shared_budget", message="", retry_after=None if final else 1))

    @invariant()
    def nothing_is_spent_or_held_that_was_not_leased(self) -> None:
        for at in self.shared.limited:
            meter = self.budget.meters[at]
            assert meter.booked - BASE[at] + meter.reserved <= self.leased[at] == self.shared.granted[at]


Leased.TestCase.settings = settings(max_examples=150, deadline=None)
TestLeased = Leased.TestCase


def shared(*, calls: int = 0) -> tuple[SharedBudget, Budget, list[int]]:
    asked: list[int] = []
    budget = Budget(hold="worst")
    budget.shared = made = SharedBudget(Amounts(1, 0, calls), Amounts(), lambda: asked.append(1))
    return made, budget, asked


def test_the_next_lease_is_asked_for_before_this_one_is_spent():
    made, budget, asked = shared()
    made.grant((100, None, None))
    for _ in range(2):
        assert budget.ask(Amounts(usd=25)) is None
        budget.reserve(Amounts(usd=25))
    assert asked == []
    assert budget.ask(Amounts(usd=25)) is None
    assert asked == [1]


def test_after_the_store_had_nothing_it_is_asked_only_when_a_call_does_not_fit():
    made, budget, asked = shared()
    made.grant((100, None, None))
    made.ahead = False
    assert budget.ask(Amounts(usd=90)) is None
    assert asked == []
    assert isinstance(budget.ask(Amounts(usd=101)), Wait)
    assert asked == [1]
    assert made.least() == Amounts(usd=1)


def test_what_is_wanted_covers_some_calls_and_what_was_spent_lately_and_no_unlimited_thing():
    made, budget, _ = shared(calls=1)
    budget.ask(Amounts(usd=10, tokens=999, calls=1))
    assert made.want(Amounts()) == Amounts(usd=10 * AHEAD, tokens=0, calls=AHEAD)
    assert made.want(Amounts(usd=1000, tokens=5, calls=2)) == Amounts(usd=1000, tokens=5, calls=AHEAD)


def test_a_small_call_that_fits_does_not_hide_what_a_large_one_lacks():
    made, budget, _ = shared()
    made.grant((10, None, None))
    budget.ask(Amounts(usd=50))
    budget.ask(Amounts(usd=1))
    assert made.least() == Amounts(usd=40)
