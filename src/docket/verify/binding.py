"""Ledger and receipt bound to each other: size, root, head, what follows, and calls left open."""

from __future__ import annotations

from docket.verify.context import Case, Skip
from docket.verify.report import Tail, Violation


def size(case: Case) -> str:
    ledger, walk = case.need_receipt()["ledger"], case.need_walk()
    if walk.size != ledger["size"]:
        missing = f"{walk.size} to {ledger['size'] - 1} missing at the end" if walk.size else "every event is missing"
        raise Violation(f"the ledger has {walk.size} of {ledger['size']} events: {missing}")
    return f"{walk.size} events"


def root(case: Case) -> str:
    ledger, walk = case.need_receipt()["ledger"], case.need_walk()
    if walk.tree.root().hex() != ledger["root"]:
        raise Violation("receipt.ledger.root is not the root of the ledger")
    return str(ledger["root"])


def head(case: Case) -> str:
    ledger, walk = case.need_receipt()["ledger"], case.need_walk()
    if walk.head != ledger["head"]:
        raise Violation("receipt.ledger.head is not the hash of the last event")
    return walk.head


def tail(case: Case) -> str:
    receipt, walk = case.need_receipt(), case.need_walk()
    if case.tail is Tail.NOTHING:
        return "nothing follows"
    if case.tail is Tail.CONTINUED:
        case.remarks.append("continued: a later session follows in the ledger, beyond this receipt")
        return "a later session follows"
    if "end" in receipt:
        what = "an unterminated line" if case.tail is Tail.FRAGMENT else "lines"
        raise Violation(f"{what} after event {walk.size - 1}, which the receipt says is the last")
    case.remarks.append("beyond the receipt: the ledger goes on after what this receipt binds")
    return "what follows is beyond the receipt"


def open_calls(case: Case) -> str:
    walk = case.need_walk()
    lost = dict(walk.figures.lost_types)
    evidence = None
    if case.receipt is not None:
        evidence = case.sealed["ops"]["evidence"]
    elif walk.last_type == "session.end":
        evidence = walk.last_data["ops"]["evidence"]
    for kind, number in (evidence["gaps"] if evidence else {}).items():
        lost[kind] = lost.get(kind, 0) + number
    if walk.calls.whole:
        return f"{walk.calls.next - 1} calls, each with its end"
    if may_be_open(case):
        return f"{len(walk.calls.open)} calls without an end, as a run that was cut off leaves them"
    excess = walk.calls.excess(lost)
    if excess:
        raise Violation(excess)
    return "calls lack events only where their loss is disclosed"


def may_be_open(case: Case) -> bool:
    """Whether the run is unfinished or recovered, so that calls may lack events without a disclosure."""
    if case.receipt is not None:
        return bool(case.sealed["kind"] == "recovered")
    return case.walk is None or bool(case.fragment) or case.walk.last_type != "session.end"


def ledger(check: str, case: Case) -> str:
    """The finding of one of the checks that the walk makes event by event."""
    walk, failure = case.need_walk(), case.ledger_failure
    if failure is None:
        return f"{walk.size} events"
    if failure.check == check:
        raise failure
    raise Skip(f"not reached: stopped at event {walk.size}")


def checkpoint(check: str, case: Case) -> str:
    """The finding of one of the checks of the checkpoints file that are made during the walk."""
    case.need_walk()
    if case.notes is None:
        raise Skip("no checkpoints: the ledger was given alone")
    failure = case.notes.failure
    if failure is None:
        if not case.notes.count:
            raise Skip("no whole checkpoint")
        return f"{case.notes.count} checkpoints"
    if failure.check == check:
        raise failure
    raise Skip("not reached: stopped at a bad checkpoint")


def last_checkpoint(case: Case) -> str:
    case.need_walk()
    receipt, notes = case.need_receipt(), case.notes
    if receipt["kind"] == "from-memory":
        raise Skip("made where the file could not be written")
    if notes is None:
        raise Skip("no checkpoints: the ledger was given alone")
    quoted = receipt["ledger"]["checkpoint"].encode()
    if quoted and notes.last is None:
        raise Violation("the file holds no checkpoint, the receipt quotes one")
    if (notes.last.text if notes.last else b"") != quoted:
        raise Violation("the last checkpoint of the file is not the one that the receipt quotes")
    if "end" in receipt and case.tail is not Tail.CONTINUED and (notes.beyond or notes.torn):
        raise Violation("the file goes on after the checkpoint that the receipt quotes")
    return "the file ends with the checkpoint that the receipt quotes"
