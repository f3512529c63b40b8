"""The whole gate under any order of calls and ends, time moving as it likes: what it holds, it gives back."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from docket.control.admission import Gate
from docket.control.breaker import Ended
from docket.control.decision import Admitted, Refused
from docket.ledger.events import CapExceeded
from docket.ledger.usage import Counts
from docket.primitives.instant import Instant
from docket.providers.call import Call, Observation

from .kit import call, gate


class Machine(RuleBasedStateMachine):
    """Answers keep to their requests: no more input than bytes, no more output than the limit."""

    calls = Bundle("calls")

    @initialize(mode=st.sampled_from(["expected", "worst"]), cents=st.integers(1, 20))
    def start(self, mode: str, cents: int) -> None:
        self.mode = mode
        self.limit = cents * 10**10
        self.gate: Gate = gate(
            f'[caps]\nmax_usd = {cents / 100}\nhold = "{mode}"\n[resilience]\nbreaker_threshold = 3\n'
        )
        self.now = 0
        self.open: dict[int, int] = {}
        self.over = 0
        self.breaches: list[str] = []

    @rule(us=st.integers(0, 60_000_000))
    def time_passes(self, us: int) -> None:
        self.now += us

    @rule(target=calls, body=st.integers(1, 4000), limit=st.integers(1, 3000))
    def arrive(self, body: int, limit: int) -> tuple[Admitted, Call] | None:
        asked = call(body_bytes=body, max_output=limit)
        answer = self.gate.admit(asked, Instant(self.now))
        if isinstance(answer, Refused):
            self.breaches += [breach.cap for breach in answer.breaches]
        if not isinstance(answer, Admitted):
            return None
        assert answer.hold.usd is not None
        self.open[answer.call] = answer.hold.usd.pico
        return answer, asked

    @rule(
        admitted=consumes(calls),
        part=st.fractions(0, 1),
        how=st.sampled_from(["complete", "truncated", "client-gone", "connect", "status", "no-usage", "release"]),
    )
    def end(self, admitted: tuple[Admitted, Call] | None, part: object, how: str) -> None:
        if admitted is None:
            return
        got, asked = admitted
        assert asked.max_output is not None
        held = self.open.pop(got.call)
        if how == "release":
            self.gate.release(got, Instant(self.now))
            return
        output = int(asked.max_output * part)  # type: ignore[operator]
        counts = Counts(source="none")
        if how in ("complete", "truncated"):
            source = "reported" if how == "complete" else "partial"
            counts = Counts(source=source, items=(("input", asked.body_bytes // 4), ("output", output)))  # type: ignore[arg-type]
        status = {"connect": None, "status": 500}.get(how, 200)
        reason = "complete" if how == "no-usage" else how
        seen = None if how == "connect" else Observation(terminal="complete", counts=counts, size=output * 40)
        before = self.gate.budget.usd.booked
        settled = self.gate.settle(got, asked, Ended(reason=reason, status=status), seen, Instant(self.now))
        booked = self.gate.budget.usd.booked - before
        self.over = max(self.over, booked, held)
        self.excess = self.excess or booked > held
        self.breaches += [breach.cap for breach in settled.breaches]

    excess = False

    @rule()
    def wall_time_is_over(self) -> None:
        if self.now > 600_000_000:
            self.gate.breach(CapExceeded(cap="max_wall_seconds", limit="600", observed="600"))

    @invariant()
    def what_is_held_is_what_is_open(self) -> None:
        if hasattr(self, "gate"):
            assert self.gate.budget.usd.reserved == sum(self.open.values()) >= 0
            assert self.gate.inflight == len(self.open)
            assert self.gate.reserved_usd.pico == self.gate.budget.usd.reserved

    @invariant()
    def the_cap_holds(self) -> None:
        if not hasattr(self, "gate"):
            return
        usd = self.gate.budget.usd
        if self.mode == "worst":
            assert usd.reserved + usd.booked <= self.limit
        elif not self.excess:
            assert usd.booked <= self.limit + self.over
        assert len(self.breaches) == len(set(self.breaches))


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
