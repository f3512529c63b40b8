"""Faults that people reported of logs: a chain forked by two writers, ends cut off, the corners of canonical JSON."""

from __future__ import annotations

import json

from conformance.catalog import ROOT, vector
from conformance.scene import edit_line, ledger_of, only, opened, rehashed
from kit.recordings import Files, Recording

CORNERS = json.loads((ROOT / "tests" / "fixtures" / "json" / "canonical.json").read_text())["rows"]
ACCEPTED = frozenset({"no normalisation NFD", "no normalisation NFC"})
"""Corners that are canonical as they stand, on the subset of this format."""


def holding(spelled: bytes) -> Files:
    """A ledger whose event 1 holds this JSON text as a member, and has the hash that its own bytes give."""
    run = Recording()
    run.start()
    run.add("note", {"value": "here"})
    return edit_line(ledger_of(run), 1, lambda line: rehashed(line.replace(b'"here"', spelled, 1)))


for _row in CORNERS:
    _right = _row["name"] in ACCEPTED
    vector(
        "cases",
        f"canonical-{'accept-' if _right else ''}{_row['name'].lower().replace(' ', '-')}",
        "unfinished" if _right else "failed",
        "" if _right else "ledger.form",
        rules="C-2 C-3 C-4 C-5",
        comment=f"canonical form, {_row['name']}.",
    )(lambda spelled=_row["input_hex"]: holding(bytes.fromhex(spelled)))


@vector(
    "cases",
    "two-writers",
    "failed",
    "ledger.seq",
    rules="L-6",
    comment="Two writers append to one ledger, each from the head that it remembers.",
)
def _() -> Files:
    one, other = opened(0), opened(0)
    for number in range(3):
        one.add("note", {"writer": 1, "number": number})
        other.add("note", {"writer": 2, "number": number})
    lines = [run.ledger_files()["ledger.jsonl"].splitlines(keepends=True) for run in (one, other)]
    mixed = [lines[0][0], *(line for pair in zip(lines[0][1:], lines[1][1:], strict=True) for line in pair)]
    return {"ledger.jsonl": b"".join(mixed)}


def ten() -> Files:
    run = Recording()
    run.start()
    run.note()
    for _ in range(4):
        run.call()
    run.end()
    return run.files()


def cut(first: int, last: int) -> Files:
    files = ten()
    return {**files, "ledger.jsonl": b"".join(files["ledger.jsonl"].splitlines(keepends=True)[first:last])}


for _k in range(1, 11):
    vector(
        "cases",
        f"last-{_k}-of-ten-removed",
        "failed",
        "checkpoints.size",
        rules="T-5 B-1",
        comment=f"The last {_k} of ten events are gone.",
    )(lambda k=_k: cut(0, 10 - k))
    vector(
        "cases",
        f"last-{_k}-of-ten-removed-and-all-else",
        "unreadable" if _k == 10 else "unfinished",
        rules="P-1 P-7",
        comment=f"The last {_k} of ten events are gone, and so are receipt and checkpoints.",
    )(lambda k=_k: only(cut(0, 10 - k), "ledger.jsonl"))

for _k in (1, 5, 9):
    vector(
        "cases",
        f"first-{_k}-of-ten-removed",
        "failed",
        "ledger.seq",
        rules="L-6",
        comment=f"The first {_k} of ten events are gone.",
    )(lambda k=_k: cut(k, 10))
