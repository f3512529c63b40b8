"""What a document may hold at most, sums that pass what they may be, and texts that a careless reader confuses."""

from __future__ import annotations

from typing import Any

from conformance.catalog import vector
from conformance.generators.checkpoints import signed
from conformance.scene import FINDING, edit_bare, ledger_of, opened, put, short
from docket.primitives.canonical import JsonObject, decode_object, encode
from docket.primitives.digest import leaf_hash
from docket.primitives.merkle import Frontier
from kit.recordings import Files, Recording, key

MOST = 2**53 - 1
DEAR = {"kind": "input", "quantity": 10**9, "unit_usd": "500000", "per": 1}
"""500,000,000,000,000 USD: two of these are no amount."""


def dear(calls: int) -> Recording:
    """A run of so many calls of DEAR."""
    run = opened(0)
    run.fold = False  # docket's own arithmetic refuses such sums
    for _ in range(calls):
        run.call({"source": "reported", "items": [DEAR], "cost_usd": "500000000000000"})
    return run


def gaps(*types: JsonObject, count: int = 1) -> Files:
    """A ledger that discloses such losses, one event each."""
    run = opened(0)
    for each in types:
        run.add("x-docket.ledger-gap", {"lost": {"count": count, "types": each}}, by="supervisor")
    return ledger_of(run)


@vector("bounds", "accept-largest-cost", "unfinished", rules="F-1 C-8", comment="A cost of 500,000,000,000,000 USD.")
def _() -> Files:
    return ledger_of(dear(1))


@vector("bounds", "cost-is-no-amount", "failed", "ledger.usage", rules="F-1 C-8", comment="The costs sum to 10^15 USD.")
def _() -> Files:
    return ledger_of(dear(2))


@vector(
    "bounds",
    "cost-of-one-call-is-no-amount",
    "failed",
    "ledger.usage",
    rules="U-3 C-8",
    comment="The items of one call sum to 10^15 USD, which no amount can say.",
)
def _() -> Files:
    run = dear(0)
    run.call({"source": "reported", "items": [DEAR, DEAR], "cost_usd": "1000000000000000"})
    return ledger_of(run)


@vector(
    "bounds",
    "cost-of-rows-is-no-amount",
    "failed",
    "totals.rows",
    rules="F-1 R-7",
    comment="In a bare receipt: each row is right, their sum is 10^15 USD.",
)
def _() -> Files:
    def change(receipt: Any) -> None:
        tree = Frontier()
        for row in receipt["usage"]["rows"]:
            row["usage"] = {"source": "reported", "items": [DEAR], "cost_usd": "500000000000000"}
            tree.append(leaf_hash(encode(row)))
        receipt["usage"]["root"] = tree.root().hex()
        receipt["kind"], receipt["signatures"] = "recovered", []
        del receipt["end"]

    return edit_bare(short(calls=2), change)


@vector(
    "bounds", "savings-are-no-amount", "failed", "ledger.usage", rules="F-1 F-5", comment="Cache hits save 10^15 USD."
)
def _() -> Files:
    run = dear(0)
    for call in (1, 2):
        run.add("model.cache_hit", {"call": call, "saved_usd": "500000000000000"}, by="boundary")
    return ledger_of(run)


@vector(
    "bounds", "losses-pass-2-53", "failed", "ledger.usage", rules="F-1", comment="The sum of lost events passes 2^53-1."
)
def _() -> Files:
    return gaps({}, {}, count=MOST)


@vector(
    "bounds",
    "losses-of-a-type-pass-2-53",
    "failed",
    "ledger.usage",
    rules="L-13 F-1",
    comment="The sum of lost requests passes 2^53-1, that of lost.count does not.",
)
def _() -> Files:
    return gaps({"model.request": MOST}, {"model.request": 1})


@vector(
    "bounds",
    "accept-losses-of-another-type-pass-2-53",
    "unfinished",
    rules="L-13 L-8",
    comment="A sum that no rule makes: of lost notes.",
)
def _() -> Files:
    return gaps({"note": MOST}, {"note": MOST})


@vector("bounds", "accept-counts-256", "unfinished", rules="L-9", comment="An object of 256 counts.")
def _() -> Files:
    return gaps({f"x-{number}": 1 for number in range(256)})


@vector("bounds", "counts-257", "failed", "ledger.form", rules="L-9", comment="An object of 257 counts.")
def _() -> Files:
    return gaps({f"x-{number}": 1 for number in range(257)})


for _phrase, _path, _list in (
    ("sentences", "limits", ["x"] * 1025),
    ("findings", "findings", [FINDING] * 1025),
    ("survivors", "session.survivors", [7] * 101),
    ("price-tables", "prices.tables", [{"digest": "0" * 64}] * 1025),
    ("models", "totals.by_model", [{"provider": "p", "upstream": "u", "model": "m", "calls": 0}] * 258),
):
    vector("bounds", f"too-many-{_phrase}", "failed", "receipt.form", rules="R-1", comment=f"{_path} of {len(_list)}.")(
        lambda path=_path, value=_list: edit_bare(short(), put(path, value))
    )


@vector("bounds", "accept-sentences-1024", "verified", rules="R-1", comment="limits of 1,024 strings.")
def _() -> Files:
    return edit_bare(short(), put("limits", ["x"] * 1024), sign=True)


@vector(
    "bounds",
    "line-of-a-quoted-note",
    "failed",
    "checkpoint.form",
    rules="T-2 R-11",
    comment="The note in a receipt has a line of 1,024 bytes, which no note has.",
)
def _() -> Files:
    run = short()
    note = signed(run.size, bytes.fromhex(run.root)).decode()
    origin = note.split("\n")[0]
    long = note.replace(origin, origin + "x" * (1024 - len(origin)))
    return edit_bare(run, put("ledger.checkpoint", long), sign=True)


@vector(
    "bounds",
    "accept-nul-in-names-of-models",
    "unfinished",
    rules="C-7 F-1",
    comment="U+0000 in provider and model: three pairs that one text joined by U+0000 would confuse. Its session.end says so.",
)
def _() -> Files:
    run = opened(0)
    for provider, model in (("a", "b\0c"), ("a\0b", "c"), ("a\0b\0c", "")):
        run.call(model=model, provider=provider)
    return ledger_of(run)


@vector(
    "bounds",
    "accept-ustar-in-a-ledger",
    "unfinished",
    rules="P-1",
    comment="The bytes at offset 257 of a ledger are those of a tar header.",
    path="ledger.jsonl",
)
def _() -> Files:
    run = Recording()
    run.start(platform={"python": ""})
    at = ledger_of(run)["ledger.jsonl"].index(b'"python":"') + len('"python":"')
    run = Recording()
    run.start(platform={"python": "x" * (257 - at) + "ustar"})
    files = ledger_of(run)
    assert files["ledger.jsonl"][257:262] == b"ustar"
    return files


def crossed(phrase: str, comment: str, *, session: int, at_start: bool) -> None:
    """Two sessions in which the last note of ``session``, or that over its start, is by the other's key, rightly named."""

    def make() -> Files:
        run = Recording()
        for number in (0, 1):
            run.start()
            keys = [key(f"{run.docket} session {each}") for each in (0, 1)]
            signer = keys[1 - number] if number == session else keys[number]
            run.note(signer=signer if at_start else None)
            run.add("note", {})
            if not at_start:
                run.note(signer=signer)
        return run.ledger_files()

    vector("bounds", phrase, "failed", "checkpoints.signature", rules="T-5", comment=comment)(make)


crossed("note-of-the-first-session-by-the-next", "Its last note is by the key of session 1.", session=0, at_start=False)
crossed("note-of-the-next-session-by-the-first", "Its last note is by the key of session 0.", session=1, at_start=False)
crossed(
    "note-over-a-start-by-the-session-before", "Over the start of session 1, by session 0.", session=1, at_start=True
)


@vector(
    "bounds",
    "quoted-note-by-the-session-before",
    "failed",
    "checkpoint.signature",
    rules="R-11 T-5",
    comment="The note that a bare receipt of two sessions quotes is by the key of session 0, over all events.",
)
def _() -> Files:
    run = Recording()
    for _ in range(2):
        run.start()
        run.note()
        run.end()
    note = signed(run.size, bytes.fromhex(run.root), signer=run.sessions[0].key)
    return edit_bare(run, put("ledger.checkpoint", note.decode()), sign=True)


def covering_less(tail: JsonObject) -> Files:
    """A note whose ``data`` holds a hash and prev that a reader from the left takes for the event's: they cover what stands
    before them and what stands behind the event's own, and nothing of ``tail`` between the two."""
    run = opened(0)
    run.add("note", {"a": 0})
    line = ledger_of(run)["ledger.jsonl"].splitlines(keepends=True)[1]
    event = decode_object(line[:-1])
    prev, end = event["prev"], line[line.index(b',"prev"') : -1]
    start = line[: line.index(b'"a":0') + len(b'"a":0')]
    own = leaf_hash(start + end).hex()
    spelled = encode(tail)[1:-1]
    forged = (
        start + f',"hash":"{own}","prev":"{prev}",'.encode() + spelled + b"}" + line[line.index(b',"elapsed_us"') :]
    )
    forged = forged.replace(event["hash"].encode(), own.encode())
    return {"ledger.jsonl": ledger_of(run)["ledger.jsonl"].replace(line, forged)}


for _phrase, _tail in (("text", {"text": "anything"}), ("members", {"text": "x", "z": [{"hash": 0, "prev": 1}]})):
    vector(
        "bounds",
        f"hash-that-covers-no-{_phrase}",
        "failed",
        "ledger.hash",
        rules="L-6",
        comment="The members hash and prev of the event stand in its data too, and the hash fits those.",
    )(lambda tail=_tail: covering_less(tail))


LIMITED: JsonObject = {"limit": "max_calls_per_second", "retry_after": 1, "state": {}}


@vector(
    "bounds",
    "refusals-of-the-limiter-pass-2-53",
    "failed",
    "ledger.usage",
    rules="F-5",
    comment="The sum of the limiter's refusals passes 2^53-1.",
)
def _() -> Files:
    run = opened(0)
    for count in (MOST, 1):
        run.add("x-docket.rate-limited", {**LIMITED, "count": count}, by="boundary")
    return ledger_of(run)


@vector(
    "bounds",
    "limiter-without-count",
    "failed",
    "ledger.form",
    rules="L-9",
    comment="The limiter refused, and does not say how often.",
)
def _() -> Files:
    run = opened(0)
    run.fold = False
    run.add("x-docket.rate-limited", LIMITED, by="boundary")
    return ledger_of(run)
