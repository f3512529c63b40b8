"""The chain: envelope, sequence, hashes, time, and edits of whole lines."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from conformance.catalog import vector
from conformance.scene import edit_event, ledger_of, opened, other, rechained, short
from docket.primitives.canonical import decode_object, encode
from docket.primitives.sealed import seal
from kit.recordings import GENESIS, Files, Recording


def lines_of(files: Files) -> list[bytes]:
    return files["ledger.jsonl"].splitlines(keepends=True)


def relined(files: Files, lines: list[bytes]) -> Files:
    return {**files, "ledger.jsonl": b"".join(lines)}


def exited() -> Files:
    """A ledger whose event 3 is one that anybody but the agent may assert."""
    run = opened()
    run.add("proc.exit", {"code": 0}, by="doctor")
    return ledger_of(run)


_OTHERS = {"by": "supervisor", "data": {"code": 1}, "ts": "2027-11-30T12:00:00.000000Z", "type": "note"}

for _member, _check in (
    ("by", "ledger.hash"), ("data", "ledger.hash"), ("elapsed_us", "ledger.hash"), ("hash", "ledger.hash"),
    ("prev", "ledger.prev"), ("seq", "ledger.seq"), ("ts", "ledger.hash"), ("type", "ledger.hash"),
):  # fmt: skip
    vector("chain", f"{_member}-changed", "failed", _check, rules="L-6", comment=f"{_member} of an event is another.")(
        lambda member=_member: edit_event(
            exited(),
            3,
            lambda event: event.update({member: _OTHERS[member] if member in _OTHERS else other(event[member])}),
        )
    )
    vector("chain", f"{_member}-missing", "failed", "ledger.form", rules="L-3", comment=f"An event without {_member}.")(
        lambda member=_member: edit_event(ledger_of(opened()), 1, lambda event: event.pop(member))
    )

for _phrase, _member, _value, _rules in (
    ("seq-as-string", "seq", "1", "L-3"), ("seq-negative", "seq", -1, "L-3"), ("seq-true", "seq", True, "L-3"),
    ("elapsed-negative", "elapsed_us", -1, "L-3"), ("elapsed-string", "elapsed_us", "1", "L-3"),
    ("type-empty", "type", "", "L-3"), ("type-of-129", "type", "t" * 129, "L-3"), ("type-number", "type", 1, "L-3"),
    ("data-list", "data", [], "L-3"), ("hash-upper-case", "hash", "A" * 64, "L-3"), ("prev-short", "prev", "0" * 63, "L-3"),
    ("by-unknown", "by", "auditor", "L-4"), ("ts-without-zone", "ts", "2026-11-30T12:00:00.000000", "L-5"),
    ("ts-with-offset", "ts", "2026-11-30T12:00:00.000000+00:00", "L-5"), ("ts-milliseconds", "ts", "2026-11-30T12:00:00.000Z", "L-5"),
    ("ts-month-13", "ts", "2026-13-30T12:00:00.000000Z", "L-5"), ("ts-second-60", "ts", "2026-11-30T12:00:60.000000Z", "L-5"),
    ("ts-other-digits", "ts", "２026-11-30T12:00:00.000000Z", "L-5"), ("ts-with-line-feed", "ts", "2026-11-30T12:00:00.000000Z\n", "L-5"),
):  # fmt: skip

    def _typed(member: str = _member, value: Any = _value) -> Files:
        changed = edit_event(ledger_of(opened()), 1, lambda event: event.update({member: value}))
        return changed if member in ("seq", "hash", "prev") else rechained(changed, 1)

    vector("chain", _phrase, "failed", "ledger.form", rules=_rules, comment=f"{_member} is not as an event has it.")(
        _typed
    )


@vector("chain", "genesis-zero", "failed", "ledger.prev", rules="L-6", comment="prev of event 0 is 64 zeros.")
def _() -> Files:
    return rechained(edit_event(ledger_of(opened()), 0, lambda event: event.update(prev="0" * 64)), 0)


@vector("chain", "line-cut-in-the-middle", "failed", "ledger.form", rules="C-1", comment="Half a line, with its LF.")
def _() -> Files:
    lines = lines_of(short().files())
    return relined(short().files(), [lines[0], lines[1][: len(lines[1]) // 2] + b"\n", *lines[2:]])


@vector("chain", "line-dropped", "failed", "ledger.seq", rules="L-6", comment="Event 1 is missing.")
def _() -> Files:
    lines = lines_of(short().files())
    return relined(short().files(), [lines[0], *lines[2:]])


@vector(
    "chain",
    "line-doubled",
    "failed",
    "ledger.seq",
    rules="L-6",
    comment="Event 1 stands twice, as two writers leave it.",
)
def _() -> Files:
    lines = lines_of(short().files())
    return relined(short().files(), [*lines[:2], *lines[1:]])


@vector("chain", "lines-swapped", "failed", "ledger.seq", rules="L-6", comment="Events 1 and 2 change places.")
def _() -> Files:
    lines = lines_of(short().files())
    return relined(short().files(), [lines[0], lines[2], lines[1], *lines[3:]])


@vector("chain", "beginning-dropped", "failed", "ledger.seq", rules="L-6 L-10", comment="The start is missing.")
def _() -> Files:
    return relined(short().files(), lines_of(short().files())[1:])


@vector(
    "chain",
    "first-line-dropped-rechained",
    "failed",
    "ledger.sessions",
    rules="L-10",
    comment="The start is missing and the rest is chained anew.",
)
def _() -> Files:
    lines = lines_of(ledger_of(short()))
    first = decode_object(lines[1][:-1])
    first["prev"] = GENESIS
    return rechained(relined({}, [encode(first) + b"\n", *lines[2:]]), 0)


@vector(
    "chain",
    "edited-and-rechained-under-a-receipt",
    "failed",
    "checkpoints.root",
    rules="T-5 B-1",
    comment="An answer's bill is edited, every hash after it made right again; checkpoints and receipt remain.",
)
def _() -> Files:
    def change(event: Any) -> None:
        event["data"]["duration_us"] += 1

    return rechained(edit_event(short().files(), 2, change), 2)


@vector(
    "chain",
    "edited-and-rechained-without-checkpoints",
    "unsealed",
    rules="P-7",
    comment="The same without checkpoints and receipt cannot be found out; that is what unsealed means.",
)
def _() -> Files:
    return rechained(edit_event(ledger_of(short()), 2, lambda event: event["data"].update(bytes=1)), 2)


@vector("chain", "time-goes-back", "failed", "ledger.time", rules="L-7", comment="elapsed_us decreases by one.")
def _() -> Files:
    run = opened(0)
    run.add("note", {})
    run.add("note", {}, step_us=-1)
    return ledger_of(run)


@vector("chain", "accept-time-stands-still", "unfinished", rules="L-7", comment="elapsed_us may stay the same.")
def _() -> Files:
    run = opened(0)
    run.add("note", {}, step_us=0)
    run.add("note", {}, step_us=0)
    return ledger_of(run)


@vector(
    "chain",
    "accept-clock-of-any-day",
    "unfinished",
    rules="L-5",
    comment="ts goes back by years, and to a 31st of February.",
)
def _() -> Files:
    run = opened(0)
    run.add("note", {}, ts="1999-02-31T23:59:59.999999Z")
    run.add("note", {}, ts="0000-01-01T00:00:00.000000Z")
    return ledger_of(run)


@vector(
    "chain",
    "accept-unknown-type-and-members",
    "verified",
    rules="L-8",
    comment="A newer docket's event, and unknown members in known ones.",
)
def _() -> Files:
    run = Recording()
    run.start(colour="blue")
    run.note()
    run.add("x-future.thing", {"anything": [1, {"b": None}]}, zone="envelope too", Zone=1)
    run.add("future thing with spaces and é", {})
    run.call(extra={"deep": True})
    run.end(mood="good")
    return run.files()


for _phrase3, _kind, _by, _data in (
    ("agent-asserts-a-call", "model.request", "agent", {"call": 1}),
    ("agent-asserts-unknown-type", "x-future", "agent", {}),
    ("agent-asserts-an-end", "session.end", "agent", {}),
    ("supervisor-asserts-a-denial", "model.denied", "supervisor", {"code": "max_usd", "count": 1}),
    (
        "doctor-asserts-an-answer",
        "model.response",
        "doctor",
        {"call": 1, "provider": "p", "model": "m", "tier": "t", "upstream": "u", "reason": "lost"},
    ),
    (
        "doctor-asserts-another-error",
        "model.error",
        "doctor",
        {"call": 1, "provider": "p", "model": "m", "tier": "t", "upstream": "u", "reason": "timeout"},
    ),
    ("supervisor-asserts-unknown-model-type", "model.future", "supervisor", {}),
):

    def _asserted(kind: str = _kind, by: str = _by, data: Any = _data) -> Files:
        run = opened(0)
        run.fold = False
        run.add(kind, data, by=by)
        return ledger_of(run)

    vector("chain", _phrase3, "failed", "ledger.form", rules="L-4", comment=f"{_by} may not assert {_kind}.")(_asserted)


@vector(
    "chain",
    "accept-notes-and-tools-by-the-agent",
    "unfinished",
    rules="L-4",
    comment="What the agent may assert, and the doctor.",
)
def _() -> Files:
    run = opened(0)
    for kind in ("note", "tool.call", "tool.result"):
        run.add(kind, {}, by="agent", private={"text": "I say so"})
    run.request()
    run.answer(1, {"source": "none", "items": []}, error="lost")
    run.add("note", {}, by="doctor")
    return ledger_of(run)


for _phrase4, _kind4, _data4 in (
    ("request-without-call", "model.request", {}),
    ("request-call-zero", "model.request", {"call": 0}),
    (
        "answer-without-model",
        "model.response",
        {"call": 1, "provider": "p", "tier": "t", "upstream": "u", "reason": "complete"},
    ),
    (
        "answer-usage-is-a-list",
        "model.response",
        {"call": 1, "provider": "p", "model": "m", "tier": "t", "upstream": "u", "reason": "x", "usage": []},
    ),
    ("denial-without-count", "model.denied", {"code": "x"}),
    ("denial-code-too-long", "model.denied", {"code": "x" * 65, "count": 1}),
    ("denial-code-beyond-ascii", "model.denied", {"code": "é", "count": 1}),
    ("gap-without-types", "x-docket.ledger-gap", {"lost": {"count": 1}}),
    ("cache-hit-saving-negative", "model.cache_hit", {"call": 1, "saved_usd": "-1"}),
    ("orphan-without-pid", "proc.orphan", {"ended": "killed"}),
    ("forwarded-without-class", "x-docket.forwarded", {"endpoint": "/v1/models"}),
    (
        "end-without-ops",
        "session.end",
        {"outcome": "completed", "exit": {}, "totals": {}, "usage_tree": {"size": 0, "root": "0" * 64}},
    ),
):

    def _malformed(kind: str = _kind4, data: Any = _data4) -> Files:
        run = opened(0)
        run.fold = False
        run.add(kind, data, by="boundary" if kind.startswith("model.") else "supervisor")
        return ledger_of(run)

    vector("chain", _phrase4, "failed", "ledger.form", rules="L-9", comment=f"A malformed {_kind4}.")(_malformed)


@vector(
    "chain",
    "first-bad-event-decides",
    "failed",
    "ledger.time",
    rules="P-3",
    comment="Event 2 goes back in time, event 3 is malformed: the earlier event decides, though its check comes later.",
)
def _() -> Files:
    run = opened(0)
    run.add("note", {})
    run.add("note", {}, step_us=-1)
    run.add("note", {})
    return edit_event(ledger_of(run), 3, lambda event: event.update(by="nobody"))


@vector(
    "chain",
    "first-bad-check-decides",
    "failed",
    "ledger.seq",
    rules="P-2 P-3",
    comment="Number, link, hash and time of one event are wrong: the first check in order decides.",
)
def _() -> Files:
    return edit_event(ledger_of(opened(1)), 2, lambda event: event.update(seq=7, prev="0" * 64, elapsed_us=0))


@vector(
    "chain",
    "receipt-before-ledger",
    "failed",
    "receipt.form",
    rules="P-2",
    comment="Receipt and ledger are both malformed: the receipt is looked at first.",
)
def _() -> Files:
    files = edit_event(short().files(), 1, lambda event: event.update(by="nobody"))
    return {**files, "receipt.json": files["receipt.json"].replace(b'"drill":false', b'"drill":0')}


def _covers_its_beginning_only(free: str, *, private: bool) -> Files:
    """The last event: its ``hash`` and ``prev`` stand inside ``data`` too, and the hash covers what stands before those."""
    run = opened()
    own = "0" * 64
    run.add(
        "note",
        {"a": 1, "hash": own, "prev": run.head, "z": free},
        by="agent",
        private={"text": "a remark"} if private else None,
    )
    files = ledger_of(run)
    *before, last = lines_of(files)
    claimed = decode_object(last[:-1])["hash"]
    line = last[:-1].replace(str(claimed).encode(), own.encode())
    at, end = line.index(b',"hash":"'), line[line.rindex(b',"seq":') :]
    sealed = seal(decode_object(line)).get("private")
    told = b"" if sealed is None else b',"private":' + encode(sealed)
    head = f',"prev":"{run.lines[-1].document["prev"]}"'.encode()
    made = sha256(b"\0" + line[:at] + head + told + end).hexdigest()
    return relined(files, [*before, line.replace(own.encode(), made.encode()) + b"\n"])


for _free in ("one", "another"):
    for _private in (False, True):
        vector(
            "chain",
            f"hash-inside-data-{_free}{'-private' if _private else ''}",
            "failed",
            "ledger.hash",
            rules="L-6",
            comment="hash and prev stand inside data too, and the hash covers only what stands before those.",
        )(lambda free=_free, private=_private: _covers_its_beginning_only(free, private=private))


@vector("chain", "answer-without-upstream", "failed", "ledger.form", rules="L-9", comment="A malformed model.response.")
def _() -> Files:
    run, data = opened(0), {"call": 1, "provider": "p", "model": "m", "tier": "t", "reason": "complete"}
    run.add("model.response", data, by="boundary")
    return ledger_of(run)
