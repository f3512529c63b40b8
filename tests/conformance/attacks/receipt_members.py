"""A member of the receipt is removed, changed, or put in anew; its signatures stay what they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.attacks.attack import Attack, Runs, with_receipt
from conformance.scene import replaced
from docket.primitives.canonical import decode_object, encode

CHANGES: tuple[tuple[str, Callable[[Any], Any], str], ...] = (
    ("another time of making", lambda r: r.update(created_at="2030-01-01T00:00:00.000000Z"), "signature.run"),
    ("an unknown member", lambda r: r.update(forged=True), "signature.run"),
    ("a limit struck out", lambda r: r["limits"].pop(), "signature.run"),
    ("limits emptied", lambda r: r["limits"].clear(), "receipt.form"),
    ("violations that no event tells of", lambda r: r["enforcement"].update(violations=7), "against.activity"),
    ("memory said to be hidden", lambda r: r["enforcement"]["mechanisms"].update(memory="hidden"), "signature.run"),
    ("another outcome", lambda r: r["session"].update(outcome="breached"), "end.figures"),
    ("another number of sessions", lambda r: r["session"].update(sessions=2), "starts.sessions"),
    ("another size", lambda r: r["ledger"].update(size=12), "checkpoints.last"),
    ("another root", lambda r: r["ledger"].update(root="0" * 64), "binding.root"),
    ("another head", lambda r: r["ledger"].update(head="0" * 64), "binding.head"),
    ("a cheaper total", lambda r: r["totals"].update(cost_usd="0.00001"), "end.figures"),
    ("fewer calls", lambda r: r["totals"].update(calls=2), "end.figures"),
    ("fewer tokens", lambda r: r["totals"]["tokens"].update(input=1), "end.figures"),
    ("another policy digest", lambda r: r["policy"].update(digest="0" * 64), "policy.digest"),
    ("another cap in the policy", lambda r: r["policy"]["document"]["caps"].update(max_tokens=5), "policy.digest"),
    ("a row struck out", lambda r: r["usage"]["rows"].pop(), "usage.rows"),
    ("a row doubled", lambda r: r["usage"]["rows"].append(r["usage"]["rows"][-1]), "usage.rows"),
    ("rows in another order", lambda r: r["usage"]["rows"].reverse(), "usage.rows"),
    ("another start's hash", lambda r: r["starts"][0]["event"].update(hash="0" * 64), "starts.event"),
    ("another proof of the start", lambda r: r["starts"][0]["proof"]["hashes"].reverse(), "starts.proof"),
    ("no start", lambda r: r["starts"].clear(), "receipt.form"),
    ("another end's hash", lambda r: r["end"]["event"].update(hash="0" * 64), "end.event"),
    ("another proof of the end", lambda r: r["end"]["proof"]["hashes"].reverse(), "end.proof"),
    ("another latency", lambda r: r["latency"]["total"].update(max=1), "against.latency"),
    ("events lost and not told", lambda r: r["ops"]["evidence"].update(unwritten_events=3), "end.figures"),
    ("another format", lambda r: r.update(format="docket-receipt/2"), ""),
    ("a kind of another receipt", lambda r: r.update(kind="recovered"), "receipt.form"),
)


def attacks(runs: Runs) -> Iterator[Attack]:
    """Every change above, and every member that must be there taken away."""
    plain = runs.plain
    for name, change, check in CHANGES:
        yield Attack(f"receipt: {name}", with_receipt(plain, change), check, "failed" if check else "unreadable")
    beyond = replaced(plain, "receipt.json", b'"calls":3', b'"calls":9007199254740992')
    yield Attack("receipt: a number beyond 2^53", beyond, "receipt.form")
    for member in sorted(decode_object(plain["receipt.json"][:-1])):
        removed = without(plain["receipt.json"], member)
        verdict, check = {
            "format": ("unreadable", ""),
            "end": ("failed", "ops.evidence"),  # a receipt may lack it, but then says nothing of a complete ledger
        }.get(member, ("failed", "receipt.form"))
        yield Attack(f"receipt: no {member}", {**plain, "receipt.json": removed}, check, verdict)


def without(receipt: bytes, member: str) -> bytes:
    """The receipt without a member."""
    document = decode_object(receipt[:-1])
    del document[member]
    return encode(document) + b"\n"
