"""The receipt against the ledger: what only the ledger can show."""

from __future__ import annotations

from typing import Any

from docket.verify import decimals, ledger_totals
from docket.verify.canonical import encode
from docket.verify.context import Case
from docket.verify.report import Violation


def starts(case: Case) -> str:
    receipt, walk = case.need_receipt(), case.need_walk()
    listed = receipt["starts"]
    if len(listed) != len(walk.sessions):
        raise Violation(f"receipt.starts: {len(listed)} where the ledger has {len(walk.sessions)}")
    for number, (start, session) in enumerate(zip(listed, walk.sessions, strict=True)):
        path = f"receipt.starts[{number}]"
        if start["event"]["hash"] != session.hash:
            raise Violation(f"{path} is not the start in the ledger")
        if number == len(listed) - 1:
            continue
        if start.get("end", {}).get("event", {}).get("hash", "") != session.end_hash:
            raise Violation(f"{path}.end is not the last end of that session in the ledger")
        if case.notes is not None:
            note = session.note.text.decode() if session.note else None
            if start.get("checkpoint") != note:
                raise Violation(f"{path}.checkpoint is not the last one of that session in the file")
    return f"{len(listed)} starts"


def usage(case: Case) -> str:
    receipt, walk = case.need_receipt(), case.need_walk()
    tree = {"size": walk.usage_tree.size, "root": walk.usage_tree.root().hex()}
    wrong = ledger_totals.difference(receipt["usage"], tree, "receipt.usage")
    if wrong:
        raise Violation(wrong)
    return f"{walk.usage_tree.size} metered events"


def totals(case: Case) -> str:
    receipt, walk = case.need_receipt(), case.need_walk()
    expected = walk.figures.totals(receipt["ops"]["evidence"])
    wrong = ledger_totals.difference(receipt["totals"], expected, "receipt.totals")
    if wrong:
        raise Violation(wrong)
    return "the ledger gives the totals"


def latency(case: Case) -> str:
    receipt, walk = case.need_receipt(), case.need_walk()
    for name, expected in walk.figures.latency().items():
        wrong = ledger_totals.difference(receipt["latency"][name], expected, f"receipt.latency.{name}")
        if wrong:
            raise Violation(wrong)
    return "the ledger gives the latency"


def activity(case: Case) -> str:
    receipt, walk = case.need_receipt(), case.need_walk()
    for path, expected in walk.figures.activity().items():
        found: Any = receipt
        for name in path.split("."):
            found = found.get(name)
            if found is None:
                break
        if encode(found) != encode(expected):
            raise Violation(
                f"receipt.{path} is {encode(found).decode()} where the ledger gives {encode(expected).decode()}"
            )
    breach, expected = receipt["session"].get("breach"), walk.figures.breach
    if expected is None and breach is not None and "seq" not in breach:
        expected = breach  # its event is among the lost ones
    if (breach is None) != (expected is None):
        raise Violation("receipt.session.breach: the ledger has " + ("none" if expected is None else "one"))
    wrong = ledger_totals.difference(breach or {}, expected or {}, "receipt.session.breach")
    if wrong:
        raise Violation(wrong)
    hits, cache = walk.figures.types["model.cache_hit"], receipt.get("cache", {"hits": 0})
    if cache["hits"] != hits:
        raise Violation(f"receipt.cache.hits: the ledger has {hits}")
    saved = decimals.spell(walk.figures.saved)
    if cache.get("saved_usd", saved) != saved:
        raise Violation(f"receipt.cache.saved_usd: the ledger gives {saved}")
    return "the ledger gives every count"
