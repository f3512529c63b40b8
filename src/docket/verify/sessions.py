"""The starts and the end that a receipt carries: hashes, inclusion proofs, and the order of sessions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from docket.verify import events, notes
from docket.verify.canonical import Object, encode
from docket.verify.context import Case, Skip
from docket.verify.report import Violation
from docket.verify.tree import root_from_proof
from docket.verify.walk import Session


def event(case: Case) -> str:
    receipt = case.need_receipt()
    for path, proven, kind in _proven(receipt):
        check_event(proven["event"], kind, path)
    for number, start in enumerate(receipt["starts"]):
        if start["event"]["data"]["docket"] != receipt["docket"]:
            raise Violation(f"receipt.starts[{number}].event.data.docket is not receipt.docket")
    return f"{len(receipt['starts'])} starts"


def proof(case: Case) -> str:
    receipt = case.need_receipt()
    for path, proven, _ in _proven(receipt):
        check_proof(proven, receipt["ledger"], path)
    return "every start is in the ledger's tree"


def sessions(case: Case) -> str:
    receipt = case.need_receipt()
    starts = receipt["starts"]
    if receipt["session"]["sessions"] != len(starts):
        raise Violation("receipt.session.sessions is not the number of receipt.starts")
    keys: set[str] = set()
    for number, start in enumerate(starts):
        path, entry = f"receipt.starts[{number}]", start["event"]
        following = starts[number + 1]["event"] if number + 1 < len(starts) else None
        _check_start(entry, number, path)
        if entry["data"]["run_key"] in keys:
            raise Violation(f"{path}: the run key of an earlier session")
        keys.add(entry["data"]["run_key"])
        session = Session(seq=entry["seq"], hash=entry["hash"], data=entry["data"])
        case.starts.append(session)
        if following is None:
            if "checkpoint" in start or "end" in start:
                raise Violation(f"{path}: checkpoint and end of the last session stand at the top")
        else:
            _check_earlier(start, session, following, receipt, path)
            note_unclosed(case, session, number)
    return f"{len(starts)} in order"


def end_event(case: Case) -> str:
    receipt = case.need_receipt()
    end = _end(receipt)
    check_event(end["event"], "session.end", "receipt.end")
    if end["event"]["seq"] != receipt["ledger"]["size"] - 1:
        raise Violation("receipt.end.event.seq is not the last of receipt.ledger.size")
    if end["event"]["hash"] != receipt["ledger"]["head"]:
        raise Violation("receipt.end.event.hash is not receipt.ledger.head")
    return f"event {end['event']['seq']}"


def end_proof(case: Case) -> str:
    receipt = case.need_receipt()
    check_proof(_end(receipt), receipt["ledger"], "receipt.end")
    return "the end is the last leaf of the ledger's tree"


def end_figures(case: Case) -> str:
    receipt = case.need_receipt()
    data = _end(receipt)["event"]["data"]
    pairs = {
        "session.outcome": (data["outcome"], receipt["session"]["outcome"]),
        "session.exit": (data["exit"], receipt["session"]["exit"]),
        "totals": (data["totals"], receipt["totals"]),
        "usage": (data["usage_tree"], {"size": receipt["usage"]["size"], "root": receipt["usage"]["root"]}),
        "ops": (data["ops"], receipt["ops"]),
    }
    for path, (said, found) in pairs.items():
        if encode(said) != encode(found):
            raise Violation(f"receipt.{path} is not what session.end says")
    return "the receipt says what session.end says"


def note_unclosed(case: Case, session: Session, number: int) -> None:
    """Remember an earlier session of which no key attests the whole."""
    if not session.closed:
        attested = session.note.size if session.note else session.seq
        case.unclosed.append(
            f"session {number} is not closed: events {attested} to {session.size - 1} are attested by no key of it"
        )


def _proven(receipt: Object) -> Iterator[tuple[str, Object, str]]:
    for number, start in enumerate(receipt["starts"]):
        yield f"receipt.starts[{number}]", start, "session.start"
        if "end" in start:
            yield f"receipt.starts[{number}].end", start["end"], "session.end"


def _end(receipt: Object) -> Object:
    end: Object | None = receipt.get("end")
    if end is None:
        raise Skip("the receipt has no end")
    return end


def check_event(entry: Object, kind: str | None, path: str) -> None:
    """Raise Violation where ``entry``, in its sealed form, is not a right event (of type ``kind``)."""
    try:
        events.check_envelope(entry)
        if kind is not None and entry["type"] != kind:
            raise Violation(f"not a {kind}")
        events.check_data(entry)
    except Violation as violation:
        raise Violation(f"{path}.event: {violation.detail}") from None
    opened = {name: member for name, member in entry.items() if name != "hash"}
    if hashlib.sha256(b"\x00" + encode(opened)).hexdigest() != entry["hash"]:
        raise Violation(f"{path}.event does not give its hash")


def check_proof(proven: Object, tree: Object, path: str, whose: str = "receipt.ledger") -> None:
    """Raise Violation where the event of ``proven`` is not shown to be in ``tree``, ``{size, root}``."""
    entry, proof_ = proven["event"], proven["proof"]
    if proof_["index"] != entry["seq"]:
        raise Violation(f"{path}.proof.index is not the event's seq")
    if proof_["size"] != tree["size"]:
        raise Violation(f"{path}.proof.size is not {whose} size")
    found = root_from_proof(
        bytes.fromhex(entry["hash"]),
        proof_["index"],
        proof_["size"],
        [bytes.fromhex(each) for each in proof_["hashes"]],
    )
    if found is None or found.hex() != tree["root"]:
        raise Violation(f"{path}.proof does not lead to {whose} root")


def _check_start(entry: Object, number: int, path: str) -> None:
    data: Any = entry["data"]
    if data["session"] != number:
        raise Violation(f"{path}: session {data['session']} where {number} belongs")
    continues = data.get("continues")
    if not number:
        if entry["seq"] or continues is not None:
            raise Violation(f"{path}: the first start is event 0 and continues nothing")
        return
    if continues is None:
        raise Violation(f"{path}: a later session without continues")
    if continues["size"] != entry["seq"] or continues["head"] != entry["prev"]:
        raise Violation(f"{path}: continues another size or head than its own place")


def _check_earlier(start: Object, session: Session, following: Object, receipt: Object, path: str) -> None:
    session.size = following["seq"]
    if session.size <= session.seq:
        raise Violation(f"{path}: the next start does not stand after it")
    if "end" in start:
        entry = start["end"]["event"]
        session.end_seq, session.end_hash = entry["seq"], entry["hash"]
        if not session.seq < entry["seq"] < session.size:
            raise Violation(f"{path}.end: not an event of this session")
        if entry["seq"] == session.size - 1 and entry["hash"] != following["prev"]:
            raise Violation(f"{path}.end: not the event before the next start")
    if "checkpoint" in start:
        try:
            note = notes.parse(start["checkpoint"].encode())
        except Violation as violation:
            raise Violation(f"{path}.checkpoint: {violation.detail}") from None
        if note.origin != f"docket/{receipt['docket']}" or not session.seq < note.size <= session.size:
            raise Violation(f"{path}.checkpoint: of another docket or session")
        if note.size == session.size and note.root.hex() != following["data"]["continues"]["root"]:
            raise Violation(f"{path}.checkpoint: another root than the next start continues")
        if not note.signed_by(bytes.fromhex(session.data["run_key"])):
            raise Violation(f"{path}.checkpoint: not signed by the run key of its session")
        session.note = note
