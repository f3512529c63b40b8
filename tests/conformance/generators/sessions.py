"""Sessions: linked, not linked, closed, unclosed, forged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.catalog import vector
from conformance.scene import OPERATOR, edit_bare, ledger_of, only, put, short
from docket.primitives.signature import SigningKey
from kit.recordings import Files, Recording, endorsement, key


def two(*, signed: bool = True, closed: bool = True, noted: bool = True) -> Recording:
    """A first session, closed or not, and a second one that ends."""
    run = short(signed=signed) if closed else unclosed(signed=signed, noted=noted)
    run.start()
    run.note()
    run.call()
    run.end()
    return run


def unclosed(*, signed: bool = True, noted: bool = True) -> Recording:
    """A first session that died, and what the doctor appended."""
    run = Recording(operator=OPERATOR if signed else None)
    run.start()
    if noted:
        run.note()
    run.request()
    run.answer(1, {"source": "none", "items": []}, error="lost")
    return run


@vector(
    "sessions",
    "accept-two-linked",
    "verified",
    rules="L-10 R-5 R-12 B-4",
    comment="Both starts are endorsed by one key, the first session is closed.",
)
def _() -> Files:
    return two().files()


@vector(
    "sessions",
    "two-not-linked",
    "incomplete",
    rules="L-10 R-5 P-7 P-10",
    comment="No operator: anybody could have appended the second session.",
)
def _() -> Files:
    return two(signed=False).files()


@vector("sessions", "accept-two-bare", "verified", rules="R-5", comment="The receipt of two sessions by itself.")
def _() -> Files:
    return only(two().files(), "receipt.json")


@vector("sessions", "accept-three", "verified", rules="L-10 R-5", comment="Three sessions.")
def _() -> Files:
    run = two()
    run.start()
    run.note()
    run.end()
    return run.files()


@vector(
    "sessions",
    "endorsed-from-the-second-on",
    "incomplete",
    rules="R-12",
    comment="The first start is not endorsed, the later ones are.",
)
def _() -> Files:
    run = short()
    run.operator = OPERATOR
    run.start()
    run.note()
    run.end()
    return run.files()


@vector(
    "sessions",
    "first-not-closed",
    "incomplete",
    rules="P-7",
    comment="The first session has no end; what follows its last checkpoint is attested by no key of it.",
)
def _() -> Files:
    return two(closed=False).files()


@vector("sessions", "first-not-closed-bare", "incomplete", rules="P-7", comment="The same by the receipt alone.")
def _() -> Files:
    return only(two(closed=False).files(), "receipt.json")


@vector(
    "sessions",
    "first-without-a-checkpoint",
    "incomplete",
    rules="P-7 B-4",
    comment="The first session died before its first checkpoint.",
)
def _() -> Files:
    return two(closed=False, noted=False).files()


@vector(
    "sessions",
    "first-ended-and-something-after-it",
    "incomplete",
    rules="P-7",
    comment="An event stands between the first session's end and the next start.",
)
def _() -> Files:
    run = short(signed=True)
    run.add("note", {}, by="doctor")
    run.start()
    run.note()
    run.end()
    return run.files()


@vector(
    "sessions",
    "first-end-not-attested",
    "incomplete",
    rules="P-7",
    comment="The first session's end, perhaps forged, lies after its last checkpoint.",
)
def _() -> Files:
    run = short(signed=True)
    run.notes.pop()
    run.sessions[0].note = run.notes[-1]
    run.start()
    run.note()
    run.end()
    return run.files()


def ledger_fails(
    phrase: str, comment: str, rules: str = "L-10", check: str = "ledger.sessions", **changes: Any
) -> None:
    def make() -> Files:
        run = short()
        run.start(**{name: value(run) if callable(value) else value for name, value in changes.items()})
        return ledger_of(run)

    vector("sessions", phrase, "failed", check, rules=rules, comment=comment)(make)


def place(**changes: Any) -> Callable[[Recording], Any]:
    return lambda run: {"size": run.size, "root": run.root, "head": run.head} | changes


ledger_fails("number-repeated", "The second start says session 0.", session=0)
ledger_fails("number-skipped", "The second start says session 2.", session=2)
ledger_fails("another-docket", "The second start is of another docket.", docket="DKT-20261130-9999999999")
ledger_fails(
    "run-key-repeated",
    "The second start has the first one's run key.",
    run_key=lambda run: run.sessions[0].key.public.hex(),
)
ledger_fails("continues-another-size", "One event less than there are.", continues=place(size=3))
ledger_fails("continues-another-root", "Another root.", continues=place(root="0" * 64))
ledger_fails("continues-another-head", "Another head.", continues=place(head="0" * 64))
ledger_fails(
    "continues-with-another-member", "continues is exact.", "L-9", "ledger.form", continues=place(colour="blue")
)
ledger_fails(
    "docket-number-with-an-i",
    "I is no character of Crockford's base32.",
    "L-9",
    "ledger.form",
    docket="DKT-20261130-012345678I",
)


@vector(
    "sessions",
    "later-start-without-continues",
    "failed",
    "ledger.sessions",
    rules="L-10",
    comment="The second start continues nothing.",
)
def _() -> Files:
    run = short()
    data = dict(run.lines[0].data) | {"session": 1, "run_key": key("x").public.hex()}
    run.add("session.start", data)
    return ledger_of(run)


@vector(
    "sessions",
    "first-start-continues",
    "failed",
    "ledger.sessions",
    rules="L-10",
    comment="The first start continues something.",
)
def _() -> Files:
    run = Recording()
    run.start(continues={"size": 1, "root": "0" * 64, "head": "0" * 64})
    return ledger_of(run)


@vector(
    "sessions",
    "tail-of-the-first-replaced",
    "failed",
    "checkpoints.root",
    rules="T-5",
    comment="Events of the first session before its last checkpoint are replaced, the rest is chained and signed anew.",
)
def _() -> Files:
    right = two()
    wrong = Recording(operator=OPERATOR)
    wrong.start()
    wrong.note()
    wrong.call(duration_us=1)
    wrong.end()
    wrong.start()
    wrong.note()
    wrong.call()
    wrong.end()
    files = wrong.files()
    return {**files, "checkpoints": b"".join([*right.notes[:2], *wrong.notes[2:]])}


@vector(
    "sessions",
    "second-appended-without-the-operator",
    "failed",
    "endorsement",
    rules="R-12",
    comment="A session appended to an endorsed run without the key, with a receipt of its own.",
)
def _() -> Files:
    run = short(signed=True)
    run.operator = None
    run.start()
    run.note()
    run.end()
    return run.files()


@vector(
    "sessions",
    "second-endorsed-by-another",
    "failed",
    "endorsement",
    rules="R-12",
    comment="The second start is endorsed by another key.",
)
def _() -> Files:
    run = short(signed=True)
    run.operator = key("mallory")
    run.start()
    run.note()
    run.end()
    return run.files()


@vector(
    "sessions",
    "second-not-endorsed-in-a-ledger",
    "failed",
    "endorsement",
    rules="R-12",
    comment="The same in a ledger without receipt.",
)
def _() -> Files:
    run = short(signed=True)
    run.start(endorse=False)
    run.end()
    return run.ledger_files()


def endorsed(
    phrase: str, comment: str, change: Callable[[Any], Any], check: str = "endorsement", rules: str = "R-12"
) -> None:
    """A start whose endorsement was made over other data, or is otherwise wrong; everything around it is right."""

    def make() -> Files:
        run = Recording(operator=OPERATOR)
        probe = Recording(operator=OPERATOR)
        data: Any = dict(probe.start().data)
        right = data.pop("endorsement")
        claim = dict(right)
        changed = change((claim, data))
        if changed is not None:
            claim = endorsement(changed, OPERATOR)
        run.start(endorse=False, endorsement=claim)
        run.note()
        run.end()
        return run.files()

    vector("sessions", phrase, "failed", check, rules=rules, comment=comment)(make)


for _name, _value in (
    ("docket", "DKT-20261130-9999999999"),
    ("policy", "1" * 64),
    ("prices", "1" * 64),
    ("run_key", "1" * 64),
    ("session", 1),
    ("continues", {"size": 1, "root": "0" * 64, "head": "0" * 64}),
):
    endorsed(
        f"endorsement-of-another-{_name.replace('_', '-')}",
        f"The operator endorsed another {_name}.",
        lambda pair, name=_name, value=_value: pair[1] | {name: value},
    )
endorsed(
    "endorsement-by-a-small-order-key",
    "The key is the neutral point, for which a zero signature holds in lenient verifiers.",
    lambda pair: pair[0].update(key="01" + "00" * 31, value="01" + "00" * 63),
    rules="R-12 T-6",
)
endorsed(
    "endorsement-key-not-reduced",
    "y is not below 2^255-19.",
    lambda pair: pair[0].update(key="ee" + "ff" * 30 + "7f"),
    rules="T-6",
)
endorsed(
    "endorsement-s-plus-l",
    "S + L.",
    lambda pair: pair[0].update(
        value=pair[0]["value"][:64]
        + (
            int.from_bytes(bytes.fromhex(pair[0]["value"][64:]), "little")
            + 2**252
            + 27742317777372353535851937790883648493
        )
        .to_bytes(32, "little")
        .hex()
    ),
    rules="T-6",
)
endorsed(
    "endorsement-of-another-algorithm",
    "alg is not ed25519.",
    lambda pair: pair[0].update(alg="ed448"),
    "ledger.form",
    "L-9",
)
endorsed(
    "endorsement-with-another-member",
    "An endorsement is exact.",
    lambda pair: pair[0].update(note="x"),
    "ledger.form",
    "L-9",
)


def receipt_fails(phrase: str, check: str, comment: str, change: Callable[[Any], Any], rules: str = "R-5") -> None:
    """A bare receipt of two sessions, changed and then signed."""
    vector("sessions", phrase, "failed", check, rules=rules, comment=comment)(
        lambda: edit_bare(two(), change, sign=True)
    )


receipt_fails("receipt-starts-swapped", "starts.sessions", "The starts change places.", lambda r: r["starts"].reverse())
receipt_fails(
    "receipt-start-missing",
    "starts.sessions",
    "Only the second start is there.",
    lambda r: (r["starts"].pop(0), r["session"].update(sessions=1)),
)
receipt_fails(
    "receipt-start-count",
    "starts.sessions",
    "session.sessions is not the number of starts.",
    put("session.sessions", 1),
)
receipt_fails(
    "receipt-last-start-with-checkpoint",
    "starts.sessions",
    "The last start carries a checkpoint.",
    lambda r: r["starts"][1].update(checkpoint=r["ledger"]["checkpoint"]),
)
receipt_fails(
    "receipt-checkpoint-of-the-second",
    "starts.sessions",
    "The first start carries the second one's checkpoint.",
    lambda r: r["starts"][0].update(checkpoint=r["ledger"]["checkpoint"]),
)
receipt_fails(
    "receipt-end-of-the-second",
    "starts.sessions",
    "The first start carries the second one's end.",
    lambda r: r["starts"][0].update(end=r["end"]),
)
receipt_fails(
    "receipt-end-with-another-proof",
    "starts.proof",
    "The first session's end has the proof of its start.",
    lambda r: r["starts"][0]["end"].update(proof=r["starts"][0]["proof"]),
    "R-4",
)


def session_note(phrase: str, comment: str, signer: SigningKey | None, root: bytes | None) -> None:
    def make() -> Files:
        run = short(signed=True)
        run.notes.pop()
        run.note(signer=signer, root=root)
        run.start()
        run.note()
        run.end()
        return only(run.files(), "receipt.json")

    vector("sessions", phrase, "failed", "starts.sessions", rules="R-5", comment=comment)(make)


session_note(
    "receipt-first-checkpoint-by-another-key",
    "The first session's checkpoint is signed by another key.",
    key("mallory"),
    None,
)
session_note(
    "receipt-first-checkpoint-another-root",
    "The first session's checkpoint has another root than the second start continues.",
    None,
    b"\x01" * 32,
)


@vector(
    "sessions",
    "receipt-hides-the-first-end",
    "failed",
    "against.starts",
    rules="B-4",
    comment="The receipt, signed so, leaves out the end of the first session that the ledger has.",
)
def _() -> Files:
    return two().files(edit=lambda receipt: receipt["starts"][0].pop("end"))


@vector(
    "sessions",
    "receipt-quotes-an-earlier-checkpoint",
    "failed",
    "against.starts",
    rules="B-4",
    comment="The receipt, signed so, carries the first session's first checkpoint.",
)
def _() -> Files:
    run = two()
    return run.files(edit=lambda receipt: receipt["starts"][0].update(checkpoint=run.notes[0].decode()))


@vector(
    "sessions",
    "receipt-hides-a-session",
    "failed",
    "against.starts",
    rules="B-4",
    comment="A receipt with one start over a ledger with two.",
)
def _() -> Files:
    run = two(signed=False)

    def change(receipt: Any) -> None:
        receipt["starts"].pop()
        receipt["starts"][0].pop("checkpoint")
        receipt["starts"][0].pop("end")
        receipt["session"].update(sessions=1)
        receipt["prices"]["tables"].pop()

    return run.files(edit=change)
