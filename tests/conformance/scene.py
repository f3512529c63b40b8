"""What generators share: a short run, and ways to change one thing in it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from docket.primitives.canonical import JsonObject, decode_object, encode
from docket.primitives.digest import leaf_hash
from docket.primitives.sealed import seal
from docket.receipt import build
from kit.recordings import Files, Recording, key

OPERATOR = key("operator")
LEDGER_ONLY = ("ledger.jsonl",)


FINDING: dict[str, Any] = {
    "rule": "retry-storm",
    "severity": "warning",
    "confidence": "deterministic",
    "summary": "It failed twice.",
    "seqs": [2, 3],
    "count": 2,
    "impact": {"is": "exact", "usd": "0.5"},
    "remedy": "Wait longer.",
}
"""As a receipt holds it."""


def short(
    *, signed: bool = False, calls: int = 1, docket: str = "DKT-20261130-0123456789", policy: JsonObject | None = None
) -> Recording:
    """A start, a checkpoint, calls, an end."""
    run = Recording(docket=docket, operator=OPERATOR if signed else None, policy=policy or {})
    run.start()
    run.note()
    for _ in range(calls):
        run.call()
    run.end()
    return run


def opened(calls: int = 1) -> Recording:
    """A run that has not ended."""
    run = Recording()
    run.start()
    run.note()
    for _ in range(calls):
        run.call()
    return run


def only(files: Files, *names: str) -> Files:
    return {name: files[name] for name in names}


def ledger_of(run: Recording) -> Files:
    return only(run.ledger_files(), "ledger.jsonl")


def replaced(files: Files, name: str, old: bytes, new: bytes) -> Files:
    """``files`` with the first ``old`` in ``name`` replaced."""
    assert old in files[name], old
    return {**files, name: files[name].replace(old, new, 1)}


def edit_line(files: Files, number: int, change: Callable[[bytes], bytes]) -> Files:
    """``files`` with line ``number`` of the ledger changed as bytes."""
    lines = files["ledger.jsonl"].splitlines(keepends=True)
    lines[number] = change(lines[number])
    return {**files, "ledger.jsonl": b"".join(lines)}


def edit_event(files: Files, number: int, change: Callable[[Any], Any]) -> Files:
    """``files`` with event ``number`` changed as a value; its hash stays what it was."""

    def edited(line: bytes) -> bytes:
        event = decode_object(line[:-1])
        change(event)
        return encode(event) + b"\n"

    return edit_line(files, number, edited)


def rehashed(line: bytes) -> bytes:
    """``line`` (an event without private members, in whatever spelling) with the hash that its own bytes give."""
    hashed = leaf_hash(re.sub(rb'"hash":"[0-9a-f]{64}",', b"", line.rstrip(b"\n"), count=1)).hex().encode()
    return re.sub(rb'"hash":"[0-9a-f]{64}"', b'"hash":"' + hashed + b'"', line, count=1)


def rechained(files: Files, start: int) -> Files:
    """``files`` with seq, prev and hash made right again from line ``start`` on: what a forger of a ledger can do."""
    events = [decode_object(line) for line in files["ledger.jsonl"].splitlines()]
    for number in range(start, len(events)):
        event = events[number]
        event["seq"] = number
        if number:
            event["prev"] = events[number - 1]["hash"]
        unhashed = {name: member for name, member in seal(event).items() if name != "hash"}
        event["hash"] = leaf_hash(encode(unhashed)).hex()
    return {**files, "ledger.jsonl": b"".join(encode(event) + b"\n" for event in events)}


def note_spelled(old: bytes, new: bytes) -> Files:
    """A ledger of a start and one event whose canonical line has ``old`` replaced by ``new``, and the hash to match."""
    run = Recording()
    run.start()
    run.add("note", {"text": "x", "n": 1})
    return edit_line(ledger_of(run), 1, lambda line: rehashed(replaced({"": line}, "", old, new)[""]))


def with_data(data: JsonObject) -> Files:
    """A ledger of a start and a note with these public members."""
    run = Recording()
    run.start()
    run.add("note", data)
    return ledger_of(run)


def edit_receipt(run: Recording, change: Callable[[Any], Any], *, sign: bool = False) -> Files:
    """The run directory with its receipt changed after it was signed, or before if ``sign``."""
    if sign:
        return run.files(edit=change)
    receipt = decode_object(run.files()["receipt.json"][:-1])
    change(receipt)
    return {**run.ledger_files(), "receipt.json": build.to_line(receipt)}


def edit_bare(run: Recording, change: Callable[[Any], Any], *, sign: bool = False) -> Files:
    """As ``edit_receipt``, the receipt alone."""
    return only(edit_receipt(run, change, sign=sign), "receipt.json")


def at(document: Any, path: str) -> tuple[Any, Any]:
    """The holder and the last step of a path such as ``usage.rows.0.call``."""
    steps: list[Any] = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps[:-1]:
        document = document[step]
    return document, steps[-1]


def put(path: str, value: Any) -> Callable[[Any], None]:
    """A change that puts ``value`` at ``path``."""

    def change(document: Any) -> None:
        holder, step = at(document, path)
        holder[step] = copy.deepcopy(value)

    return change


def drop(path: str) -> Callable[[Any], None]:
    """A change that removes what is at ``path``."""

    def change(document: Any) -> None:
        holder, step = at(document, path)
        del holder[step]

    return change


def bump(path: str) -> Callable[[Any], None]:
    """A change that makes what is at ``path`` another value of the same type and shape."""

    def change(document: Any) -> None:
        holder, step = at(document, path)
        holder[step] = other(holder[step])

    return change


def other(value: Any) -> Any:
    """Another value of the same type, and of the same shape where it is hex or a decimal."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return ("1" if value[:1] != "1" else "2") + value[1:]
    raise TypeError(value)


def withhold(document: Any, *names: str) -> None:
    """Replace disclosed members by their commitments: all of them, or those with ``names``."""
    if isinstance(document, dict):
        sealed: Any = seal(document)
        for name, member in document.items():
            if name != "private":
                withhold(member, *names)
                continue
            for each in member:
                if not names or each in names:
                    member[each] = {"commitment": sealed["private"][each]}
    elif isinstance(document, list):
        for member in document:
            withhold(member, *names)


def withheld(files: Files, *names: str) -> Files:
    """``files`` with private members withheld in ledger and receipt."""
    changed = dict(files)
    for name in ("ledger.jsonl", "receipt.json"):
        if name in files:
            documents = [decode_object(line) for line in files[name].splitlines()]
            for document in documents:
                withhold(document, *names)
            changed[name] = b"".join(encode(document) + b"\n" for document in documents)
    return changed
