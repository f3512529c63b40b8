"""What a run comes to: its outcome, what its receipt says beside the figures, and what the operator is told.

Invariant: nothing is said here that is not in the ledger or in how docket was started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from docket.host import host
from docket.primitives.canonical import JsonObject
from docket.receipt.limits import UNUSED, sentences
from docket.receipt.model import Run
from docket.receipt.totals import Totals
from docket.supervisor.announce import Announcer, figures, summary, write_summaries
from docket.supervisor.seal import Sealed
from docket.supervisor.session_events import Opening

UNSYNCED = (
    "The file system of the record cannot sync a directory: what is written is durable, but after a power cut a name "
    "may be missing."
)
READABLE = "A process with the agent's rights could read docket's memory: the run key may be known."
SAME_USER = (
    "A process of the same user can change the installed docket, and can undo a change of the record before docket "
    "looks at it again: neither is shown."
)
NOT_PREVENTED = "not prevented"


def enforcement(*, hidden: bool, adopts: bool, keys: str) -> JsonObject:
    """What was enforced by which mechanism: what a trial in this run has shown, or that it is not prevented.

    ``hidden``: a process like the agent could not open docket's memory. ``adopts``: the guardian was handed an orphan.
    ``keys`` says how far providers' keys are kept from the agent.
    """
    group = "" if host().subreaper else ": a process that leaves the agent's group may outlive the run"
    return {
        "memory": "hidden from other processes of the user" if hidden else NOT_PREVENTED,
        "process_tree": "guardian as child subreaper" if adopts else f"{NOT_PREVENTED}{group}",
        "model_calls": f"{NOT_PREVENTED}: what goes around the boundary is neither seen nor capped",
        "keys": keys,
        "record": f"{NOT_PREVENTED}: a change is looked for at every checkpoint and before the receipt",
    }


def limits(*, hidden: bool) -> Iterator[str]:
    """Sentences on what this run on this machine does not show."""
    yield from host().limits
    if not hidden:
        yield READABLE
    yield SAME_USER


def tell(opening: Opening, sealed: Sealed, totals: Totals, announcer: Announcer) -> None:
    """Say the root and what it was about, and write the summaries."""
    run, position = sealed.run, sealed.position
    evidence = position.evidence
    sums = totals.to_json(whole=evidence.whole)
    announcer.root(opening.docket, position.root)
    if sealed.problem is not None:
        announcer.problem(sealed.problem)
    if sealed.place is None:
        announcer.problem("no other place took it either: the next line is the receipt")
        announcer.line(sealed.receipt)
    announcer.remark(f"{run.outcome}, {figures(sums)}; receipt: {sealed.place or 'above'}")
    if UNUSED in sentences(run, totals, operator=False):
        announcer.problem("no model call crossed the boundary: is the agent pointed at docket?")
    if not evidence.intact:
        announcer.problem("the record is not intact: another hand changed it; docket verify says what still holds")
    for problem in unrecorded(run, totals):
        announcer.problem(problem)
    label = cast("str | None", opening.identity.get("label"))
    text = summary(opening.docket, label, run.outcome, sums, position.root)
    for problem in write_summaries(text, opening.request.summary_file, opening.request.environ):
        announcer.problem(problem)


def unrecorded(run: Run, totals: Totals) -> Iterator[str]:
    """What of a run its ledger does not hold, in sentences for the operator."""
    evidence = run.evidence
    if evidence.unwritten_events:
        yield f"the record is not whole: {evidence.unwritten_events} events are not in the ledger"
    elif not evidence.whole:
        yield "the record is not known to be whole"
    if run.breach is not None and totals.activity.breach is None:
        yield f"{run.breach['cap']} was reached, and the ledger could not be told: it counts all the same"
