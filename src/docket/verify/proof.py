"""One event handed over by itself: ``docket-proof/1``, a proof under a signed checkpoint (spec section 9)."""

from __future__ import annotations

from docket.verify import notes, receipt_shape, sessions, shapes
from docket.verify.canonical import Object, read, seal
from docket.verify.context import Case, Skip
from docket.verify.lines import MAX_LINE
from docket.verify.report import Violation
from docket.verify.shapes import members
from docket.verify.walk import Session

FORMAT = "docket-proof/1"
MAX_BYTES = 4 * MAX_LINE
"""Bytes of a proof with its LF (spec P-1): two events, two proofs and a note fit into this."""

_proof = members(
    {
        "format": shapes.one_of(FORMAT),
        "docket": shapes.docket,
        "checkpoint": shapes.text,
        "event": receipt_shape.proven,
        "start": receipt_shape.proven,
    },
    exact=True,
)


def form(case: Case) -> str:
    data = case.documents.proof
    if data is None:
        raise Skip("no proof document")
    if data[-1:] != b"\n":
        raise Violation("proof: does not end in LF")
    sealed = seal(read(data[:-1]), case.withheld)
    _proof(sealed, "proof", case.unknown)
    case.proof = sealed
    return f"{len(data)} bytes"


def event(case: Case) -> str:
    proof = _need(case)
    sessions.check_event(proof["start"]["event"], "session.start", "proof.start")
    sessions.check_event(proof["event"]["event"], None, "proof.event")
    data = proof["start"]["event"]["data"]
    if data["docket"] != proof["docket"]:
        raise Violation("proof.start.event.data.docket is not proof.docket")
    case.starts.append(Session(seq=proof["start"]["event"]["seq"], hash=proof["start"]["event"]["hash"], data=data))
    return f"event {proof['event']['event']['seq']}"


def inclusion(case: Case) -> str:
    proof = _need(case)
    note = _note(proof)
    tree = {"size": note.size, "root": note.root.hex()}
    for name in ("start", "event"):
        sessions.check_proof(proof[name], tree, f"proof.{name}", "the checkpoint's")
    return f"in the tree of {note.size} events"


def checkpoint(case: Case) -> str:
    proof = _need(case)
    note = _note(proof)
    if note.origin != f"docket/{proof['docket']}":
        raise Violation("proof.checkpoint: of another docket")
    if not note.signed_by(bytes.fromhex(case.starts[0].data["run_key"])):
        raise Violation("proof.checkpoint: not signed by the run key of proof.start")
    return "signed by the run key"


def _need(case: Case) -> Object:
    if not case.proof:
        raise Skip("no proof document")
    return case.proof


def _note(proof: Object) -> notes.Note:
    try:
        return notes.parse(proof["checkpoint"].encode())
    except Violation as violation:
        raise Violation(f"proof.checkpoint: {violation.detail}") from None
