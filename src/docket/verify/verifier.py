"""The procedure: every check in its fixed order, then the verdict (spec section 10).

Never raises because of a document: a bad one gives findings. The first failing check ends the procedure; what would
have come after it is a ``skip``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docket.verify import bill, binding, proof, receipt_shape, receipt_vs_ledger, sessions, signatures, walk
from docket.verify.canonical import read, seal
from docket.verify.checkpoints import CHECKS as CHECKPOINT_CHECKS
from docket.verify.checkpoints import Checkpoints
from docket.verify.context import Case, Documents, Pins, Skip
from docket.verify.lines import Lines
from docket.verify.report import Finding, Report, Status, Tail, Unreadable, Verdict, Violation, Voucher

Check = Callable[[Case], str]
"""Returns what was found; raises Violation (fail) or Skip."""

_FORMAT = b'"format":"docket-receipt/1"'
_PROOF = b'"format":"docket-proof/1"'


def _receipt_form(case: Case) -> str:
    data = case.documents.receipt
    if data is None:
        raise Skip("no receipt")
    if data[-1:] != b"\n":
        raise Violation("receipt: does not end in LF")
    document = read(data[:-1])
    sealed = seal(document, case.withheld)
    receipt_shape.check(sealed, case.unknown)
    case.receipt, case.sealed = document, sealed
    return f"{len(data)} bytes"


CHECKS: tuple[tuple[str, Check], ...] = (
    ("receipt.form", _receipt_form),
    *((check, partial(binding.ledger, check)) for check in walk.CHECKS),
    *((check, partial(binding.checkpoint, check)) for check in CHECKPOINT_CHECKS[:-1]),
    (CHECKPOINT_CHECKS[-1], binding.last_checkpoint),
    ("binding.size", binding.size),
    ("binding.root", binding.root),
    ("binding.head", binding.head),
    ("binding.tail", binding.tail),
    ("calls.open", binding.open_calls),
    ("starts.event", sessions.event),
    ("starts.proof", sessions.proof),
    ("starts.sessions", sessions.sessions),
    ("end.event", sessions.end_event),
    ("end.proof", sessions.end_proof),
    ("end.figures", sessions.end_figures),
    ("usage.rows", bill.rows),
    ("usage.root", bill.root),
    ("totals.rows", bill.totals_of_rows),
    ("totals.bindings", bill.bindings),
    ("policy.digest", bill.policy),
    ("caps.limits", bill.limits),
    ("prices.tables", bill.price_tables),
    ("prices.rows", bill.price_rows),
    ("ops.evidence", bill.evidence),
    ("against.starts", receipt_vs_ledger.starts),
    ("against.usage", receipt_vs_ledger.usage),
    ("against.totals", receipt_vs_ledger.totals),
    ("against.prices", bill.against_prices),
    ("against.latency", receipt_vs_ledger.latency),
    ("against.activity", receipt_vs_ledger.activity),
    ("checkpoint.form", signatures.checkpoint_form),
    ("checkpoint.binding", signatures.checkpoint_binding),
    ("checkpoint.signature", signatures.checkpoint_signature),
    ("checkpoint.lost", signatures.checkpoint_lost),
    ("proof.form", proof.form),
    ("proof.event", proof.event),
    ("proof.inclusion", proof.inclusion),
    ("proof.checkpoint", proof.checkpoint),
    ("endorsement", signatures.endorsement),
    ("signature.run", signatures.run_signature),
    ("signature.operator", signatures.operator_signature),
    ("pin.run_key", signatures.pinned_run_key),
    ("pin.root", signatures.pinned_root),
    ("pin.operator", signatures.pinned_operator),
)
"""Every check by its id, in the order in which the first failure names the cause (spec/checks.toml)."""


def verify(documents: Documents, pins: Pins | None = None) -> Report:
    """The report on ``documents``. Reads the ledger and the checkpoints once, in constant memory."""
    case = Case(documents, pins or Pins())
    report = Report(Verdict.FAILED)
    try:
        if documents.receipt is not None and _FORMAT not in documents.receipt:
            raise Unreadable('the receipt does not say "format":"docket-receipt/1"')
        if documents.proof is not None and _PROOF not in documents.proof:
            raise Unreadable('the document does not say "format":"docket-proof/1"')
        _check_bounds(documents)
        _run(case, report)
    except Unreadable as unread:
        return unreadable(str(unread))
    _describe(case, report)
    return report


def _check_bounds(documents: Documents) -> None:
    """Raise Unreadable where a receipt or proof is larger than a verifier takes (spec P-1)."""
    for name, data, most in (
        ("receipt", documents.receipt, receipt_shape.MAX_BYTES),
        ("proof", documents.proof, proof.MAX_BYTES),
    ):
        if data is None:
            continue
        if len(data) > most:
            raise Unreadable(f"the {name} is longer than {most} bytes")
        if sum(map(data.count, (b",", b"[", b"{"))) > receipt_shape.MAX_MARKS:
            raise Unreadable(f"the {name} holds more than {receipt_shape.MAX_MARKS} of the bytes , [ and {{")


def unreadable(reason: str) -> Report:
    """The report on what is none of these documents."""
    return Report(Verdict.UNREADABLE, [Finding(check, Status.SKIP, "unreadable") for check, _ in CHECKS], reason)


def _run(case: Case, report: Report) -> None:
    failed = ""
    for check, function in CHECKS:
        if failed:
            report.findings.append(Finding(check, Status.SKIP, f"not reached: {failed} failed"))
            continue
        if check == walk.CHECKS[0] and case.documents.ledger is not None:
            _walk(case)
        try:
            report.findings.append(Finding(check, Status.PASS, function(case)))
        except Skip as skip:
            report.findings.append(Finding(check, Status.SKIP, str(skip)))
        except Violation as violation:
            failed = check
            report.findings.append(Finding(check, Status.FAIL, violation.detail))
    if failed:
        report.reason = f"{failed}: {report.findings[[id_ for id_, _ in CHECKS].index(failed)].detail}"
    else:
        report.verdict, report.reason = _verdict(case)


def _walk(case: Case) -> None:
    """Read the ledger up to what the receipt binds, or to its end, and the checkpoints beside it."""
    documents, receipt = case.documents, case.receipt
    limit = receipt["ledger"]["size"] if receipt is not None else None
    walked = case.walk = walk.Walk()
    case.notes = notes = None
    if documents.checkpoints is not None:
        notes = case.notes = Checkpoints(documents.checkpoints, receipt["docket"] if receipt else None, limit)
    lines = Lines(documents.ledger or ())
    try:
        for line in lines:
            if walked.size == limit:
                case.tail = Tail.CONTINUED if _continues(case, line) else Tail.LINES
                break
            walked.take(line)
            if notes is not None and walked.size == notes.due:
                notes.reach(walked)
        else:
            case.fragment = lines.rest
            if lines.oversize and walked.size != limit:
                raise Violation(f"event {walked.size}: longer than the limit of a line", walk.CHECKS[0])
            if case.fragment and walked.size == limit:
                case.tail = Tail.FRAGMENT
    except Violation as violation:
        case.ledger_failure = violation
    if receipt is None and not walked.size and case.ledger_failure is None:
        raise Unreadable("the ledger holds no event")
    if notes is not None:
        notes.finish(walked.size)
    case.withheld |= {name: case.withheld.get(name, 0) + number for name, number in walked.withheld.items()}


def _continues(case: Case, line: bytes) -> bool:
    """Whether ``line``, the first beyond the receipt, takes up the run with a right start."""
    assert case.walk is not None
    start = case.walk.next_session(line)
    if start is None:
        return False
    claim, before = start.get("endorsement"), case.walk.sessions[-1].data.get("endorsement")
    if claim is None:
        return before is None
    return (before is None or before["key"] == claim["key"]) and signatures.is_endorsed(start)


def _verdict(case: Case) -> tuple[Verdict, str]:
    if case.proof:
        return Verdict.VERIFIED, "this event stands in the ledger that the run key signed"
    if case.receipt is None:
        return _ledger_verdict(case)
    disclosed = _disclosed(case)
    if case.sealed["kind"] == "recovered":
        if case.bare:
            return Verdict.INCOMPLETE, "a recovered receipt without its ledger"
        return Verdict.RECOVERED, "made after the supervisor died; consistent, and vouched for by nobody"
    if disclosed:
        return Verdict.INCOMPLETE, "consistent, and the receipt discloses: " + "; ".join(disclosed)
    return Verdict.VERIFIED, "complete, sealed and consistent"


def _ledger_verdict(case: Case) -> tuple[Verdict, str]:
    walked = case.need_walk()
    for number, session in enumerate(walked.sessions[:-1]):
        if case.notes is not None:
            sessions.note_unclosed(case, session, number)
    if case.fragment:
        case.remarks.append(f"torn: {len(case.fragment)} bytes after the last whole line are ignored")
    if walked.last_type == "session.end" and not case.fragment:
        return Verdict.UNSEALED, "a consistent ledger without a receipt: completeness cannot be shown"
    return Verdict.UNFINISHED, "a consistent ledger without its end: the run goes on, or died"


def _disclosed(case: Case) -> list[str]:
    receipt = case.sealed
    evidence = receipt["ops"]["evidence"]
    said = []
    if evidence["unwritten_events"] or evidence["gaps"] or receipt["totals"]["lost"]:
        said.append("events were lost")
    elif evidence["ledger_complete"] is not True:
        said.append("the record is not known to be complete")
    if not evidence["intact"]:
        said.append("the files were changed by another hand while the run went on")
    if receipt["kind"] != "recovered" and "end" not in receipt:
        said.append("the run has no end in the ledger")
    if receipt["session"]["survivors"]:
        said.append("processes of the agent did not end")
    if len(case.starts) > 1 and not all("endorsement" in session.data for session in case.starts):
        said.append("sessions not linked: nothing that vouched for an earlier session vouches for the next")
    return said + case.unclosed


def _describe(case: Case, report: Report) -> None:
    """What the reader should know beside the verdict."""
    report.withheld, report.unknown, report.tail = case.withheld, list(case.unknown), case.tail
    if case.walk is not None:
        report.unknown += sorted(case.walk.unknown_types)
    if report.verdict is Verdict.FAILED:
        return
    report.remarks = [*case.remarks, *case.unclosed]
    receipt, walked, pins = case.receipt, case.walk, case.pins
    report.vouchers = case.vouchers
    report.root_pinned = pins.root is not None
    if receipt is not None:
        if case.sealed["session"]["drill"]:
            report.remarks.append("a drill: faults were injected on purpose")
        report.facts = {
            "docket": receipt["docket"],
            "size": receipt["ledger"]["size"],
            "root": receipt["ledger"]["root"],
            "run_key": case.starts[-1].data["run_key"],
            "cost_is": receipt["totals"]["cost_is"],
            "cost_usd": receipt["totals"].get("cost_usd"),
            "outcome": receipt["session"]["outcome"],
            "sessions": receipt["session"]["sessions"],
        }
    elif case.proof:
        key = case.starts[0].data["run_key"]
        report.vouchers.append(Voucher("run", key, pins.run_key == key))
        report.facts = {
            "docket": case.proof["docket"],
            "size": case.proof["event"]["proof"]["size"],
            "root": signatures.root_of(case),
            "run_key": key,
        }
    elif walked is not None:
        last = walked.sessions[-1]
        report.facts = {
            "docket": last.data["docket"],
            "size": walked.size,
            "root": walked.tree.root().hex(),
            "run_key": last.data["run_key"],
        }
        if last.note is not None and last.note.size == walked.size:
            key = last.data["run_key"]
            report.vouchers.append(Voucher("run", key, pins.run_key == key))
