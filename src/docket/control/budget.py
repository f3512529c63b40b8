"""Caps: what is reserved for calls under way, what is booked, and what a call may still hold.

One machinery for US dollars, tokens and calls. Invariants: nothing reserved is ever negative, and it is zero when no
call is under way; under ``worst`` reserved + booked never pass a cap; a cap warns once and is exceeded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, Protocol

from docket.control.decision import Refused
from docket.ledger.events import CapExceeded, CapName, CapWarning
from docket.policy.model import HoldMode
from docket.primitives.money import Usd


class Amounts(NamedTuple):
    """A quantity of each thing that is capped; ``usd`` in picodollars."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """The call does not fit yet; it may when others settle."""

    cap: CapName


@dataclass(slots=True)
class Meter:
    """One cap: ``limit`` None is no cap, and then only the sums are kept."""

    cap: CapName
    limit: int | None
    warn_at: int = 0
    """Never above the limit."""
    booked: int = 0
    reserved: int = 0
    warned: bool = False

    @property
    def spent(self) -> bool:
        return self.limit is not None and self.booked >= self.limit

    def fits(self, amount: int) -> bool:
        return self.limit is None or self.booked + self.reserved + amount <= self.limit

    def show(self, amount: int) -> str:
        """``amount`` as events spell it."""
        return str(Usd(amount)) if self.cap == "max_usd" else str(amount)


class SharedBudget(Protocol):
    """What a run has leased of budgets that it shares (``control.shared``)."""

    def ask(self, meters: Sequence[Meter], hold: Amounts) -> Refused | Wait | None:
        """Return whether a call that holds ``hold`` fits what was leased; None is yes."""
        ...


class Budget:
    """The caps of a run. ``ask`` changes nothing; a reservation is settled or released exactly once."""

    def __init__(
        self,
        *,
        max_usd: Usd | None = None,
        max_tokens: int | None = None,
        max_calls: int | None = None,
        warn_at: Decimal = Decimal("0.8"),
        hold: HoldMode = "expected",
    ) -> None:
        self.usd = _meter("max_usd", max_usd.pico if max_usd is not None else None, warn_at)
        self.tokens = _meter("max_tokens", max_tokens, warn_at)
        self.calls = _meter("max_model_calls", max_calls, warn_at)
        self.meters = (self.usd, self.tokens, self.calls)
        self._caps = tuple((at, meter) for at, meter in enumerate(self.meters) if meter.limit is not None)
        """The meters that limit anything, and where their amount stands in ``Amounts``."""
        self._hold = hold
        self.shared: SharedBudget | None = None
        """What the run may spend of budgets that it shares, set once before the first call."""
        self._breach: CapExceeded | None = None
        self.in_flight = 0

    @property
    def booked_usd(self) -> Usd:
        """What all settled calls came to for the cap; not what was billed."""
        return Usd(self.usd.booked)

    @property
    def booked_tokens(self) -> int:
        return self.tokens.booked

    @property
    def breach_event(self) -> CapExceeded | None:
        """The first breach of the run, after which every call is refused."""
        return self._breach

    @property
    def scarcest(self) -> CapName:
        """The cap of which the smallest part is left."""
        limited = [meter for meter in self.meters if meter.limit is not None]
        used = max(limited, key=lambda m: (m.booked + m.reserved) / (m.limit or 1), default=self.usd)
        return used.cap

    def ask(self, hold: Amounts) -> Refused | Wait | None:
        """Whether a call that holds ``hold`` may go now: None is yes."""
        if self._breach is not None:
            return _refusal(self._breach)
        for at, meter in self._caps:
            if meter.fits(hold[at]):
                continue
            if self.in_flight:
                return Wait(meter.cap)
            if self._hold == "worst":
                return self._never_fits(meter, hold[at])
        return None if self.shared is None else self.shared.ask(self.meters, hold)

    def reached(self) -> Refused | None:
        """The final refusal of every call after a breach."""
        return None if self._breach is None else _refusal(self._breach)

    def reserve(self, hold: Amounts) -> None:
        """Keep ``hold`` for a call; only after ``ask`` gave None."""
        self.in_flight += 1
        for meter, amount in zip(self.meters, hold, strict=True):
            meter.reserved += amount

    def release(self, hold: Amounts) -> None:
        """Give back what was kept for a call that cost nothing."""
        self.in_flight -= 1
        for meter, amount in zip(self.meters, hold, strict=True):
            meter.reserved -= amount

    def settle(self, hold: Amounts, booked: Amounts) -> tuple[tuple[CapWarning, ...], tuple[CapExceeded, ...]]:
        """Give back what was kept and book what it came to; the events that this causes."""
        self.in_flight -= 1
        for meter, kept, spent in zip(self.meters, hold, booked, strict=True):
            meter.reserved -= kept
            meter.booked += spent
        if not self._caps:
            return (), ()
        warnings: list[CapWarning] = []
        breaches: list[CapExceeded] = []
        for at, meter in self._caps:
            if meter.limit is None or meter.booked < meter.warn_at:
                continue
            limit, observed = meter.show(meter.limit), meter.show(meter.booked)
            if not meter.warned:
                meter.warned = True
                warnings.append(CapWarning(cap=meter.cap, limit=limit, observed=observed))
            if meter.spent and meter.booked - booked[at] < meter.limit:
                breaches.append(CapExceeded(cap=meter.cap, limit=limit, observed=observed))
        for breach in breaches:
            self.breach(breach)
        return tuple(warnings), tuple(breaches)

    def breach(self, event: CapExceeded) -> None:
        """From now on refuse every call; the first breach is the reason that is given."""
        if self._breach is None:
            self._breach = event

    def _never_fits(self, meter: Meter, amount: int) -> Refused:
        assert meter.limit is not None
        limit = meter.show(meter.limit)
        event = CapExceeded(cap=meter.cap, limit=limit, observed=meter.show(meter.booked))
        self.breach(event)
        return Refused(
            code=meter.cap,
            message=f"cap {meter.cap} ({limit}) cannot cover this call: {meter.show(meter.booked)} is booked and the"
            f" call may take up to {meter.show(amount)}",
            limit=limit,
            observed=event.observed,
            breaches=(event,),
        )


def _meter(cap: CapName, limit: int | None, warn_at: Decimal) -> Meter:
    return Meter(cap, limit, warn_at=0 if limit is None else -int(-(limit * warn_at) // 1))


def _refusal(breach: CapExceeded) -> Refused:
    return Refused(
        code=breach.cap,
        message=f"cap {breach.cap} reached: {breach.observed} of {breach.limit}",
        limit=breach.limit,
        observed=breach.observed,
    )
