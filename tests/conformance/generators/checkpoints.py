"""Signed notes, in the file beside a ledger and in a receipt."""

from __future__ import annotations

import base64
from collections.abc import Callable

from conformance.catalog import vector
from conformance.scene import edit_bare, edit_receipt, opened, short
from docket.ledger import checkpoint
from docket.primitives.merkle import EMPTY_ROOT
from docket.primitives.signature import SigningKey
from kit.recordings import DOCKET, Files, Recording, key

RUN_KEY = key(f"{DOCKET} session 0")
L = 2**252 + 27742317777372353535851937790883648493


def noted() -> Recording:
    """A ledger with a checkpoint over each of its first two events."""
    run = Recording()
    run.start()
    run.note()
    run.add("note", {})
    run.note()
    return run


def spelled(
    phrase: str, comment: str, change: Callable[[bytes], bytes], check: str = "checkpoints.form", rules: str = "T-2 T-3"
) -> None:
    """A vector whose second note is changed as bytes."""

    def make() -> Files:
        files = noted().ledger_files()
        lines = files["checkpoints"].splitlines(keepends=True)
        return {**files, "checkpoints": b"".join(lines[:6]) + change(b"".join(lines[6:]))}

    vector("checkpoints", phrase, "failed", check, rules=rules, comment=comment)(make)


def line(number: int, new: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def change(note: bytes) -> bytes:
        lines = note.split(b"\n")
        lines[number] = new(lines[number])
        return b"\n".join(lines)

    return change


def without(note: bytes, number: int) -> bytes:
    """``note`` without one of its lines."""
    lines = note.split(b"\n")
    return b"\n".join([*lines[:number], *lines[number + 1 :]])


def slack(text: bytes) -> bytes:
    """The same base64 with a bit set that decodes to nothing."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = text.rstrip(b"=")
    return body[:-1] + bytes([alphabet[alphabet.index(body[-1]) + 1]]) + b"=" * (len(text) - len(body))


def signed(size: int, root: bytes, *, docket: str = DOCKET, signer: SigningKey = RUN_KEY, lost: int = 0) -> bytes:
    return checkpoint.sign(docket, size, root, signer, lost)


spelled("size-with-leading-zero", "A leading zero in the size.", line(1, lambda text: b"0" + text))
spelled("size-negative", "A negative size.", line(1, lambda text: b"-" + text))
spelled("size-with-plus", "A plus sign before the size.", line(1, lambda text: b"+" + text))
spelled("size-empty", "No size.", line(1, lambda text: b""))
spelled("size-2-53", "A size of 2^53.", line(1, lambda text: b"9007199254740992"))
spelled("size-other-digits", "A digit beyond ASCII.", line(1, lambda text: "２".encode()))
spelled("root-base64-slack", "A bit of the root's base64 that decodes to nothing.", line(2, slack))
spelled("root-without-padding", "No padding.", line(2, lambda text: text.rstrip(b"=")))
spelled("root-url-alphabet", "base64url.", line(2, lambda text: b"-_" + text[2:]))
spelled("root-with-space", "A space after the root.", line(2, lambda text: text + b" "))
spelled("root-of-31-bytes", "A root of 31 bytes.", line(2, lambda text: base64.b64encode(b"\x00" * 31)))
spelled(
    "fifth-line-not-blank", "A second extension line where the blank one belongs.", line(4, lambda text: b"extension")
)
spelled("no-losses", "A note that does not say how many events are lost.", lambda note: line(3, lambda text: b"")(note))
spelled("losses-line-cut", "The five lines of a checkpoint without an extension.", lambda note: without(note, 3) + note)
spelled("losses-with-leading-zero", "A leading zero in the losses.", line(3, lambda text: b"lost 00"))
spelled("losses-negative", "Negative losses.", line(3, lambda text: b"lost -1"))
spelled("losses-2-53", "Losses of 2^53.", line(3, lambda text: b"lost 9007199254740992"))
spelled("losses-of-another-name", "Another extension line.", line(3, lambda text: b"gone 0"))
spelled("losses-with-space", "A space behind the losses.", line(3, lambda text: text + b" "))
spelled(
    "losses-changed",
    "Another number of losses under the signature of the right one.",
    line(3, lambda text: b"lost 1"),
    "checkpoints.signature",
    "T-4",
)
spelled("signature-with-hyphen", "A hyphen instead of the em dash.", line(5, lambda text: b"- " + text[4:]))
spelled(
    "signature-of-another-name",
    "The signature line names another key.",
    line(5, lambda text: text.replace(b"docket/", b"socket/")),
)
spelled(
    "signature-base64-slack",
    "A bit of the signature's base64 that decodes to nothing.",
    line(5, lambda text: text[: text.rindex(b" ") + 1] + slack(text[text.rindex(b" ") + 1 :])),
)
spelled(
    "signature-of-67-bytes",
    "A blob of 67 bytes.",
    line(5, lambda text: text[: text.rindex(b" ") + 1] + base64.b64encode(b"\x00" * 67)),
)
spelled("carriage-returns", "CRLF.", lambda note: note.replace(b"\n", b"\r\n"))
spelled("not-utf-8", "A byte that is never UTF-8.", line(0, lambda text: text + b"\xff"))
spelled("line-of-1024", "A line that is too long for any note.", lambda note: b"x" * 1024 + b"\n" + note)
spelled("line-of-1024-without-end", "A fragment that is too long for any note.", lambda note: note + b"x" * 1024)
spelled(
    "second-signature-line",
    "A note of seven lines puts all that follow out of step.",
    lambda note: note + note.split(b"\n")[5] + b"\n" + note,
    "checkpoints.form",
)
spelled(
    "origin-of-another-docket",
    "Signed for another docket number.",
    lambda note: signed(2, noted().frontier.root(), docket="DKT-20261130-9999999999"),
    "checkpoints.order",
    "T-4",
)
spelled(
    "origin-changed",
    "The origin is altered in both lines.",
    lambda note: note.replace(b"0123456789", b"0123456788"),
    "checkpoints.order",
    "T-4",
)
spelled("size-repeated", "Two notes over the same size.", lambda note: note + note, "checkpoints.order", "T-5")
spelled(
    "size-shrinks",
    "A note over fewer events than the one before.",
    lambda note: note + noted().notes[0],
    "checkpoints.order",
    "T-5",
)
spelled(
    "size-zero",
    "A note over no events after one over one.",
    lambda note: signed(0, b"\x00" * 32),
    "checkpoints.order",
    "T-5",
)
spelled(
    "size-beyond-the-ledger",
    "A note over one event more than there is.",
    lambda note: signed(3, noted().frontier.root()),
    "checkpoints.size",
    "T-5",
)
spelled(
    "root-of-another-size",
    "A signed note with the root of the size before.",
    lambda note: signed(2, bytes.fromhex(noted().lines[0].document["hash"])),
    "checkpoints.root",
    "T-5",
)  # type: ignore[arg-type]
spelled(
    "signed-by-another-key",
    "Key id and signature of another key.",
    lambda note: signed(2, noted().frontier.root(), signer=key("mallory")),
    "checkpoints.signature",
    "T-4 T-5",
)


def blob(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def changed(text: bytes) -> bytes:
        at = text.rindex(b" ") + 1
        return text[:at] + base64.b64encode(change(base64.b64decode(text[at:])))

    return line(5, changed)


spelled(
    "key-id-changed",
    "Another key id before the right signature.",
    blob(lambda raw: b"\x00" + raw[1:] if raw[0] else b"\x01" + raw[1:]),
    "checkpoints.signature",
    "T-4",
)
spelled(
    "signature-changed",
    "One bit of the signature.",
    blob(lambda raw: raw[:10] + bytes([raw[10] ^ 1]) + raw[11:]),
    "checkpoints.signature",
    "T-4",
)
spelled(
    "signature-s-plus-l",
    "S + L: the same signature to a lenient verifier.",
    blob(lambda raw: raw[:36] + (int.from_bytes(raw[36:], "little") + L).to_bytes(32, "little")),
    "checkpoints.signature",
    "T-6",
)
spelled(
    "signature-r-small-order",
    "R is a point of small order.",
    blob(lambda raw: raw[:4] + b"\x01" + b"\x00" * 31 + raw[36:]),
    "checkpoints.signature",
    "T-6",
)


@vector(
    "checkpoints",
    "first-size-zero",
    "failed",
    "checkpoints.order",
    rules="T-5",
    comment="The first note is over no events.",
)
def _() -> Files:
    files = noted().ledger_files()
    return {**files, "checkpoints": signed(0, EMPTY_ROOT) + files["checkpoints"]}


def losing(*losses: int) -> Recording:
    """A ledger with notes over its two events, of which the later ones tell of these losses."""
    run = Recording()
    run.start()
    run.add("note", {})
    for lost in losses:
        run.note(lost=lost)
    return run


@vector(
    "checkpoints",
    "accept-losses-over-the-same-size",
    "unfinished",
    rules="T-5 P-4",
    comment="Nothing could be written any more: three notes over one size, each with more losses.",
)
def _() -> Files:
    return losing(0, 2, 9).ledger_files()


@vector(
    "checkpoints",
    "losses-shrink",
    "failed",
    "checkpoints.lost",
    rules="T-5",
    comment="A note over more events tells of fewer losses.",
)
def _() -> Files:
    run = losing(2)
    run.add("note", {})
    run.note(lost=1)
    return run.ledger_files()


@vector(
    "checkpoints",
    "losses-repeated",
    "failed",
    "checkpoints.order",
    rules="T-5",
    comment="A note over the same size with the same losses.",
)
def _() -> Files:
    return losing(2, 2).ledger_files()


@vector(
    "checkpoints",
    "losses-below-the-gaps",
    "failed",
    "checkpoints.lost",
    rules="T-5",
    comment="The ledger tells of three lost events, the note over it of two.",
)
def _() -> Files:
    run = losing(0)
    run.add("x-docket.ledger-gap", {"lost": {"count": 3, "types": {"note": 3}}})
    run.note(lost=2)
    return run.ledger_files()


@vector(
    "checkpoints",
    "accept-losses-of-the-gaps",
    "unfinished",
    rules="T-5",
    comment="Three lost events, told of by a gap and by the note over it.",
)
def _() -> Files:
    run = losing(0)
    run.add("x-docket.ledger-gap", {"lost": {"count": 3, "types": {"note": 3}}})
    run.note(lost=3)
    return run.ledger_files()


@vector(
    "checkpoints",
    "accept-torn-note-without-receipt",
    "unfinished",
    rules="T-2 P-4",
    comment="Three lines of a note at the end.",
)
def _() -> Files:
    files = noted().ledger_files()
    return {**files, "checkpoints": files["checkpoints"] + b"docket/x\n12\nabc\n"}


@vector(
    "checkpoints",
    "accept-torn-line-of-1023",
    "unfinished",
    rules="T-2 P-4",
    comment="A fragment just short enough to be one.",
)
def _() -> Files:
    files = noted().ledger_files()
    return {**files, "checkpoints": files["checkpoints"] + b"x" * 1023}


@vector(
    "checkpoints",
    "accept-missing-without-receipt",
    "unfinished",
    rules="P-1 P-4",
    comment="No file of checkpoints, and no receipt that needs one.",
)
def _() -> Files:
    return {"ledger.jsonl": noted().ledger_files()["ledger.jsonl"]}


@vector(
    "checkpoints",
    "accept-one-for-every-event",
    "verified",
    rules="T-1 T-5",
    comment="Trees of every size from 1 to 11, each with its note.",
)
def _() -> Files:
    run = Recording()
    run.start()
    run.note()
    for _number in range(9):
        run.add("note", {})
        run.note()
    run.end()
    return run.files()


@vector(
    "checkpoints", "missing-under-a-receipt", "failed", "checkpoints.last", rules="B-3", comment="The file is gone."
)
def _() -> Files:
    files = short().files()
    return {name: files[name] for name in ("ledger.jsonl", "receipt.json")}


@vector("checkpoints", "empty-under-a-receipt", "failed", "checkpoints.last", rules="B-3", comment="The file is empty.")
def _() -> Files:
    return {**short().files(), "checkpoints": b""}


@vector(
    "checkpoints",
    "torn-under-a-receipt",
    "failed",
    "checkpoints.last",
    rules="B-3",
    comment="A torn note after the one that the receipt quotes.",
)
def _() -> Files:
    files = short().files()
    return {**files, "checkpoints": files["checkpoints"] + b"docket/"}


@vector(
    "checkpoints",
    "last-one-cut",
    "failed",
    "checkpoints.last",
    rules="B-3",
    comment="The note that the receipt quotes lost its last byte.",
)
def _() -> Files:
    files = short().files()
    return {**files, "checkpoints": files["checkpoints"][:-1]}


@vector(
    "checkpoints",
    "note-after-the-last",
    "failed",
    "checkpoints.last",
    rules="B-3",
    comment="A well-signed note over a later size.",
)
def _() -> Files:
    files = short().files()
    return {**files, "checkpoints": files["checkpoints"] + signed(9, b"\x01" * 32)}


@vector(
    "checkpoints",
    "quoted-one-is-not-the-last",
    "failed",
    "checkpoints.last",
    rules="B-3",
    comment="The receipt, signed so, quotes an earlier note.",
)
def _() -> Files:
    run = short()
    return edit_receipt(run, lambda receipt: receipt["ledger"].update(checkpoint=run.notes[0].decode()), sign=True)


def bare(phrase: str, check: str, comment: str, rules: str, note: Callable[[Recording], bytes]) -> None:
    def make() -> Files:
        run = short()
        return edit_bare(run, lambda receipt: receipt["ledger"].update(checkpoint=note(run).decode()), sign=True)

    vector("checkpoints", phrase, "failed", check, rules=rules, comment=comment)(make)


bare("bare-no-note", "checkpoint.form", "The receipt quotes something else.", "R-11 T-2", lambda run: b"a note")
bare(
    "bare-base64-slack",
    "checkpoint.form",
    "Slack bits in the quoted note.",
    "R-11 T-3",
    lambda run: line(2, slack)(run.notes[-1]),
)
bare(
    "bare-note-and-a-half",
    "checkpoint.form",
    "Two notes where one is quoted.",
    "R-11 T-2",
    lambda run: run.notes[0] + run.notes[-1],
)
bare(
    "bare-another-docket",
    "checkpoint.binding",
    "The quoted note is of another docket.",
    "R-11",
    lambda run: signed(run.size, run.frontier.root(), docket="DKT-20261130-9999999999"),
)
bare(
    "bare-earlier-size",
    "checkpoint.binding",
    "The quoted note is over fewer events, though there is an end.",
    "R-11",
    lambda run: run.notes[0],
)
bare(
    "bare-later-size",
    "checkpoint.binding",
    "The quoted note is over more events.",
    "R-11",
    lambda run: signed(run.size + 1, run.frontier.root()),
)
bare(
    "bare-another-root",
    "checkpoint.binding",
    "The quoted note has another root.",
    "R-11",
    lambda run: signed(run.size, b"\x01" * 32),
)
bare(
    "bare-losses-not-disclosed",
    "checkpoint.lost",
    "The quoted note tells of a lost event, the receipt of none.",
    "R-11",
    lambda run: signed(run.size, run.frontier.root(), lost=1),
)
bare(
    "bare-another-key",
    "checkpoint.signature",
    "The quoted note is signed by another key.",
    "R-11 T-4",
    lambda run: signed(run.size, run.frontier.root(), signer=key("mallory")),
)


@vector(
    "checkpoints",
    "unordered-first-and-rechained",
    "failed",
    "checkpoints.signature",
    rules="T-5",
    comment="The notes are signed by the key of a start that the ledger does not have.",
)
def _() -> Files:
    run = opened()
    return {
        **run.ledger_files(),
        "checkpoints": signed(1, bytes.fromhex(str(run.lines[0].document["hash"])), signer=key("another run")),
    }
