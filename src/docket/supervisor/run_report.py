"""What a run comes to: its outcome, what its receipt says beside the figures, and what the operator is told.

Invariant: nothing is said here that is not in the ledger or in how docket was started.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from docket.host import host
from docket.primitives.canonical import JsonObject
from docket.receipt.model import Run
from docket.receipt.totals import Totals
from docket.storage.record import Position
from docket.supervisor.announce import Announcer, figures, summary, write_summaries
from docket.supervisor.session_events import Opening

UNUSED = "No model call crossed the boundary: whatever the agent spent went around it."
READABLE = "docket's memory could be read by processes of the same user: the run key may be known."


def enforcement(*, hidden: bool) -> JsonObject:
    """What was enforced by which mechanism; ``hidden`` says whether docket's memory is."""
    return {
        "memory": "hidden from other processes of the user" if hidden else "readable by the same user",
        "process_tree": "guardian as child subreaper" if host().subreaper else "process group",
        "model_calls": "caps hold for calls that cross the boundary; other traffic is not prevented",
    }


def limits(totals: Totals, *, hidden: bool) -> Iterator[str]:
    """Sentences on what this run in particular does not show."""
    yield from host().limits
    if not totals.requests and not totals.denied:
        yield UNUSED
    if not hidden:
        yield READABLE


def tell(opening: Opening, run: Run, totals: Totals, position: Position, receipt: Path, announcer: Announcer) -> None:
    """Say the root and what it was about, and write the summaries."""
    evidence = position.evidence
    sums = totals.to_json(whole=evidence.whole)
    announcer.root(opening.docket, position.root)
    announcer.remark(f"{run.outcome}, {figures(sums)}; receipt: {receipt}")
    if UNUSED in run.limits:
        announcer.problem("no model call crossed the boundary: is the agent pointed at docket?")
    if not evidence.whole:
        announcer.problem(f"the record is not whole: {evidence.unwritten_events} events are not in the ledger")
    label = cast("str | None", opening.identity.get("label"))
    text = summary(opening.docket, label, run.outcome, sums, position.root)
    for problem in write_summaries(text, opening.request.summary_file, opening.request.environ):
        announcer.problem(problem)
