"""All rules over the entries of one ledger, one after the other, in memory that does not grow with the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from docket.findings import bills, contexts, loops, permissions
from docket.findings.model import SEVERITIES, Finding
from docket.findings.rule import Rule, call_of
from docket.findings.thresholds import DEFAULTS
from docket.ledger.chain import Entry
from docket.ledger.events import ModelError, ModelRequest, ModelResponse
from docket.primitives.frozen import value

RULES: tuple[type[Rule], ...] = (
    loops.RunawayLoop,
    loops.RetryStorm,
    loops.ToolFailureLoop,
    contexts.CacheMiss,
    contexts.FatContext,
    bills.PremiumForSmallCalls,
    bills.Concentration,
    bills.TruncatedAnswers,
    bills.IdleSpend,
    permissions.PolicyDenials,
    permissions.WriteScope,
)
"""In the order in which they are told, within a severity."""
NAMES = tuple(rule.name for rule in RULES)
MAX_OPEN = 65_536
"""Calls under way that are kept, as many as the evidence format allows (L-12)."""
MAX_OF_A_RULE = 10
"""Findings of one rule that are told: those of the most events; the last one says how many more there are."""


@value
class Need:
    """What a rule would need to say anything, or to say more."""

    rule: str
    text: str


class Findings:
    """The fold. ``add`` every entry in order, from the first of the ledger."""

    def __init__(self, thresholds: Mapping[str, int] = DEFAULTS, names: tuple[str, ...] = NAMES) -> None:
        """``names``: the rules to run, all of them unless some are named."""
        self._rules = [rule(thresholds) for rule in RULES if rule.name in names]
        self._of_calls = [rule.call for rule in self._rules if type(rule).call is not Rule.call]
        self._of_types: dict[str, list[Callable[[Entry], None]]] = {}
        for rule in self._rules:
            for kind in rule.types:
                self._of_types.setdefault(kind, []).append(rule.event)
        self._open: dict[int, tuple[ModelRequest, tuple[int, int]]] = {}
        self._unpaired = 0

    def add(self, entry: Entry) -> None:
        """Take the next entry. Raises FormatError where a known event is not as this version writes it."""
        kind = entry.type
        if kind == ModelRequest.type:
            request = entry.event
            if isinstance(request, ModelRequest) and len(self._open) < MAX_OPEN:
                self._open[request.call] = (request, (entry.seq, entry.elapsed_us))
        elif kind in (ModelResponse.type, ModelError.type):
            end = entry.event
            if isinstance(end, ModelResponse | ModelError):
                self._end(end, entry)
        else:
            for take in self._of_types.get(kind, ()):
                take(entry)

    def found(self) -> list[Finding]:
        """Return what was found so far, the gravest first."""
        told: list[Finding] = []
        for rule in self._rules:
            all_of_it = sorted(rule.findings(), key=lambda finding: -finding.count)
            kept, further = all_of_it[:MAX_OF_A_RULE], all_of_it[MAX_OF_A_RULE:]
            if further:
                more = f" {len(further):,} more findings of this rule rest on no more events."
                kept[-1] = replace(kept[-1], summary=kept[-1].summary + more)
            told += kept
        return sorted(told, key=lambda finding: -SEVERITIES.index(finding.severity))

    def needs(self) -> list[Need]:
        """Return what the ledger lacks, rule by rule."""
        lacking = [(rule.name, rule.needs()) for rule in self._rules]
        needs = [Need(name, text) for name, text in lacking if text is not None]
        if self._unpaired:
            needs.append(Need("*", f"{self._unpaired:,} calls have an end without a request; no rule looked at them."))
        return needs

    def _end(self, end: ModelResponse | ModelError, entry: Entry) -> None:
        opened = self._open.pop(end.call, None)
        if opened is None:
            self._unpaired += 1
            return
        call = call_of(*opened, end, entry)
        for take in self._of_calls:
            take(call)
