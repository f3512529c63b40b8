"""What a settled call is booked at, and its priced bill.

The bill is what the provider said; the booking moves caps and never books less than is known. A call whose end is
unknown books the larger of its partial figure and its hold.
"""

from __future__ import annotations

from dataclasses import replace

from docket.control.breaker import Ended
from docket.control.budget import Amounts
from docket.ledger.events import EndReason
from docket.ledger.usage import Counts, Estimate, Usage
from docket.policy.model import Policy
from docket.pricing.cost import input_tokens, price, rate_of, sum_of, tier_name, unpriced
from docket.pricing.estimate import Calibration, Part, estimate
from docket.pricing.table import PER_FEE, STANDARD, PriceTable, Rates
from docket.primitives.frozen import value
from docket.providers.call import Call, EndpointClass, Observation
from docket.providers.request import public_name

UNSENT: frozenset[EndReason] = frozenset({"connect"})
"""Reasons of an end before anything was sent: nothing can have been billed."""
FEES = frozenset({"web_search", "file_search", "maps_search", "request"})
"""Kinds that are no tokens."""
NOTHING = Counts(source="none")
UNKNOWN_TIER = "unknown"
"""Stands for a tier that nobody named: it has no prices."""


@value
class Booked:
    """A settled call."""

    usage: Usage | None
    model: str
    tier: str
    amounts: Amounts


class Booking:
    """Books the calls of one run."""

    def __init__(self, policy: Policy, table: PriceTable, calibration: Calibration) -> None:
        self._quota = policy.budget.mode == "quota"
        self._unpriced = policy.budget.unpriced
        self._table = table
        self._calibration = calibration

    def of(self, call: Call, ended: Ended, seen: Observation | None, hold: Amounts) -> Booked:
        """The bill of ``call`` and what it is booked at."""
        told = seen.model if seen else None
        model = public_name(call.served(told)) if told and told != call.model else call.model
        counts = seen.counts if seen else NOTHING
        tier = seen.tier if seen is not None and seen.tier is not None else _tier(call)
        if ended.reason in UNSENT or (counts.source == "none" and _refused_by_provider(ended)):
            return Booked(None, model, tier_name(tier), Amounts(calls=1))
        if self._quota:
            usage, name = unpriced(counts), tier_name(tier)
        else:
            bill = price(counts, self._table, call.provider, model, tier)
            usage, name = bill.usage, bill.tier
        if call.endpoint.kind is not EndpointClass.METERED:
            return Booked(usage, model, name, Amounts(calls=1))
        cost = usage.cost_usd
        amounts = Amounts(cost.pico if cost is not None else self._usd(call, usage, hold), tokens_of(counts), 1)
        if usage.source == "reported":
            self._learn(call, seen, counts, amounts)
        elif _whole(call, ended) and not counts.unread:  # what cannot be read may cost as much as was held
            usage = replace(usage, estimate=self._estimate(call, seen))
            amounts = _at_least(amounts, _value(usage.estimate))
        else:
            amounts = _at_least(amounts, hold)
        return Booked(usage, model, name, amounts)

    def _usd(self, call: Call, usage: Usage, hold: Amounts) -> int:
        """Picodollars of a bill without a cost; items without a price count at the dearest known one, or as held."""
        known = sum_of(usage.items).pico
        missing = [item for item in usage.items if item.unit_usd is None]
        if self._quota or not missing or usage.source == "none":
            return known
        if self._unpriced == "dearest":
            rates = self._table.dearest(call.provider)
            for item in missing:
                rate = rate_of(item.kind, rates)
                known += rate.unit_usd.pico * item.quantity // rate.per if rate else 0
            return known
        return max(known, hold.usd)

    def _learn(self, call: Call, seen: Observation | None, counts: Counts, amounts: Amounts) -> None:
        body, into = call.body_bytes, input_tokens(counts.items)
        parts: list[tuple[Part, int, int]] = [("request", body, into)]
        if seen is not None and seen.size:
            parts.append(("stream" if call.stream else "body", seen.size, amounts.tokens - into))
        self._calibration.learn(call.provider, call.model, amounts.usd, amounts.tokens, parts, body=body)

    def _estimate(self, call: Call, seen: Observation | None) -> Estimate:
        """A guess from bytes that never passes what the call's own limits allow."""
        size = seen.size if seen is not None else 0
        into, from_run = self._calibration.tokens_of(call.provider, call.model, "request", call.body_bytes)
        out, also = self._calibration.tokens_of(call.provider, call.model, "stream" if call.stream else "body", size)
        limit = call.max_output
        if limit is None:
            found = self._table.resolve(call.provider, call.model)
            limit = found.prices.max_output if found else None
        if limit is not None:
            out = min(out, limit * call.choices)
        if not call.stateful:
            into = min(into, call.body_bytes)
        return estimate(into, out, self._rates(call), calibrated=from_run and also)

    def _rates(self, call: Call) -> Rates | None:
        if self._quota:
            return None
        found = self._table.resolve(call.provider, call.model)
        if found is not None:
            return found.tiers.get(STANDARD)
        return self._table.dearest(call.provider) if self._unpriced == "dearest" else None


def _tier(call: Call) -> str | None:
    """The tier that served where the answer does not say: ``unknown`` where another than the standard was asked for."""
    return None if call.tier is None or tier_name(call.tier) == STANDARD else UNKNOWN_TIER


def tokens_of(counts: Counts) -> int:
    """All tokens of a bill, in and out."""
    tokens = 0
    for kind, quantity in counts.items:
        if kind not in FEES:
            tokens += quantity
    return tokens


def _value(guess: Estimate | None) -> Amounts:
    if guess is None:
        return Amounts()
    tokens = sum(item.quantity for item in guess.items if item.per != PER_FEE)
    return Amounts(usd=sum_of(guess.items).pico, tokens=tokens)


def _at_least(amounts: Amounts, other: Amounts) -> Amounts:
    return Amounts(*map(max, amounts, other))


def _refused_by_provider(ended: Ended) -> bool:
    """Whether the provider answered with an error status, for which nobody bills."""
    return ended.status is not None and not 200 <= ended.status < 300


def _whole(call: Call, ended: Ended) -> bool:
    """Whether all of the answer was seen; one that comes later may be said to end without having begun."""
    if ended.reason == "unterminated":
        return not call.background
    return ended.reason in ("complete", "incomplete")
