"""The end of a ledger: cut, torn, extended, with and without what would show it."""

from __future__ import annotations

from conformance.catalog import vector
from conformance.scene import edit_receipt, ledger_of, opened, put, short
from docket.receipt.model import Evidence
from kit.recordings import Files, key


def cut(files: Files, lines: int, extra: bytes = b"") -> Files:
    kept = files["ledger.jsonl"].splitlines(keepends=True)[:lines]
    return {**files, "ledger.jsonl": b"".join(kept) + extra}


def last_line(files: Files) -> bytes:
    return files["ledger.jsonl"].splitlines(keepends=True)[-1]


@vector(
    "tail",
    "one-event-cut",
    "failed",
    "checkpoints.size",
    rules="T-5 B-1",
    comment="The end is missing; a later checkpoint shows it first.",
)
def _() -> Files:
    return cut(short().files(), 3)


@vector(
    "tail", "all-events-cut", "failed", "checkpoints.size", rules="T-5 B-1", comment="An empty ledger under a receipt."
)
def _() -> Files:
    return cut(short().files(), 0)


@vector(
    "tail",
    "one-event-cut-with-its-checkpoint",
    "failed",
    "checkpoints.last",
    rules="B-3",
    comment="The end and the last checkpoint are missing.",
)
def _() -> Files:
    files = cut(short().files(), 3)
    return {**files, "checkpoints": b"".join(files["checkpoints"].splitlines(keepends=True)[:5])}


@vector(
    "tail",
    "events-cut-from-a-recovered-run",
    "failed",
    "binding.size",
    rules="B-1",
    comment="A recovered receipt binds more events than there are; its checkpoint is still covered.",
)
def _() -> Files:
    run = opened(2)
    run.outcome, run.exit = "lost", {}
    return cut(run.files(kind="recovered"), 4)


@vector("tail", "empty-ledger", "unreadable", rules="P-1", comment="A ledger of no bytes is not fine.")
def _() -> Files:
    return {"ledger.jsonl": b""}


@vector("tail", "first-line-torn", "unreadable", rules="P-1 L-1", comment="No whole line yet.")
def _() -> Files:
    return cut(ledger_of(short()), 0, ledger_of(short())["ledger.jsonl"][:100])


@vector("tail", "no-receipt", "unsealed", rules="P-7", comment="Whole, with its checkpoints, but no receipt.")
def _() -> Files:
    return short().ledger_files()


@vector(
    "tail",
    "ledger-file-alone",
    "unsealed",
    rules="P-1 P-7",
    comment="The ledger given as a file, whatever stands beside it.",
    path="ledger.jsonl",
)
def _() -> Files:
    return short().files()


@vector("tail", "no-receipt-no-end", "unfinished", rules="P-7", comment="The run goes on, or died.")
def _() -> Files:
    return opened().ledger_files()


@vector("tail", "torn-in-the-last-line", "unfinished", rules="L-1 P-7", comment="A torn last line is ignored.")
def _() -> Files:
    files = short().ledger_files()
    return cut({"ledger.jsonl": files["ledger.jsonl"]}, 3, last_line(files)[:-1])


@vector(
    "tail",
    "torn-after-the-end",
    "unfinished",
    rules="L-1 P-7",
    comment="A whole session.end, then a fragment: not unsealed.",
)
def _() -> Files:
    files = ledger_of(short())
    return cut(files, 4, b'{"by":')


@vector(
    "tail",
    "torn-with-nul",
    "unfinished",
    rules="L-1 P-7",
    comment="A fragment of NUL bytes, as a torn sector leaves it.",
)
def _() -> Files:
    return cut(ledger_of(short()), 3, b"\x00" * 512)


@vector(
    "tail",
    "garbage-line-at-the-end",
    "failed",
    "ledger.form",
    rules="L-1 C-1",
    comment="Garbage that ends in LF is no tear.",
)
def _() -> Files:
    return cut(ledger_of(short()), 3, b"garbage\n")


@vector(
    "tail",
    "cut-before-a-checkpoint-without-receipt",
    "failed",
    "checkpoints.size",
    rules="T-5",
    comment="No receipt, but a checkpoint over more events than there are.",
)
def _() -> Files:
    return cut(short().ledger_files(), 2)


@vector(
    "tail",
    "event-after-the-end",
    "failed",
    "binding.tail",
    rules="B-2",
    comment="A note after what the receipt says is the last event.",
)
def _() -> Files:
    run = short()
    files = run.files()
    run.add("note", {})
    return {**files, "ledger.jsonl": run.ledger_files()["ledger.jsonl"]}


@vector(
    "tail",
    "fragment-after-the-end",
    "failed",
    "binding.tail",
    rules="B-2",
    comment="A torn line after the end under a receipt.",
)
def _() -> Files:
    files = short().files()
    return {**files, "ledger.jsonl": files["ledger.jsonl"] + b"{"}


@vector(
    "tail", "empty-line-after-the-end", "failed", "binding.tail", rules="B-2", comment="An empty line after the end."
)
def _() -> Files:
    files = short().files()
    return {**files, "ledger.jsonl": files["ledger.jsonl"] + b"\n"}


def continued(
    *, signed: bool = False, endorse: bool | None = None, by: str = "operator", noted: bool = False, **changes: object
) -> Files:
    run = short(signed=signed)
    files = run.files()
    if signed:
        run.operator = key(by)
    run.start(endorse=endorse, **changes)
    if noted:
        run.note()
    run.call()
    later = run.ledger_files()
    return {**later, "receipt.json": files["receipt.json"]}


@vector(
    "tail",
    "accept-continued",
    "verified",
    rules="B-2 B-3",
    comment="A later session follows the receipt's; its events and notes are not looked at.",
)
def _() -> Files:
    return continued(noted=True)


@vector(
    "tail",
    "accept-continued-and-torn",
    "verified",
    rules="B-2 B-3",
    comment="The later session ends in a torn line and a torn note.",
)
def _() -> Files:
    files = continued(noted=True)
    return {**files, "ledger.jsonl": files["ledger.jsonl"][:-30], "checkpoints": files["checkpoints"][:-30]}


@vector(
    "tail",
    "accept-continued-endorsed",
    "verified",
    rules="B-2 R-12",
    comment="An endorsed run is taken up with the same operator key.",
)
def _() -> Files:
    return continued(signed=True)


@vector(
    "tail",
    "accept-continued-first-endorsed-later",
    "verified",
    rules="B-2",
    comment="The later session is the first that an operator endorses.",
)
def _() -> Files:
    return continued(endorse=True)


@vector(
    "tail",
    "continued-without-the-operator",
    "failed",
    "binding.tail",
    rules="B-2 R-12",
    comment="A session appended to an endorsed run without the key.",
)
def _() -> Files:
    return continued(signed=True, endorse=False)


@vector(
    "tail",
    "continued-by-another-operator",
    "failed",
    "binding.tail",
    rules="B-2 R-12",
    comment="A session appended to an endorsed run with another key.",
)
def _() -> Files:
    return continued(signed=True, by="mallory")


@vector(
    "tail",
    "continued-with-a-wrong-number",
    "failed",
    "binding.tail",
    rules="B-2 L-10",
    comment="The start that follows says session 2.",
)
def _() -> Files:
    return continued(session=2)


@vector(
    "tail",
    "continued-with-a-wrong-root",
    "failed",
    "binding.tail",
    rules="B-2 L-10",
    comment="The start that follows continues another root.",
)
def _() -> Files:
    run = short()
    return continued(continues={"size": run.size, "head": run.head, "root": "0" * 64})


@vector(
    "tail",
    "continued-with-the-same-run-key",
    "failed",
    "binding.tail",
    rules="B-2 L-10",
    comment="The start that follows has the run key of the first.",
)
def _() -> Files:
    return continued(run_key=short().sessions[0].key.public.hex())


@vector(
    "tail",
    "continued-start-torn",
    "failed",
    "binding.tail",
    rules="B-2",
    comment="Only half of the next start is there.",
)
def _() -> Files:
    run = short()
    files = run.files()
    whole = run.size
    run.start()
    later = run.ledger_files()["ledger.jsonl"].splitlines(keepends=True)
    return {**files, "ledger.jsonl": b"".join(later[:whole]) + later[whole][:-1]}


@vector(
    "tail",
    "accept-beyond-a-receipt-without-end",
    "incomplete",
    rules="B-2 R-9",
    comment="After a failed sync the receipt binds the durable prefix; later bytes are beyond it.",
)
def _() -> Files:

    run = opened(1)
    run.evidence = Evidence(
        ledger_complete=False,
        unwritten_events=3,
        write_failures=1,
        first_failing_seq=run.size,
        gaps={"model.request": 1, "model.response": 1, "session.end": 1},
    )
    run.note()
    files = run.files()
    return {
        **files,
        "ledger.jsonl": files["ledger.jsonl"] + b'{"torn',
        "checkpoints": files["checkpoints"] + b"docket/",
    }


@vector(
    "tail",
    "no-end-and-ledger-complete",
    "failed",
    "ops.evidence",
    rules="R-9",
    comment="A complete receipt without an end that says nothing was lost.",
)
def _() -> Files:
    run = opened(1)
    run.note()
    return run.files()


@vector(
    "tail",
    "end-removed-from-a-receipt",
    "failed",
    "ops.evidence",
    rules="R-9 R-6",
    comment="The end is taken out of a complete receipt.",
)
def _() -> Files:
    return edit_receipt(short(), lambda receipt: receipt.pop("end"))


@vector(
    "tail",
    "size-one-less-in-the-receipt",
    "failed",
    "checkpoints.last",
    rules="B-1 B-3",
    comment="The receipt, signed so, binds one event less than its checkpoint.",
)
def _() -> Files:
    return edit_receipt(short(), put("ledger.size", 3), sign=True)


@vector(
    "tail",
    "continued-wrongly-with-a-note",
    "failed",
    "checkpoints.last",
    rules="B-3",
    comment="The session that follows is not right, so that its note follows what the receipt quotes.",
)
def _() -> Files:
    return continued(noted=True, session=2)
