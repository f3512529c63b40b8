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

READABLE = "docket's memory could be read by processes of the same user: the run key may be known."


def enforcement(*, hidden: bool) -> JsonObject:
    """What was enforced by which mechanism; ``hidden`` says whether docket's memory is."""
    return {
        "memory": "hidden from other processes of the user" if hidden else "readable by the same user",
        "process_tree": "guardian as child subreaper" if host().subreaper else "process group",
        "model_calls": "caps hold for calls that cross the boundary; other traffic is not prevented",
    }


def limits(*, hidden: bool) -> Iterator[str]:
    """Sentences on what this run on this machine does not show."""
    yield from host().limits
    if not hidden:
        yield READABLE


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
