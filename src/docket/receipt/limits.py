"""The sentences of a receipt on what it does not show, in general and for this run: one table.

Invariant: a sentence stands in a receipt exactly where its condition holds; never none, and nothing estimated, lost or
unmetered stays unsaid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docket.ledger.events import FsSnapshot, ModelCacheHit
from docket.receipt.model import Run
from docket.receipt.totals import Totals

UNUSED = "No model call crossed the boundary: whatever the agent spent went around it."


@dataclass(frozen=True, slots=True)
class Facts:
    """What the sentences follow from."""

    run: Run
    totals: Totals
    operator: bool
    """Whether an operator's key signs the receipt."""

    @property
    def unpriced(self) -> int:
        """Calls with a usage figure and no price for all of it."""
        return self.totals.rows.size - self.totals.costed - self.totals.by_source["none"]

    @property
    def quota(self) -> bool:
        """Whether the policy counts calls and prices none."""
        budget = self.run.policy.get("budget")
        return isinstance(budget, dict) and budget.get("mode") == "quota"


@dataclass(frozen=True, slots=True)
class Limit:
    """One sentence and when it is said."""

    name: str
    holds: Callable[[Facts], object]
    says: Callable[[Facts], str]


def _always(_: Facts) -> bool:
    return True


def _limit(name: str, holds: Callable[[Facts], object], sentence: str) -> Limit:
    return Limit(name, holds, lambda facts: sentence)


LIMITS: tuple[Limit, ...] = (
    _limit(
        "traffic around the boundary",
        _always,
        "Only what crossed the boundary is recorded: traffic that went around it and work outside the supervised "
        "process tree are not shown.",
    ),
    _limit(
        "the provider's count",
        _always,
        "Quantities are what the provider reported; that it counted truthfully is not shown.",
    ),
    _limit(
        "whose key",
        _always,
        "The run key was held by the docket that made this receipt: without a pinned key or an operator's signature, "
        "verified means consistent, not authentic.",
    ),
    _limit("times", _always, "Times are labels from this machine's clock; order rests on the chain alone."),
    _limit(
        "memory",
        _always,
        "That no process of the same user read docket's memory or the operator's key file is not shown.",
    ),
    _limit("later sessions", _always, "That no later session followed this receipt is not shown."),
    _limit(
        "rules",
        _always,
        "Findings are what docket's rules saw in these events; that there is nothing else to find is not shown.",
    ),
    _limit(
        "no operator",
        lambda f: not f.operator,
        "No operator key signed this receipt: whoever replaces the whole run directory is not found out.",
    ),
    _limit(
        "recovered",
        lambda f: f.run.kind == "recovered",
        "This receipt was made after the supervisor died and is vouched for by nobody: whoever could end docket could "
        "replace everything after any checkpoint by events of their choice; only the prefix up to the last checkpoint "
        "is attested.",
    ),
    Limit("lost when recovered", lambda f: f.run.kind == "recovered", lambda f: _behind_checkpoint(f)),
    _limit(
        "from memory",
        lambda f: f.run.kind == "from-memory",
        "This receipt was made where the run's own directory could not be written: it binds the events that were "
        "durable, and its checkpoint may stand in no file.",
    ),
    _limit("a drill", lambda f: f.totals.activity.drill, "Faults were injected on purpose: this was a drill."),
    _limit(
        "no call",
        lambda f: (
            f.run.kind == "complete"
            and f.run.evidence.whole
            and not (f.totals.requests or f.totals.ends or f.totals.lost or f.totals.denied or f.totals.unmetered)
            and not f.totals.activity.of(ModelCacheHit)
        ),
        UNUSED,
    ),
    Limit(
        "no usage figure",
        lambda f: f.totals.by_source["none"],
        lambda f: f"{_calls(f.totals.by_source['none'])} ended without a usage figure: their cost is unknown, not 0.",
    ),
    Limit(
        "early ends",
        lambda f: f.totals.by_source["partial"],
        lambda f: f"{_calls(f.totals.by_source['partial'])} ended early: their figures are lower bounds.",
    ),
    _limit(
        "quota",
        lambda f: f.quota,
        "Calls were counted and not priced, as the policy asks (budget mode quota): what they cost is not shown.",
    ),
    Limit(
        "no price",
        lambda f: f.unpriced > 0 and not f.quota,
        lambda f: f"{_calls(f.unpriced)} used a model without a price: their cost is not part of the total.",
    ),
    Limit(
        "estimates",
        lambda f: f.totals.estimated,
        lambda f: f"{_calls(f.totals.estimated)} carry an estimate, which moves caps and never enters the cost.",
    ),
    Limit(
        "unmetered",
        lambda f: f.totals.unmetered,
        lambda f: f"{f.totals.unmetered} forwarded requests are billed by the provider but not metered here.",
    ),
    _limit(
        "too many rows",
        lambda f: not f.totals.rows.embedded,
        "The rows of usage are too many to embed: recomputing the cost needs the ledger.",
    ),
    Limit(
        "lost events",
        lambda f: f.totals.lost or f.run.evidence.unwritten_events or f.run.evidence.gaps,
        lambda f: (
            f"{max(f.totals.lost, f.run.evidence.unwritten_events)} events could not be written and are lost: "
            "figures are lower bounds (see ops.evidence)."
        ),
    ),
    _limit(
        "not whole",
        lambda f: (
            f.run.kind == "complete"
            and f.run.evidence.ledger_complete is False
            and not (f.run.evidence.unwritten_events or f.run.evidence.gaps)
        ),
        "The record could not be written to its end: what the ledger holds is not the whole run (see ops.evidence).",
    ),
    _limit(
        "unknown losses",
        lambda f: f.run.kind == "complete" and f.run.evidence.ledger_complete == "unknown",
        "Whether the record is complete is not known: an earlier session ended without a checkpoint over its last "
        "event, or the files could not be read back.",
    ),
    _limit(
        "another hand",
        lambda f: not f.run.evidence.intact,
        "The run's files were changed by another hand while docket wrote them (see ops.evidence).",
    ),
    Limit(
        "a breach unrecorded",
        lambda f: f.run.breach is not None and f.totals.activity.breach is None,
        lambda f: (
            f"That {(f.run.breach or {}).get('cap')} was reached could not be recorded: the ledger has no event of it."
        ),
    ),
    Limit(
        "open calls",
        lambda f: f.totals.open_calls,
        lambda f: f"{_calls(f.totals.open_calls)} have no end in the ledger.",
    ),
    _limit(
        "survivors",
        lambda f: f.totals.activity.survivors,
        "Processes of the agent did not end within 10 s of SIGKILL and may have gone on: see survivors.",
    ),
    _limit(
        "no snapshot",
        lambda f: not f.totals.activity.of(FsSnapshot),
        "No snapshot of files was taken: changes to files are not shown.",
    ),
)
"""In the order of a receipt; what the supervisor knows of its own run follows (``Run.limits``)."""


def sentences(run: Run, totals: Totals, *, operator: bool) -> list[str]:
    """Return the ``limits`` of the receipt; ``operator`` says whether an operator signs it."""
    facts = Facts(run, totals, operator)
    return [limit.says(facts) for limit in LIMITS if limit.holds(facts)] + list(run.limits)


def _behind_checkpoint(facts: Facts) -> str:
    lost = facts.run.evidence.unwritten_events
    known = f"{lost} events are known to be lost" if lost else "no event was lost"
    if not facts.run.attested:
        return "There is no checkpoint: what is missing from the ledger is not known."
    return f"Up to event {facts.run.attested - 1}, {known}; what is missing behind it is not known."


def _calls(number: int) -> str:
    return f"{number} call" if number == 1 else f"{number} calls"
