"""The sentences of a receipt on what it does not show, in general and for this run.

Invariant: never empty, and nothing estimated, lost or unmetered stays unsaid.
"""

from __future__ import annotations

from docket.receipt.model import Evidence, Run
from docket.receipt.totals import Totals

GENERAL = (
    "Only what crossed the boundary is recorded: traffic that went around it and work outside the supervised process "
    "tree are not shown.",
    "Quantities are what the provider reported; that it counted truthfully is not shown.",
    "The run key was held by the docket that made this receipt: without a pinned key or an operator's signature, "
    "verified means consistent, not authentic.",
    "Times are labels from this machine's clock; order rests on the chain alone.",
    "That no process of the same user read docket's memory or the operator's key file is not shown.",
    "That no later session followed this receipt is not shown.",
)
NO_RULES = "No rules ran over this run: findings is empty for that reason."
RECOVERED = (
    "This receipt was made after the supervisor died and is vouched for by nobody: whoever could end docket could "
    "replace everything after any checkpoint by events of their choice; only the prefix up to the last checkpoint is "
    "attested."
)
DRILL = "Faults were injected on purpose: this was a drill."


def sentences(run: Run, totals: Totals, *, operator: bool) -> list[str]:
    """The ``limits`` of the receipt; ``operator`` says whether an operator signs it."""
    said = [*GENERAL, NO_RULES]
    if not operator:
        said.append("No operator key signed this receipt: whoever replaces the whole run directory is not found out.")
    if run.kind == "recovered":
        said.append(RECOVERED)
    if totals.activity.drill:
        said.append(DRILL)
    said.extend(_of_usage(totals))
    said.extend(_of_evidence(run.evidence, totals))
    if totals.activity.survivors:
        said.append("Processes of the agent did not end within 10 s of SIGKILL and may have gone on: see survivors.")
    if not totals.activity.of("fs.snapshot"):
        said.append("No snapshot of files was taken: changes to files are not shown.")
    said.extend(run.limits)
    return said


def _of_usage(totals: Totals) -> list[str]:
    said = []
    if totals.by_source["none"]:
        said.append(f"{_calls(totals.by_source['none'])} ended without a usage figure: their cost is unknown, not 0.")
    if totals.by_source["partial"]:
        said.append(f"{_calls(totals.by_source['partial'])} ended early: their figures are lower bounds.")
    unpriced = totals.rows.size - totals.costed - totals.by_source["none"]
    if unpriced > 0:
        said.append(f"{_calls(unpriced)} used a model without a price: their cost is not part of the total.")
    if totals.estimated:
        said.append(f"{_calls(totals.estimated)} carry an estimate, which moves caps and never enters the cost.")
    if totals.unmetered:
        said.append(f"{totals.unmetered} forwarded requests are billed by the provider but not metered here.")
    if not totals.rows.embedded:
        said.append("The rows of usage are too many to embed: recomputing the cost needs the ledger.")
    return said


def _of_evidence(evidence: Evidence, totals: Totals) -> list[str]:
    said = []
    if totals.lost or not evidence.whole:
        said.append("Events could not be written and are lost: figures are lower bounds (see ops.evidence).")
    if not evidence.intact:
        said.append("The run's files were changed by another hand while docket wrote them (see ops.evidence).")
    if totals.open_calls:
        said.append(f"{_calls(totals.open_calls)} have no end in the ledger.")
    return said


def _calls(number: int) -> str:
    return f"{number} call" if number == 1 else f"{number} calls"
