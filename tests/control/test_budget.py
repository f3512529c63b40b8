"""Caps under any order of calls: a state machine over reservations of two hold modes."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from docket.control.budget import Amounts, Budget, HoldMode
from docket.control.decision import Refused
from docket.primitives.money import Usd

AMOUNT = st.integers(0, 60)


class Caps(RuleBasedStateMachine):
    """Calls come, hold, and settle at no more than they hold, or are released; in any order."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[Amounts] = []
        self.exceeded: list[str] = []
        self.warned: list[str] = []

    @initialize(mode=st.sampled_from(["expected", "worst"]), usd=st.integers(50, 200), tokens=st.integers(50, 200))
    def start(self, mode: HoldMode, usd: int, tokens: int) -> None:
        self.mode = mode
        self.budget = Budget(max_usd=Usd(usd), max_tokens=tokens, max_calls=9, warn_at=Decimal("0.8"), hold=mode)
        self.largest = 0

    @rule(target=calls, usd=AMOUNT, tokens=AMOUNT)
    def arrive(self, usd: int, tokens: int) -> Amounts | None:
        hold = Amounts(usd=usd, tokens=tokens, calls=1)
        answer = self.budget.ask(hold)
        if answer is not None:
            if isinstance(answer, Refused) and answer.breaches:
                self.exceeded += [breach.cap for breach in answer.breaches]
            return None
        self.budget.reserve(hold)
        self.open.append(hold)
        self.largest = max(self.largest, usd, tokens)
        return hold

    @rule(hold=consumes(calls), part=st.fractions(0, 1))
    def settle(self, hold: Amounts | None, part: object) -> None:
        if hold is None:
            return
        booked = Amounts(int(hold.usd * part), int(hold.tokens * part), 1)  # type: ignore[operator]
        warnings, breaches = self.budget.settle(hold, booked)
        self.open.remove(hold)
        self.warned += [warning.cap for warning in warnings]
        self.exceeded += [breach.cap for breach in breaches]

    @rule(hold=consumes(calls))
    def release(self, hold: Amounts | None) -> None:
        if hold is not None:
            self.budget.release(hold)
            self.open.remove(hold)

    @invariant()
    def what_is_reserved_is_what_is_open(self) -> None:
        if hasattr(self, "budget"):
            assert self.budget.usd.reserved == sum(hold.usd for hold in self.open) >= 0
            assert self.budget.tokens.reserved == sum(hold.tokens for hold in self.open) >= 0
            assert self.budget.in_flight == self.budget.calls.reserved == len(self.open)

    @invariant()
    def caps_hold(self) -> None:
        if hasattr(self, "budget"):
            for meter in (self.budget.usd, self.budget.tokens):
                assert meter.limit is not None
                if self.mode == "worst":
                    assert meter.reserved + meter.booked <= meter.limit
                else:
                    assert meter.booked <= meter.limit + self.largest

    @invariant()
    def every_cap_speaks_once(self) -> None:
        assert len(set(self.exceeded)) == len(self.exceeded)
        assert len(set(self.warned)) == len(self.warned)


TestCaps = Caps.TestCase
TestCaps.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
