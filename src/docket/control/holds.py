"""What is reserved for a call before it is forwarded, by ``[caps] hold`` and ``[budget]``.

``worst`` is the most that a call can cost by its own limits; ``expected`` is that or, where smaller, what the run's own
settled calls of the model and size class came to. Under ``worst`` a call that nothing bounds is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from docket.control.budget import Amounts
from docket.control.decision import Refused
from docket.policy.model import Policy
from docket.pricing.cost import tier_name
from docket.pricing.estimate import (
    MAX_CLASSES,
    PRIOR_BYTES_PER_TOKEN,
    PRIOR_OUTPUT,
    Bounds,
    Calibration,
    cost,
    possible_rates,
)
from docket.pricing.table import STANDARD, PriceTable, Rates
from docket.providers.call import Call, EndpointClass


@dataclass(frozen=True, slots=True)
class Held:
    """A reservation; ``priced`` is false where no dollar figure can be given."""

    amounts: Amounts
    priced: bool


class Holds:
    """Computes holds for one run."""

    def __init__(self, policy: Policy, table: PriceTable, calibration: Calibration) -> None:
        self._quota = policy.budget.mode == "quota"
        self._unpriced = policy.budget.unpriced
        self._usd_cap = policy.caps.max_usd is not None and not self._quota
        self._token_cap = policy.caps.max_tokens is not None
        self._worst = policy.caps.hold == "worst"
        self._table = table
        self._calibration = calibration
        self._answers: OrderedDict[str, int] = OrderedDict()
        self._tiers: set[tuple[str, str]] = set()

    def served(self, provider: str, tier: str) -> None:
        """Keep that ``provider`` served this tier: a request that names none may get it again."""
        if tier != STANDARD and len(self._tiers) < MAX_CLASSES:
            self._tiers.add((provider, tier.partition(">")[0]))

    def remember(self, answer_id: str, tokens: int) -> None:
        """Keep the settled total of an answer that a later stateful request may build on."""
        self._answers[answer_id] = tokens
        if len(self._answers) > MAX_CLASSES:
            self._answers.popitem(last=False)

    def of(self, call: Call) -> Held | Refused:
        """What ``call`` holds, or why it cannot be held."""
        if call.endpoint.kind is not EndpointClass.METERED:
            return Held(Amounts(calls=1), priced=False)
        rates = [] if self._quota else self._rates(call)
        if self._usd_cap and not rates and self._unpriced != "count-only":
            return Refused(
                code="unpriced",
                message=f"model {call.model} of {call.provider} has no known price, so the cap max_usd cannot hold it;"
                " give one with --prices, or set [budget] unpriced",
            )
        worst = self._bounds(call)
        if self._worst and (self._usd_cap or self._token_cap):
            return self._unbounded(call, worst) or self._held(call, worst or Bounds(0, 0), rates, worst=True)
        return self._expected(call, worst, rates)

    def _expected(self, call: Call, worst: Bounds | None, rates: list[Rates]) -> Held:
        """The smaller of the worst case and the calibrated figure, or the prior while too few calls were seen."""
        output = PRIOR_OUTPUT if worst is None else min(PRIOR_OUTPUT, worst.output)
        prior = self._held(
            call,
            Bounds(-(-call.body_bytes // PRIOR_BYTES_PER_TOKEN) + self._before(call), output),
            rates[:1],
            worst=False,
        ).amounts
        usd, tokens, known = self._calibration.expected(call.provider, call.model, call.body_bytes)
        if not known:
            usd, tokens = max(usd, prior.usd), max(tokens, prior.tokens)
        if worst is not None and self._is_bounded(call):
            most = self._held(call, worst, rates, worst=True).amounts
            usd, tokens = min(usd, most.usd), min(tokens, most.tokens)
        return Held(Amounts(usd=usd if rates else 0, tokens=tokens, calls=1), priced=bool(rates))

    def _held(self, call: Call, bounds: Bounds, rates: list[Rates], *, worst: bool) -> Held:
        usd = max((cost(bounds, each, worst=worst) for each in rates), default=0)
        return Held(Amounts(usd=usd, tokens=bounds.tokens, calls=1), priced=bool(rates))

    def _rates(self, call: Call) -> list[Rates]:
        """The rates at which the call may be served, the likeliest first; empty without a price."""
        found = self._table.resolve(call.provider, call.model)
        if found is None:
            dearest = self._table.dearest(call.provider) if self._unpriced == "dearest" else {}
            return [dearest] if dearest else []
        named = call.tier or STANDARD
        tiers = {STANDARD, tier_name(named)} if named != "auto" else {STANDARD, "priority", "flex", "fast"}
        tiers |= {tier for provider, tier in self._tiers if provider == call.provider and call.tier is None}
        return possible_rates(self._table.tiers(found.prices), tiers, call.body_bytes)

    def _bounds(self, call: Call) -> Bounds | None:
        """At most so many tokens by the call's own limits or its model's; None where nothing bounds the output."""
        limit = call.max_output
        if limit is None:
            found = self._table.resolve(call.provider, call.model)
            limit = found.prices.max_output if found else None
        return None if limit is None else Bounds(call.body_bytes + self._before(call), limit * call.choices)

    def _before(self, call: Call) -> int:
        """Tokens of the answer that the request continues, all of which are its input."""
        return self._answers.get(call.previous, 0) if call.previous else 0

    def _is_bounded(self, call: Call) -> bool:
        return not call.open_input and (call.previous is None or call.previous in self._answers)

    def _unbounded(self, call: Call, worst: Bounds | None) -> Refused | None:
        if worst is None:
            return Refused(
                code="unbounded_output",
                message='the request sets no output limit and its model has none on record, which hold = "worst" needs;'
                " set one in the request",
            )
        if not self._is_bounded(call):
            return Refused(
                code="unbounded_input",
                message='the request builds on input that it does not hold, which nothing bounds under hold = "worst"',
            )
        return None
