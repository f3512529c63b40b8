"""What a ledger's calls were booked at: what a resumed run's caps count from.

Invariant: the fold books what ``Booking`` did, so that a restart cannot reset a budget; calls without an end count at
their hold, and so do items without a price, which the dearest known price may have booked higher.
Constant memory, but for the calls that are open.
"""

from __future__ import annotations

from collections.abc import Mapping

from docket.control.booking import FEES
from docket.control.budget import Amounts
from docket.ledger.chain import Entry
from docket.ledger.events import (
    LedgerGap,
    ModelCacheHit,
    ModelError,
    ModelRequest,
    ModelResponse,
)
from docket.ledger.usage import Item, Usage
from docket.policy.model import Policy
from docket.primitives.money import PICO, Usd


class Rebooking:
    """The fold; ``add`` every entry in order."""

    def __init__(self) -> None:
        self._usd = 0
        self._tokens = 0
        self._holds: dict[int, Amounts] = {}
        self.last_call = 0
        """The highest call number, whichever event of its call is there."""
        self._introduced = 0

    def add(self, entry: Entry) -> None:
        """Take the next entry of the ledger."""
        match entry.event:
            case ModelRequest(call=call, hold=hold):
                usd = 0 if hold.usd is None else hold.usd.pico
                self._holds[call] = Amounts(usd=usd, tokens=hold.tokens, calls=1)
                self._introduce(call)
            case ModelCacheHit(call=call):
                self._introduce(call)
            case ModelResponse(call=call, usage=usage) | ModelError(call=call, usage=usage):
                self.last_call = max(self.last_call, call)  # its request may be lost
                booked = _booked(usage, self._holds.pop(call, Amounts()))
                self._usd += booked.usd
                self._tokens += booked.tokens
            case LedgerGap(lost=lost):
                self._usd += Usd.parse(str(lost.get("cost_usd", "0"))).pico
                self._tokens += int(str(lost.get("tokens", 0)))
                types = lost.get("types")
                self._introduced += int(str(types.get(ModelRequest.type, 0))) if isinstance(types, dict) else 0
            case _:
                pass

    def _introduce(self, call: int) -> None:
        self.last_call = max(self.last_call, call)
        self._introduced += 1

    @property
    def open_calls(self) -> Mapping[int, Amounts]:
        """Calls whose end is not in the ledger, and what each held."""
        return self._holds

    @property
    def booked(self) -> Amounts:
        """Dollars, tokens and calls, calls without an end at their hold."""
        return Amounts(
            usd=self._usd + sum(hold.usd for hold in self._holds.values()),
            tokens=self._tokens + sum(hold.tokens for hold in self._holds.values()),
            calls=max(self.last_call, self._introduced),
        )


def spent_cap(policy: Policy, booked: Amounts, elapsed_us: int) -> str | None:
    """The sentence that names a cap of ``policy`` that ``booked`` and ``elapsed_us`` have reached, if one is."""
    caps = policy.caps
    usd = None if policy.budget.mode == "quota" or caps.max_usd is None else caps.max_usd.pico
    wall = None if caps.max_wall_seconds is None else caps.max_wall_seconds.us
    for name, limit, used in (
        ("max_usd", usd, booked.usd),
        ("max_tokens", caps.max_tokens, booked.tokens),
        ("max_model_calls", caps.max_model_calls, booked.calls),
        ("max_wall_seconds", wall, elapsed_us),
    ):
        if limit is not None and used >= limit:
            scale = {"max_usd": PICO, "max_wall_seconds": 1_000_000}.get(name, 1)
            return f"{name} is spent: {_decimal(used, scale)} of {_decimal(limit, scale)}"
    return None


def _booked(usage: Usage | None, hold: Amounts) -> Amounts:
    """What ``Booking`` booked for a call with this bill: the bill, and at least the estimate, or else the hold."""
    if usage is None:
        return Amounts()
    usd, tokens, unpriced = _sum(usage.items)
    if unpriced:
        usd = max(usd, hold.usd)
    if usage.source == "reported":
        return Amounts(usd=usd, tokens=tokens)
    if usage.estimate is not None:
        least_usd, least_tokens, _ = _sum(usage.estimate.items)
    else:
        least_usd, least_tokens = hold.usd, hold.tokens
    return Amounts(usd=max(usd, least_usd), tokens=max(tokens, least_tokens))


def _sum(items: tuple[Item, ...]) -> tuple[int, int, bool]:
    """Picodollars and tokens of ``items``, and whether one has no price."""
    usd = tokens = 0
    unpriced = False
    for item in items:
        if item.kind not in FEES:
            tokens += item.quantity
        if item.unit_usd is not None and item.per is not None:
            usd += item.unit_usd.times(item.quantity, item.per).pico
        else:
            unpriced = True
    return usd, tokens, unpriced


def _decimal(value: int, scale: int) -> str:
    return str(Usd(value * (PICO // scale)))
