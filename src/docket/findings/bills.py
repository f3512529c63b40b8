"""Rules on what calls cost for what they gave: dear models, a few dear calls, cut answers, answers for nobody."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import ClassVar

from docket.findings.model import Basis, Cost, Finding, Impact, Severity, named
from docket.findings.rule import MAX_GROUPS, PER_MILLION, Call, Rule, hung_up
from docket.ledger.events import ModelError, ModelResponse
from docket.primitives.money import PICO, Usd

DEAREST = 3
"""Calls that concentration looks at."""
LENGTHS = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"})
"""How providers say that the output limit ended an answer; others end early for other reasons, such as safety."""
MAX_PRICES = 16
"""Kinds of tokens whose prices are kept of a model."""


class _Small:
    __slots__ = ("basis", "cost", "prices", "tokens")

    def __init__(self) -> None:
        self.basis = Basis()
        self.cost = Cost()
        self.tokens: dict[str, int] = {}
        self.prices: dict[str, Usd] = {}


class PremiumForSmallCalls(Rule):
    """Short questions with short answers went to a dear model."""

    name: ClassVar[str] = "premium-for-small-calls"
    severity: ClassVar[Severity] = "info"
    remedy: ClassVar[str] = (
        "Send short routine calls (titles, classification, routing) to a small model, and see whether the result "
        "holds; docket prices MODEL shows what others cost."
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._models: dict[tuple[str, str], _Small] = {}

    def call(self, call: Call) -> None:
        if not call.metered or call.end.tier != "standard":
            return
        small = self._models.get(call.key)
        if small is None:
            if len(self._models) >= MAX_GROUPS:
                return
            small = self._models[call.key] = _Small()
        for item in call.items:
            if item.unit_usd is None or item.per != PER_MILLION or item.model is not None:
                continue
            if len(small.prices) < MAX_PRICES or item.kind in small.prices:
                small.prices[item.kind] = item.unit_usd
        if not self._is_small(call, small):
            return
        small.basis.add(call.end_seq)
        small.cost.add(call.end)
        for item in call.items:
            small.tokens[item.kind] = small.tokens.get(item.kind, 0) + item.quantity

    def findings(self) -> Iterator[Finding]:
        for (provider, model), small in self._models.items():
            if small.basis.count < self.limits["calls"]:
                continue
            impact, cheaper = small.cost.bound(), self._cheaper(provider, small)
            compared = "The figure is all that they cost."
            if cheaper is not None and impact.usd is not None:
                name, pico = cheaper
                impact = Impact("at-most", Usd(impact.usd.pico - pico))
                compared = (
                    f"The figure is what they cost more than as many tokens of {named(name)}, which this run used too."
                )
            yield self.found(
                "heuristic",
                f"{small.basis.count:,} short calls went to {named(model)}, at {small.prices['output']} USD for a "
                f"million tokens of output. {compared}",
                small.basis.seqs,
                small.basis.count,
                impact,
            )

    def _is_small(self, call: Call, small: _Small) -> bool:
        price = small.prices.get("output")
        return (
            price is not None
            and price.pico >= self.limits["usd"] * PICO
            and isinstance(call.end, ModelResponse)
            and call.context <= self.limits["context"]
            and 0 < call.output <= self.limits["output"]
        )

    def _cheaper(self, provider: str, small: _Small) -> tuple[str, int] | None:
        """The cheapest other model that this run used, and what the same tokens cost there, in picodollars."""
        offers = []
        for (other, name), of in self._models.items():
            if other == provider and of is not small and small.tokens.keys() <= of.prices.keys():
                pico = sum(of.prices[kind].pico_of(many, PER_MILLION) for kind, many in small.tokens.items())
                if pico < small.cost.pico:
                    offers.append((pico, name))
        if not offers:
            return None
        pico, name = min(offers)
        return name, pico


class Concentration(Rule):
    """A few calls cost as much as all the others together."""

    name: ClassVar[str] = "concentration"
    severity: ClassVar[Severity] = "info"
    remedy: ClassVar[str] = (
        "Look at these calls first (docket show RUN SEQ): what they sent, which model, which tier. A limit on output "
        '(max_tokens) and caps.hold = "worst" bound a single call.'
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._spent = Cost()
        self._bills = 0
        self._top: list[tuple[int, int]] = []

    def call(self, call: Call) -> None:
        usage = call.end.usage
        if usage is None:
            return
        self._spent.add(call.end)
        if usage.cost_usd is None:
            return
        self._bills += 1
        heapq.heappush(self._top, (usage.cost_usd.pico, -call.end_seq))
        if len(self._top) > DEAREST:
            heapq.heappop(self._top)

    def findings(self) -> Iterator[Finding]:
        top = sum(pico for pico, _ in self._top)
        enough = self._bills >= self.limits["calls"] and self._spent.pico * 100 >= self.limits["cents"] * PICO
        if not enough or top * 100 < self._spent.pico * self.limits["percent"]:
            return
        impact = Cost(top, self._spent.below, self._spent.above).impact()
        whole = impact.relation == "exact"
        unknown = "" if whole else " Some bills are not known whole: the share is of what is known."
        yield self.found(
            "deterministic" if whole else "heuristic",
            f"The {DEAREST} dearest of {self._bills:,} calls cost {top * 100 // self._spent.pico} % of all.{unknown}",
            [-seq for _, seq in self._top],
            len(self._top),
            impact,
        )


class _Cut:
    __slots__ = ("answers", "basis", "cost")

    def __init__(self) -> None:
        self.answers = 0
        self.basis = Basis()
        self.cost = Cost()


class TruncatedAnswers(Rule):
    """Answers ended at the limit of output: paid for, and not whole."""

    name: ClassVar[str] = "truncated-answers"
    severity: ClassVar[Severity] = "warning"
    remedy: ClassVar[str] = (
        "Raise the limit of output (max_tokens and the like), ask for less at once, or let the agent ask for the rest "
        "instead of starting anew."
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._models: dict[tuple[str, str], _Cut] = {}

    def call(self, call: Call) -> None:
        end = call.end
        if not isinstance(end, ModelResponse):
            return
        if call.key not in self._models and len(self._models) >= MAX_GROUPS:
            return
        cut = self._models.setdefault(call.key, _Cut())
        cut.answers += 1
        meant = call.request.max_output is not None and call.request.max_output <= self.limits["limit"]
        if end.reason == "incomplete" and not meant and end.finish is not None and end.finish.lower() in LENGTHS:
            cut.basis.add(call.end_seq)
            cut.cost.add(end)

    def findings(self) -> Iterator[Finding]:
        for (_, model), cut in self._models.items():
            number = cut.basis.count
            if number >= self.limits["calls"] and number * 100 >= cut.answers * self.limits["percent"]:
                yield self.found(
                    "deterministic",
                    f"{number:,} of {cut.answers:,} answers of {named(model)} were cut off at the limit of output. The "
                    "figure is all that these calls cost.",
                    cut.basis.seqs,
                    number,
                    cut.cost.bound(),
                )


class _Polls:
    __slots__ = ("basis", "cost", "last_us", "row", "row_cost")

    def __init__(self) -> None:
        self.last_us: int | None = None
        self.row = Basis()
        self.row_cost = Cost()
        self.basis = Basis()
        self.cost = Cost()


class IdleSpend(Rule):
    """Money for nothing: answers that the agent hung up on, and calls after a pause that got next to nothing."""

    name: ClassVar[str] = "idle-spend"
    severity: ClassVar[Severity] = "warning"
    remedy: ClassVar[str] = (
        "Give the client a longer timeout than the answers take, since the provider bills what was hung up on; wait "
        "for things outside with a timer or a hook, not with a model."
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._gone = Basis()
        self._gone_cost = Cost()
        self._models: dict[tuple[str, str], _Polls] = {}

    def call(self, call: Call) -> None:
        if isinstance(call.end, ModelError):
            if hung_up(call):
                self._gone.add(call.end_seq)
                self._gone_cost.add(call.end)
            return
        if call.key not in self._models and len(self._models) >= MAX_GROUPS:
            return
        polls = self._models.setdefault(call.key, _Polls())
        last, polls.last_us = polls.last_us, call.ended_us
        paused = last is not None and call.begun_us - last >= self.limits["pause"] * 1_000_000
        if not (paused and call.metered and 0 < call.output <= self.limits["output"]):
            self._settle(polls)
            return
        polls.row.add(call.end_seq)
        polls.row_cost.add(call.end)

    def findings(self) -> Iterator[Finding]:
        if self._gone.count >= self.limits["gone"]:
            yield self.found(
                "deterministic",
                f"The agent hung up on {self._gone.count:,} answers before they ended; what they cost until then is "
                "billed all the same.",
                self._gone.seqs,
                self._gone.count,
                self._gone_cost.impact(),
            )
        for (_, model), polls in self._models.items():
            basis, cost = Basis(), Cost()
            basis.add_all(polls.basis)
            cost.add_all(polls.cost)
            if polls.row.count >= self.limits["polls"]:
                basis.add_all(polls.row)
                cost.add_all(polls.row_cost)
            if basis.count:
                yield self.found(
                    "heuristic",
                    f"{basis.count:,} calls to {named(model)} came after a pause of {self.limits['pause']} s or more "
                    f"and got at most {self.limits['output']} tokens each: it looks like waiting for something.",
                    basis.seqs,
                    basis.count,
                    cost.bound(),
                )

    def _settle(self, polls: _Polls) -> None:
        if not polls.row.count:
            return
        if polls.row.count >= self.limits["polls"]:
            polls.basis.add_all(polls.row)
            polls.cost.add_all(polls.row_cost)
        polls.row, polls.row_cost = Basis(), Cost()
