"""Proofs of single events, and files that are none of the three documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.catalog import vector
from conformance.scene import OPERATOR, bump, drop, opened, put, short, withheld
from docket.ledger import checkpoint
from docket.primitives.canonical import JsonObject, encode
from docket.primitives.merkle import Frontier
from kit.recordings import Files, Recording, key

PROOF = "proof.json"


def proof_of(run: Recording, seq: int) -> JsonObject:
    """The proof document of event ``seq`` under the last checkpoint of ``run``, which is over all of it."""

    def proven(number: int) -> JsonObject:
        tree = Frontier()
        builder = None
        for line in run.lines:
            leaf = bytes.fromhex(str(line.document["hash"]))
            if line.seq == number:
                builder = tree.append_watched(leaf)
            else:
                tree.append(leaf)
        assert builder is not None
        hashes: list[Any] = [each.hex() for each in tree.proof(builder)]
        return {"event": run.lines[number].document, "proof": {"index": number, "size": run.size, "hashes": hashes}}

    return {
        "format": "docket-proof/1",
        "docket": run.docket,
        "checkpoint": run.notes[-1].decode(),
        "event": proven(seq),
        "start": proven(run.sessions[-1].start.seq),
    }


def document(run: Recording, seq: int, change: Callable[[Any], Any] | None = None) -> Files:
    proof = proof_of(run, seq)
    if change is not None:
        change(proof)
    return {PROOF: encode(proof) + b"\n"}


def two_sessions() -> Recording:
    run = short(signed=True)
    run.start()
    run.note()
    run.end()
    return run


@vector(
    "proof", "accept-one-call", "verified", rules="O-1 O-2 P-1", comment="The answer of a call, by itself.", path=PROOF
)
def _() -> Files:
    return document(short(calls=3), 4)


@vector("proof", "accept-endorsed", "verified", rules="O-2 R-12", comment="The same in an endorsed run.", path=PROOF)
def _() -> Files:
    return document(short(signed=True, calls=3), 4)


@vector(
    "proof",
    "accept-one-leaf",
    "verified",
    rules="O-2 T-1",
    comment="The start of a run that has nothing else: a tree of one leaf, an empty proof.",
    path=PROOF,
)
def _() -> Files:
    run = Recording()
    run.start()
    run.note()
    return document(run, 0)


@vector(
    "proof",
    "accept-of-an-earlier-session",
    "verified",
    rules="O-2",
    comment="An event of the first session under a checkpoint of the second.",
    path=PROOF,
)
def _() -> Files:
    return document(two_sessions(), 2)


@vector("proof", "accept-withheld", "verified", rules="S-3 O-2", comment="Every private member withheld.", path=PROOF)
def _() -> Files:
    return {PROOF: withheld({"ledger.jsonl": document(short(), 2)[PROOF]})["ledger.jsonl"]}


@vector(
    "proof",
    "accept-unknown-type",
    "verified",
    rules="O-2 L-8",
    comment="An event of a type that nobody knows.",
    path=PROOF,
)
def _() -> Files:
    run = opened()
    run.add("x-future", {"a": 1})
    run.note()
    return document(run, 3)


def fails(phrase: str, check: str, comment: str, change: Callable[[Any], Any], rules: str = "O-2") -> None:
    vector("proof", phrase, "failed", check, rules=rules, comment=comment, path=PROOF)(
        lambda: document(short(calls=3), 4, change)
    )


def _private(proof: Any) -> None:
    proof["event"]["event"]["private"]["response_sha256"]["value"] = "0" * 64


def _note(proof: Any, **changes: Any) -> None:
    run = short(calls=3)
    values = {"docket": run.docket, "size": run.size, "root": run.frontier.root(), "key": run.sessions[0].key} | changes
    proof["checkpoint"] = checkpoint.sign(**values).decode()


fails("another-member", "proof.form", "A proof document is exact.", put("note", "x"), "O-1")
fails("without-start", "proof.form", "No start.", drop("start"), "O-1")
fails("docket-of-another-form", "proof.form", "No docket number.", put("docket", "DKT-1"), "O-1")
fails("event-changed", "proof.event", "A figure of the event is altered.", bump("event.event.data.bytes"))
fails("event-private-changed", "proof.event", "A disclosed value of the event is altered.", _private)
fails("event-malformed", "proof.event", "The event lacks a member.", drop("event.event.by"))
fails("start-changed", "proof.event", "The start's run key is another.", bump("start.event.data.run_key"))
fails(
    "start-is-no-start", "proof.event", "Another event in the place of the start.", lambda p: p.update(start=p["event"])
)
fails("docket-of-another-run", "proof.event", "The number of another run.", put("docket", "DKT-20261130-9999999999"))
fails(
    "event-of-another-run",
    "proof.inclusion",
    "An event of another run.",
    lambda p: p["event"].update(event=proof_of(short(docket="DKT-20261130-9999999999", calls=3), 4)["event"]["event"]),
)  # type: ignore[call-overload,index]
fails("index-of-another-event", "proof.inclusion", "The index is not the event's seq.", bump("event.proof.index"))
fails("size-changed", "proof.inclusion", "The size is not the checkpoint's.", bump("event.proof.size"))
fails("hash-changed", "proof.inclusion", "A hash of the proof is altered.", bump("event.proof.hashes.0"))
fails("hashes-cut", "proof.inclusion", "A hash of the proof is missing.", lambda p: p["event"]["proof"]["hashes"].pop())
fails("start-hash-changed", "proof.inclusion", "A hash of the start's proof is altered.", bump("start.proof.hashes.0"))
fails("checkpoint-no-note", "proof.inclusion", "The checkpoint is no note.", put("checkpoint", "x"))
fails(
    "checkpoint-of-another-root",
    "proof.inclusion",
    "A signed note with another root.",
    lambda p: _note(p, root=b"\x01" * 32),
)
fails(
    "checkpoint-by-another-key",
    "proof.checkpoint",
    "The note is signed by another key.",
    lambda p: _note(p, key=key("mallory")),
)
fails(
    "checkpoint-of-another-docket",
    "proof.checkpoint",
    "The note is of another docket.",
    lambda p: _note(p, docket="DKT-20261130-9999999999"),
)


@vector(
    "proof",
    "start-of-the-first-session",
    "failed",
    "proof.checkpoint",
    rules="O-2",
    comment="The start of the first session under a checkpoint of the second.",
    path=PROOF,
)
def _() -> Files:
    run = two_sessions()
    return document(run, 2, lambda proof: proof.update(start=proof_of_start(run)))


def proof_of_start(run: Recording) -> Any:
    return proof_of(run, 0)["event"]


@vector(
    "proof",
    "endorsement-of-another-run",
    "failed",
    "endorsement",
    rules="R-12 O-2",
    comment="The start carries the endorsement of another run.",
    path=PROOF,
)
def _() -> Files:
    run = Recording(operator=OPERATOR)
    theirs = Recording(operator=OPERATOR, docket="DKT-20261130-9999999999").start().data["endorsement"]
    run.start(endorse=False, endorsement=theirs)
    run.note()
    return document(run, 0)


@vector(
    "proof", "not-canonical", "failed", "proof.form", rules="C-2 O-1", comment="White space in a proof.", path=PROOF
)
def _() -> Files:
    return {PROOF: document(short(), 2)[PROOF].replace(b'"index":2', b'"index": 2')}


@vector("documents", "nothing", "unreadable", rules="P-1", comment="A directory with neither receipt nor ledger.")
def _() -> Files:
    return {}


@vector("documents", "checkpoints-alone", "unreadable", rules="P-1", comment="Checkpoints without a ledger.")
def _() -> Files:
    return {"checkpoints": short().ledger_files()["checkpoints"]}


@vector(
    "documents", "another-file", "unreadable", rules="P-1", comment="A file that is none of these.", path="notes.txt"
)
def _() -> Files:
    return {"notes.txt": b"verified\n"}


@vector("documents", "empty-file", "unreadable", rules="P-1", comment="A file of no bytes.", path="ledger.jsonl")
def _() -> Files:
    return {"ledger.jsonl": b""}


@vector(
    "documents",
    "receipt-of-another-version",
    "unreadable",
    rules="P-1",
    comment="docket-receipt/2.",
    path="receipt.json",
)
def _() -> Files:
    return {
        "receipt.json": short()
        .files()["receipt.json"]
        .replace(b'"format":"docket-receipt/1"', b'"format":"docket-receipt/2"')
    }


@vector(
    "documents",
    "receipt-of-another-version-in-a-run",
    "unreadable",
    rules="P-1",
    comment="docket-receipt/2 beside a right ledger.",
)
def _() -> Files:
    files = short().files()
    return {
        **files,
        "receipt.json": files["receipt.json"].replace(b'"format":"docket-receipt/1"', b'"format":"docket-receipt/2"'),
    }


@vector("documents", "proof-of-another-version", "unreadable", rules="P-1", comment="docket-proof/2.", path=PROOF)
def _() -> Files:
    return {PROOF: document(short(), 2)[PROOF].replace(b"docket-proof/1", b"docket-proof/2")}


@vector(
    "documents",
    "receipt-empty-in-a-run",
    "unreadable",
    rules="P-1",
    comment="A receipt of no bytes beside a right ledger.",
)
def _() -> Files:
    return {**short().files(), "receipt.json": b""}


@vector(
    "documents",
    "accept-receipt-under-another-name",
    "verified",
    rules="P-1",
    comment="A receipt is known by its first line, not by its name.",
    path="handed-over.txt",
)
def _() -> Files:
    return {"handed-over.txt": short().files()["receipt.json"]}


@vector(
    "documents",
    "accept-ledger-under-another-name",
    "unsealed",
    rules="P-1",
    comment="So is a ledger.",
    path="handed-over.log",
)
def _() -> Files:
    return {"handed-over.log": short().files()["ledger.jsonl"]}
