"""Who vouches: the checkpoint in the receipt, endorsements, signatures, and what the caller pinned."""

from __future__ import annotations

from docket.primitives import signature
from docket.verify import notes
from docket.verify.canonical import Object, encode
from docket.verify.context import Case, Skip
from docket.verify.report import Violation, Voucher
from docket.verify.walk import Session


def checkpoint_form(case: Case) -> str:
    note = _quoted(case)
    return f"over {note.size} events"


def checkpoint_binding(case: Case) -> str:
    receipt, note = case.need_receipt(), _quoted(case)
    ledger = receipt["ledger"]
    if note.origin != f"docket/{receipt['docket']}":
        raise Violation("receipt.ledger.checkpoint: of another docket")
    if note.size > ledger["size"] or not note.size:
        raise Violation("receipt.ledger.checkpoint: over more events than receipt.ledger.size, or none")
    if "end" in receipt and note.size != ledger["size"]:
        raise Violation("receipt.ledger.checkpoint: not over exactly receipt.ledger.size events")
    if note.size == ledger["size"] and note.root.hex() != ledger["root"]:
        raise Violation("receipt.ledger.checkpoint: another root than receipt.ledger.root")
    return "this docket, this size, this root"


def checkpoint_lost(case: Case) -> str:
    receipt, note = case.need_receipt(), _quoted(case)
    said = receipt["ops"]["evidence"]["unwritten_events"]
    if said < note.lost or ("end" in receipt and said != note.lost):
        raise Violation(f"receipt.ops.evidence: {said} events lost, the checkpoint says {note.lost}")
    return f"{note.lost} events lost by then"


def checkpoint_signature(case: Case) -> str:
    note = _quoted(case)
    keys = [session.data["run_key"] for session in case.starts if session.seq < note.size]
    if not note.signed_by(bytes.fromhex(keys[-1])):
        raise Violation("receipt.ledger.checkpoint: not signed by the run key of its session")
    return "by the run key"


def endorsement(case: Case) -> str:
    sessions = sessions_of(case)
    endorser = ""
    for number, session in enumerate(sessions):
        claim = session.data.get("endorsement")
        if claim is None:
            if endorser:
                raise Violation(f"session {number} is not endorsed, though an earlier one is")
            continue
        if endorser and claim["key"] != endorser:
            raise Violation(f"session {number} is endorsed by another key than the session before")
        endorser = claim["key"]
        if not is_endorsed(session.data):
            raise Violation(f"the endorsement of session {number} does not hold")
    if len(sessions) > 1 and not all("endorsement" in session.data for session in sessions):
        case.remarks.append("sessions not linked: no operator key endorses every start")
    if not endorser:
        raise Skip("no start is endorsed")
    return f"by {endorser}"


def is_endorsed(data: Object) -> bool:
    """Whether the endorsement in the data of a start holds."""
    claim = data["endorsement"]
    names = ("docket", "policy", "prices", "run_key", "session")
    message = encode({name: data[name] for name in names} | {"continues": data.get("continues")})
    return signature.verify(
        bytes.fromhex(claim["key"]), b"docket-endorse/1\x00" + message, bytes.fromhex(claim["value"])
    )


def run_signature(case: Case) -> str:
    receipt = case.need_receipt()
    if receipt["kind"] == "recovered":
        raise Skip("a recovered receipt is signed by nobody")
    signed, key = receipt["signatures"][0], case.starts[-1].data["run_key"]
    if signed["key"] != key:
        raise Violation("receipt.signatures[0].key is not the run key of the last start")
    if not _holds(receipt, signed):
        raise Violation("receipt.signatures[0] does not hold: a member of the receipt was changed since it was signed")
    case.vouchers.append(Voucher("run", key, case.pins.run_key == key))
    return f"by {key}"


def operator_signature(case: Case) -> str:
    receipt = case.need_receipt()
    if receipt["kind"] == "recovered":
        raise Skip("a recovered receipt is signed by nobody")
    claim = case.starts[-1].data.get("endorsement")
    if (claim is not None) != (len(receipt["signatures"]) == 2):
        raise Violation("receipt.signatures: an operator signs exactly when the last start is endorsed")
    if claim is None:
        raise Skip("no operator signed")
    signed = receipt["signatures"][1]
    if signed["key"] != claim["key"]:
        raise Violation("receipt.signatures[1].key is not the key that endorses the last start")
    if not _holds(receipt, signed):
        raise Violation("receipt.signatures[1] does not hold: a member of the receipt was changed since it was signed")
    case.vouchers.append(Voucher("operator", signed["key"], case.pins.operator == signed["key"]))
    return f"by {signed['key']}"


def pinned_run_key(case: Case) -> str:
    if case.pins.run_key is None:
        raise Skip("no run key was pinned")
    if sessions_of(case)[-1].data["run_key"] != case.pins.run_key:
        raise Violation("the run key of the last start is not the pinned one")
    return "the pinned run key"


def pinned_root(case: Case) -> str:
    if case.pins.root is None:
        raise Skip("no root was pinned")
    found = root_of(case)
    if found != case.pins.root:
        raise Violation("the root of the ledger is not the pinned one")
    return "the pinned root"


def pinned_operator(case: Case) -> str:
    if case.pins.operator is None:
        raise Skip("no operator key was pinned")
    claim = sessions_of(case)[-1].data.get("endorsement")
    if claim is None or claim["key"] != case.pins.operator:
        raise Violation("the last start is not endorsed by the pinned operator key")
    return "the pinned operator key"


def sessions_of(case: Case) -> list[Session]:
    """The starts that the documents show: by receipt or proof, else by the ledger."""
    return case.starts if case.receipt is not None or case.proof else case.need_walk().sessions


def root_of(case: Case) -> str:
    """The root that the documents stand for, hex."""
    if case.receipt is not None:
        return str(case.sealed["ledger"]["root"])
    if case.proof:
        return notes.parse(case.proof["checkpoint"].encode()).root.hex()
    return case.need_walk().tree.root().hex()


def _quoted(case: Case) -> notes.Note:
    text = case.need_receipt()["ledger"]["checkpoint"]
    if not text:
        raise Skip("the receipt quotes no checkpoint")
    try:
        return notes.parse(text.encode())
    except Violation as violation:
        raise Violation(f"receipt.ledger.checkpoint: {violation.detail}") from None


def _holds(receipt: Object, signed: Object) -> bool:
    unsigned = {name: member for name, member in receipt.items() if name != "signatures"}
    message = b"\x00".join((b"docket-receipt/1", signed["role"].encode(), encode(unsigned)))
    return signature.verify(bytes.fromhex(signed["key"]), message, bytes.fromhex(signed["value"]))
