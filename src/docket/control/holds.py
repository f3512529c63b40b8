"""What is reserved for a call before it is forwarded, by ``[caps] hold`` and ``[budget]``.

``worst`` is the most that a call can cost by its own limits; ``expected`` is that or, where smaller, what the run's own
settled calls of the model and size class came to. Under ``worst`` a call that nothing bounds is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set

from docket.control.budget import Amounts
from docket.control.decision import Refused
from docket.ledger.events import Note
from docket.policy.model import Policy
from docket.pricing.cost import tier_name
from docket.pricing.estimate import (
    MAX_REMEMBERED,
    PRIOR_BYTES_PER_TOKEN,
    PRIOR_OUTPUT,
    Bounds,
    Calibration,
    Tariff,
)
from docket.pricing.table import STANDARD, PriceTable
from docket.primitives.frozen import value
from docket.providers.call import DEPLOYMENT, Call, EndpointClass
from docket.providers.request import public_name

MAX_TIERS = 16
"""Tiers of a provider that are remembered: an answer may name anything."""
_AUTO = frozenset({"priority", "flex", "fast"})
"""Tiers that the provider may choose where a request leaves it the choice."""
_NO_TIERS: Set[str] = frozenset()


@value
class Held:
    """A reservation; ``priced`` is false where no dollar figure can be given."""

    amounts: Amounts
    priced: bool


class Holds:
    """Computes holds for one run."""

    def __init__(self, policy: Policy, table: PriceTable, calibration: Calibration) -> None:
        self._quota = policy.budget.mode == "quota"
        self._unpriced = policy.budget.unpriced
        self._usd_cap = policy.caps_usd
        self._token_cap = policy.caps_tokens
        self._worst = policy.caps.hold == "worst"
        self._table = table
        self._calibration = calibration
        self._answers: OrderedDict[str, int] = OrderedDict()
        self._tiers: dict[str, set[str]] = {}
        self._said: set[tuple[str, str]] = set()
        self._offered: dict[tuple[str, str], tuple[Tariff, ...]] = {}

    def remarks(self, call: Call) -> tuple[Note, ...]:
        """What is said once of a model not listed by its name: the rule that found a price, or that none did."""
        key = (call.provider, call.model)
        if key in self._said or self._quota or call.endpoint.kind is not EndpointClass.METERED:
            return ()
        if len(self._said) < MAX_REMEMBERED:
            self._said.add(key)
        found = self._table.resolve(*key)
        if found is not None and found.rule == "exact":
            return ()
        if found is not None:
            text = f"{call.model} is priced as {found.prices.model} (rule: {found.rule})"
        elif self._unpriced == "dearest" and self._offered.get(key):
            text = f"{call.model} has no known price: the cap takes the dearest one of {call.provider}"
        else:
            text = f"{call.model} has no known price: it is only counted"
        return (Note(by="boundary", private={"text": text}),)

    def served(self, provider: str, tier: str) -> None:
        """Keep that ``provider`` served this tier: a request that names none may get it again."""
        if tier != STANDARD:
            seen = self._tiers.setdefault(provider, set())
            if len(seen) < MAX_TIERS:
                seen.add(tier.partition(">")[0])

    def remember(self, answer_id: str, tokens: int) -> None:
        """Keep the settled total of an answer that a later stateful request may build on."""
        self._answers[answer_id] = tokens
        if len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)

    def of(self, call: Call) -> Held | Refused:
        """What ``call`` holds, or why it cannot be held."""
        if call.endpoint.kind is not EndpointClass.METERED:
            return Held(Amounts(calls=1), priced=False)
        tariffs = () if self._quota else self._tariffs(call)
        if self._usd_cap and self._unpriced != "count-only" and (missing := self._without_price(call)) is not None:
            hidden = missing.startswith(DEPLOYMENT)
            way_out = f"state its model in [upstreams.{call.upstream}.models]" if hidden else "give one with --prices"
            return Refused(
                code="unpriced",
                message=f"model {missing} of {call.provider} has no known price, so the cap max_usd cannot hold it;"
                f" {way_out}, or set [budget] unpriced",
            )
        worst = self._bounds(call)
        if self._worst and (self._usd_cap or self._token_cap):
            bounds = worst or Bounds(0, 0)
            tokens = bounds.tokens * len(call.models)
            held = Held(Amounts(self._most(call, bounds, tariffs), tokens, 1), bool(tariffs))
            return self._unbounded(call, worst) or held
        return self._expected(call, worst, tariffs)

    def _expected(self, call: Call, worst: Bounds | None, tariffs: tuple[Tariff, ...]) -> Held:
        """The smaller of the worst case and the calibrated figure, or the prior while too few calls were seen."""
        usd, tokens, known = self._calibration.expected(call.provider, call.model, call.body_bytes)
        if not known:
            output = PRIOR_OUTPUT if worst is None else min(PRIOR_OUTPUT, worst.output)
            into = -(-call.body_bytes // PRIOR_BYTES_PER_TOKEN)
            prior = Bounds(into + self._before(call.previous) if call.previous else into, output)
            if call.others or call.private_model is not None:
                usd = max(usd, self._dearest(call, prior))
            elif tariffs:
                usd = max(usd, tariffs[0].expected(prior))
            tokens = max(tokens, prior.input + prior.output)
        if worst is not None and not call.open_input and (call.previous is None or self._is_bounded(call)):
            usd = min(usd, self._most(call, worst, tariffs) if call.others else _most(worst, tariffs))
            tokens = min(tokens, (worst.input + worst.output) * (1 + len(call.others)))
        return Held(Amounts(usd if tariffs else 0, tokens, 1), bool(tariffs))

    def _without_price(self, call: Call) -> str | None:
        """The first model that the call may use and that has no price."""
        for model in call.models:
            if not self._tariffs(call, model):
                return public_name(model)
        return None

    def _most(self, call: Call, bounds: Bounds, tariffs: tuple[Tariff, ...]) -> int:
        """The most that ``bounds`` can cost, in picodollars: every model that may serve may bill its attempt."""
        most = _most(bounds, tariffs)
        for other in call.others:
            most += _most(bounds, self._tariffs(call, other))
        return most

    def _tariffs(self, call: Call, model: str | None = None) -> tuple[Tariff, ...]:
        """Those at which the call may be served by ``model``, the standard one first; empty without a price."""
        key = (call.provider, model or call.model)
        offered = self._offered.get(key)
        if offered is None:
            if len(self._offered) >= MAX_REMEMBERED:
                self._offered.clear()
            offered = self._offered[key] = self._read(*key)
        if len(offered) == 1 and offered[0].always:
            return offered
        seen = self._tiers.get(call.provider, _NO_TIERS) if call.tier is None else _NO_TIERS
        named = tier_name(call.tier)
        dearer = _AUTO if call.tier == "auto" else seen
        return tuple(
            tariff
            for tariff in offered
            if tariff.always
            or (call.body_bytes >= tariff.size and (tariff.tier in (STANDARD, named) or tariff.tier in dearer))
        )

    def _read(self, provider: str, model: str) -> tuple[Tariff, ...]:
        found = self._table.resolve(provider, model)
        if found is not None:
            names = sorted(found.tiers, key=lambda name: name != STANDARD)
            return tuple(Tariff.of(name, found.tiers[name]) for name in names)
        rates = self._table.dearest(provider) if self._unpriced == "dearest" else {}
        return (Tariff.of(STANDARD, rates),) if rates else ()

    def _dearest(self, call: Call, bounds: Bounds) -> int:
        """What ``bounds`` cost in picodollars at the standard tariff of the dearest model that the call may use."""
        if self._quota:
            return 0
        standard = [self._tariffs(call, model)[:1] for model in call.models]
        return max((tariff.expected(bounds) for each in standard for tariff in each), default=0)

    def _bounds(self, call: Call) -> Bounds | None:
        """At most so many tokens by the call's own limits or its models'; None where nothing bounds the output."""
        limit = call.max_output
        if limit is None:
            found = [self._table.resolve(call.provider, model) for model in call.models]  # each is remembered there
            limits = [each.prices.max_output for each in found if each is not None and each.prices.max_output]
            limit = max(limits) if len(limits) == len(found) else None
        if limit is None:
            return None
        before = self._before(call.previous) if call.previous else 0
        return Bounds(call.body_bytes + before, limit * call.choices)

    def _before(self, answer_id: str) -> int:
        """Tokens of the answer that a request continues, all of which are its input."""
        return self._answers.get(answer_id, 0)

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


def _most(bounds: Bounds, tariffs: tuple[Tariff, ...]) -> int:
    """The most that ``bounds`` can cost, in picodollars."""
    most = 0
    for tariff in tariffs:
        most = max(most, tariff.worst(bounds))
    return most
