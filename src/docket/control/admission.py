"""The Gate: the ordered decision on one call, and its settlement. Pure: time is an argument, nothing waits.

Gates in order: policy, breaker, rate limit, budget. ``ask`` charges none of them; ``take`` charges all. Invariant: an
admitted call is settled or released exactly once, and what it reserved does not outlive it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from statistics import median_low

from docket.control.booking import Booking
from docket.control.breaker import BreakerPolicy, Breakers, Ended, Permit
from docket.control.budget import Amounts, Budget, Wait
from docket.control.decision import Admitted, Refused, Settlement
from docket.control.holds import Holds
from docket.control.limiter import Limiter
from docket.control.readiness import BreakerName, CapUse
from docket.ledger.events import CallNumber, CapExceeded, CapName, Event, Hold
from docket.policy.model import Models, Policy
from docket.pricing.estimate import Calibration
from docket.pricing.table import STANDARD, PriceTable
from docket.primitives.canonical import JsonObject
from docket.primitives.frozen import value
from docket.primitives.instant import Duration, Instant, whole_seconds
from docket.primitives.money import Usd
from docket.providers.call import DEPLOYMENT, UNKNOWN_MODEL, Call, EndpointClass, Observation
from docket.providers.request import public_name

MAX_RETRY_AFTER = 120
"""Seconds: above it one real SDK does not come back at all."""
DURATIONS = 256
"""Settled calls whose durations make the median that a waiting call is told."""


@value
class Proposal:
    """A call that may go now, and what would be reserved for it."""

    call: Call
    hold: Amounts
    priced: bool


@value
class _Reservation:
    hold: Amounts
    permit: Permit | None
    """None once the breaker knows how it went."""
    since: Instant


class Gate:
    """Decides on the calls of one run."""

    def __init__(self, policy: Policy, table: PriceTable, *, first_call: int = 1, budget: Budget | None = None) -> None:
        caps = policy.caps
        quota = policy.budget.mode == "quota"
        self._models = policy.models
        self._judges_models = bool(policy.models.allow or policy.models.deny)
        self._usd_cap = policy.caps_usd
        self.budget = budget or Budget(
            max_usd=None if quota else caps.max_usd,
            max_tokens=caps.max_tokens,
            max_calls=caps.max_model_calls,
            warn_at=caps.warn_at,
            hold=caps.hold,
        )
        self._breakers = Breakers(BreakerPolicy.of(policy.resilience))
        self._limiter = Limiter.of(policy.resilience)
        self._limited = self._limiter.limits_anything
        calibration = Calibration()
        self._holds = Holds(policy, table, calibration)
        self._booking = Booking(policy, table, calibration)
        self._hold_wait = caps.hold_wait_seconds
        self._next = first_call
        self._open: dict[CallNumber, _Reservation] = {}
        self._durations: deque[int] = deque(maxlen=DURATIONS)

    @property
    def inflight(self) -> int:
        """Calls that were admitted and have not ended."""
        return len(self._open)

    @property
    def reserved_usd(self) -> Usd:
        """Dollars held for calls under way."""
        return Usd(self.budget.usd.reserved)

    def breaker_states(self) -> Mapping[str, BreakerName]:
        """The worst breaker of each upstream that was asked."""
        return self._breakers.states()

    def cap_use(self) -> Mapping[str, CapUse]:
        """Each cap and what is booked against it, in its own unit."""
        return {
            meter.cap: CapUse(limit=Decimal(meter.show(meter.limit)), booked=Decimal(meter.show(meter.booked)))
            for meter in self.budget.meters
            if meter.limit is not None
        }

    def left(self) -> JsonObject:
        """What the agent may know of its budget: per cap the limit, what is booked and reserved, and what is left."""
        caps: JsonObject = {
            meter.cap: {
                "limit": meter.show(meter.limit),
                "booked": meter.show(meter.booked),
                "reserved": meter.show(meter.reserved),
                "left": meter.show(max(0, meter.limit - meter.booked - meter.reserved)),
            }
            for meter in self.budget.meters
            if meter.limit is not None
        }
        breach = self.budget.breach_event
        return {"caps": caps, "breach": breach.cap if breach else None, "calls_in_flight": len(self._open)}

    def ask(self, call: Call, now: Instant) -> Proposal | Refused | Wait:
        """Return what would become of ``call`` now; changes nothing and does not yield."""
        if call.ambiguous is not None or call.unread is not None or self._judges_models:
            barred = self._barred(call)
            if barred is not None:
                return barred
        held = self._holds.of(call)
        if isinstance(held, Refused):
            return held
        answer: Refused | Wait | None = self._breakers.ask(call.upstream, call.credential, now)
        if answer is None and self._limited:
            answer = self._limiter.ask(now)
        if answer is None:
            answer = self.budget.ask(held.amounts)
        if answer is None:
            return Proposal(call, held.amounts, held.priced)
        return _patient(answer) if isinstance(answer, Refused) else answer

    def barred(self, call: Call) -> Refused | None:
        """Why even a call that costs nothing is refused: its model, or a cap that was reached."""
        return self._barred(call) or self.budget.reached()

    def _barred(self, call: Call) -> Refused | None:
        """Why the policy does not let ``call`` through, whatever else is the case: what cannot be read is not free."""
        if call.ambiguous is not None:
            return Refused(
                code="ambiguous_request",
                message=f"the request says {public_name(call.ambiguous)} in a way that two servers could read"
                " differently (given twice, in other letters, or no count); send it once, as the provider spells it",
            )
        if call.unread is not None and self._usd_cap and call.endpoint.kind is EndpointClass.METERED:
            return Refused(
                code="unreadable_request",
                message=f"the request cannot be read, so the cap max_usd cannot hold it: {call.unread}",
            )
        return allowed(call, self._models)

    def number(self) -> CallNumber:
        """The next call number; the event that introduces it is submitted in the same step."""
        number = CallNumber(self._next)
        self._next += 1
        return number

    def take(self, proposal: Proposal, now: Instant, *, waited_us: int = 0) -> Admitted:
        """Admit what ``ask`` proposed at the same ``now``: number it, and charge every gate. Does not yield."""
        call, hold, number = proposal.call, proposal.hold, CallNumber(self._next)
        self._next += 1
        permit, events = self._breakers.take(call.upstream, call.credential, now)
        if self._limited:
            self._limiter.take(now)
        self.budget.reserve(hold)
        self._open[number] = _Reservation(hold, permit, now)
        usd = Usd(hold.usd) if proposal.priced else None
        events += self._holds.remarks(call)
        return Admitted(number, Hold(hold.tokens, usd), waited_us, events)

    def admit(self, call: Call, now: Instant) -> Admitted | Refused | Wait:
        """Ask and take in one step."""
        answer = self.ask(call, now)
        return self.take(answer, now) if isinstance(answer, Proposal) else answer

    def settle(
        self, admitted: Admitted, call: Call, ended: Ended, observation: Observation | None, now: Instant
    ) -> Settlement:
        """Book what became of an admitted call. Does not yield. Raises KeyError for one that is not open."""
        reservation = self._open.pop(admitted.call)
        if reservation.permit is not None:
            self._durations.append(now - reservation.since)
        booked = self._booking.of(call, ended, observation, reservation.hold)
        if booked.tier != STANDARD:
            self._holds.served(call.provider, booked.tier)
        if observation is not None and observation.answer_id and observation.counts.source == "reported":
            self._holds.remember(observation.answer_id, booked.amounts.tokens)
        warnings, breaches = self.budget.settle(reservation.hold, booked.amounts)
        events = () if reservation.permit is None else self._breakers.settle(reservation.permit, ended, now)
        return Settlement(booked.usage, booked.model, booked.tier, warnings, breaches, events)

    def answered(self, admitted: Admitted, ended: Ended, now: Instant) -> tuple[Event, ...]:
        """Settle the breaker of a call whose answer comes later; its hold stays. Does not yield."""
        reservation = self._open[admitted.call]
        if reservation.permit is None:
            return ()
        self._open[admitted.call] = replace(reservation, permit=None)
        self._durations.append(now - reservation.since)
        return self._breakers.settle(reservation.permit, ended, now)

    def release(self, admitted: Admitted, now: Instant) -> None:
        """Give back everything but the number of a call that was never sent. Does not yield."""
        reservation = self._open.pop(admitted.call)
        if reservation.permit is not None:
            self._breakers.release(reservation.permit, now)
        self.budget.release(reservation.hold)

    def breach(self, event: CapExceeded) -> None:
        """A cap that others watch was reached: from now on refuse every call."""
        self.budget.breach(event)

    def gave_up(self, wait: Wait) -> Refused:
        """The temporary refusal of a call that waited as long as the policy allows for others to settle."""
        typical = median_low(self._durations) if self._durations else 0
        seconds = min(whole_seconds(typical), max(1, self._hold_wait.us // 1_000_000))
        return Refused(
            code=wait.cap,
            message=f"cap {wait.cap} is reserved by calls under way; try again in about {seconds} s",
            retry_after=seconds,
            estimated=True,
        )

    def scarce(self) -> CapName:
        """The cap for which a call waits behind others that wait: the one with the least left."""
        return self.budget.scarcest

    @property
    def hold_wait(self) -> Duration:
        """How long a call may wait for others to settle."""
        return self._hold_wait


def _patient(refused: Refused) -> Refused:
    """A wait that is longer than clients accept is cut to what they do: who comes back is refused again."""
    if refused.retry_after is None or refused.retry_after <= MAX_RETRY_AFTER:
        return refused
    return replace(refused, retry_after=MAX_RETRY_AFTER)


def allowed(call: Call, models: Models) -> Refused | None:
    """The refusal of a model that ``[models]`` does not let through; patterns match without regard to case.

    Every model that the call may use is judged. A pattern that denies matches a name also without what stands before
    its last ``/`` and after its ``@``. A model call that names none is refused where patterns deny any, and so is
    whatever may be billed and cannot be read.
    """
    if not (models.allow or models.deny):
        return None
    if call.unread is not None:
        return _nameless(call.unread)
    metered = call.endpoint.kind is EndpointClass.METERED
    for model in call.models:
        if model == UNKNOWN_MODEL and call.private_model is None:
            if metered and models.deny:
                return _nameless("it names none")
            if not metered:
                continue
        refused = _judged(model, models)
        if refused is not None:
            return refused
    if call.hidden and models.deny:
        return Refused(
            code="model_denied",
            message=f"the policy denies models, and nothing says which one {public_name(call.model)} is;"
            f" state it in [upstreams.{call.upstream}.models]",
        )
    return next((_denied(alias) for alias, _ in call.aliases if _matches(alias, models.deny)), None)


def _nameless(reason: str) -> Refused:
    message = f"the policy does not let every model through, and the request's is unknown: {reason}"
    return Refused(code="model_denied", message=message)


def _judged(model: str, models: Models) -> Refused | None:
    if _matches(model, models.deny):
        return _denied(model)
    name = model.removeprefix(DEPLOYMENT).lower()
    if models.allow and not any(fnmatchcase(name, pattern.lower()) for pattern in models.allow):
        listed = ", ".join(models.allow[:8])
        return Refused(code="model_denied", message=f"model {public_name(model)} is not among those allowed: {listed}")
    return None


def _matches(model: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the ``patterns`` matches a spelling of ``model``."""
    name = model.lower()
    short = name.rpartition("/")[2]
    spellings = {name, short, short.partition("@")[0], name.rpartition(":")[2].rpartition("/")[2]}
    return any(fnmatchcase(spelt, pattern.lower()) for pattern in patterns for spelt in spellings)


def _denied(model: str) -> Refused:
    return Refused(code="model_denied", message=f"model {public_name(model)} is denied by the policy")
