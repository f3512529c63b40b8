"""Mutants of vectors: by bytes, tokens, lines, documents and structure; most kept canonical, made right again in part.

Everything is drawn from one seeded source, so that a mutant is told by seed and number alone.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from typing import Any

from conformance.restructure import restructure
from docket.errors import DocketError
from docket.ledger import checkpoint
from docket.primitives.canonical import decode_object, encode
from docket.primitives.digest import leaf_hash
from docket.primitives.merkle import Frontier, ProofBuilder
from docket.primitives.sealed import seal
from docket.primitives.signature import SigningKey
from docket.receipt import build
from kit.recordings import Files, Recording, key

DOCUMENTS = ("ledger.jsonl", "receipt.json", "proof.json")
TOKENS = (
    b"0",
    b"1",
    b"-1",
    b"9007199254740991",
    b"9007199254740992",
    b"1.0",
    b"-0",
    b"1e3",
    b"true",
    b"null",
    b'""',
    b"[]",
    b"{}",
    b'"\\ud800"',
    b'"x"',
)
VALUES: tuple[Any, ...] = (
    0,
    1,
    -1,
    2**53 - 1,
    True,
    False,
    None,
    "",
    "x",
    "0",
    "0.1",
    "1" * 64,
    [],
    {},
    [1],
    {"a": 1},
    "😀",
    "none",
    "partial",
    "m-2",
)
_TOKEN = re.compile(rb'-?[0-9]+(?=[,}\]])|"(?:[^"\\]|\\.)*"|true|false|null')


def mutant(base: Files, dice: random.Random) -> Files:
    """``base`` with one to three things changed."""
    files = {name: data for name, data in base.items() if name != "expect.toml"}
    kind = dice.random()
    if kind < 0.25:
        for _ in range(dice.randint(1, 2)):
            files = dice.choice(_RAW)(files, dice)
        return files
    if kind < 0.75:
        documents = _documents(files)
        for _ in range(dice.randint(1, 3)):
            restructure(documents, dice)
        return repaired(_spelled(files, documents), dice.randint(0, 4))
    for _ in range(dice.randint(1, 2)):
        files = dice.choice(_CANONICAL)(files, dice)
    return repaired(files, dice.randint(0, 4))


def _pick(files: Files, dice: random.Random) -> str | None:
    names = sorted(name for name in files if files[name] and "/" not in name)
    return dice.choice(names) if names else None


def flip_byte(files: Files, dice: random.Random) -> Files:
    """One bit, or a byte inserted, removed or replaced."""
    name = _pick(files, dice)
    if name is None:
        return files
    data = bytearray(files[name])
    at = dice.randrange(len(data))
    match dice.randrange(4):
        case 0:
            data[at] ^= 1 << dice.randrange(8)
        case 1:
            data[at:at] = bytes([dice.choice(b'\x00\n\r "{}[],:0\\\xff')])
        case 2:
            del data[at]
        case _:
            data[at] = dice.choice(b'\x00\n "{}[],:019\\\xffazAZ')
    return {**files, name: bytes(data)}


def swap_token(files: Files, dice: random.Random) -> Files:
    """One JSON token by another, of the same text or of the list of awkward ones."""
    name = _pick(files, dice)
    if name is None:
        return files
    found = list(_TOKEN.finditer(files[name]))
    if not found:
        return files
    one = dice.choice(found)
    new = dice.choice(TOKENS) if dice.random() < 0.6 else dice.choice(found)[0]
    return {**files, name: files[name][: one.start()] + new + files[name][one.end() :]}


def move_lines(files: Files, dice: random.Random) -> Files:
    """Lines dropped, doubled, swapped, cut, or joined."""
    name = dice.choice([each for each in ("ledger.jsonl", "checkpoints") if each in files] or [""])
    if not name or not files[name]:
        return files
    lines = files[name].splitlines(keepends=True)
    at = dice.randrange(len(lines))
    match dice.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            other = dice.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            del lines[at:]
        case 4:
            lines[-1] = lines[-1][: dice.randrange(len(lines[-1]) + 1)]
        case _:
            lines[at] = lines[at].rstrip(b"\n")
    return {**files, name: b"".join(lines)}


def drop_file(files: Files, dice: random.Random) -> Files:
    """A file gone, emptied, or cut short."""
    name = _pick(files, dice)
    if name is None:
        return files
    match dice.randrange(3):
        case 0:
            return {other: data for other, data in files.items() if other != name}
        case 1:
            return {**files, name: b""}
        case _:
            return {**files, name: files[name][: dice.randrange(len(files[name]))]}


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in ``value``."""
    found = [path] if path else []
    if isinstance(value, dict):
        for name in value:
            found += paths_of(value[name], (*path, name))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            found += paths_of(member, (*path, at))
    return found


def change_member(files: Files, dice: random.Random) -> Files:
    """One member of one document: changed, dropped, added, or copied from elsewhere in it."""
    documents = _documents(files)
    if not documents:
        return files
    name = dice.choice(sorted(documents))
    document = dice.choice(documents[name])
    places = paths_of(document)
    if not places:
        return files
    path = dice.choice(places)
    holder: Any = document
    for step in path[:-1]:
        holder = holder[step]
    old = holder[path[-1]]
    match dice.randrange(6):
        case 0:
            del holder[path[-1]]
        case 1 if isinstance(holder, dict):
            holder[dice.choice(("zz", "Aa", "__proto__", "private", "seq", "usage", "cost_usd"))] = copy.deepcopy(
                dice.choice(VALUES)
            )
        case 2:
            holder[path[-1]] = copy.deepcopy(dice.choice(VALUES))
        case 3:
            source: Any = document
            for step in dice.choice(places):
                source = source[step]
            holder[path[-1]] = copy.deepcopy(source)
        case 4 if isinstance(old, list) and old:
            dice.shuffle(old)
        case _:
            holder[path[-1]] = _near(old, dice)
    return _spelled(files, documents)


def _near(value: Any, dice: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + dice.choice((-1, 1, 1000))
    if isinstance(value, str) and value:
        at = dice.randrange(len(value))
        return value[:at] + dice.choice("0123456789abcdefx. ") + value[at + 1 :]
    return copy.deepcopy(dice.choice(VALUES))


def move_events(files: Files, dice: random.Random) -> Files:
    """Whole events dropped, doubled, swapped, or appended from elsewhere in the ledger."""
    documents = _documents(files)
    events = documents.get("ledger.jsonl")
    if not events:
        return files
    at = dice.randrange(len(events))
    match dice.randrange(4):
        case 0:
            del events[at]
        case 1:
            events.insert(at, copy.deepcopy(dice.choice(events)))
        case 2:
            other = dice.randrange(len(events))
            events[at], events[other] = events[other], events[at]
        case _:
            events.append(copy.deepcopy(events[at]))
    return _spelled(files, documents)


_RAW: tuple[Callable[[Files, random.Random], Files], ...] = (
    flip_byte,
    flip_byte,
    swap_token,
    swap_token,
    move_lines,
    drop_file,
)
_CANONICAL: tuple[Callable[[Files, random.Random], Files], ...] = (
    change_member,
    change_member,
    change_member,
    move_events,
)


def _documents(files: Files) -> dict[str, list[Any]]:
    """The documents that can be read; a file with one that cannot is left as it is."""
    found: dict[str, list[Any]] = {}
    for name in DOCUMENTS:
        if files.get(name, b"").endswith(b"\n"):
            try:
                found[name] = [decode_object(line) for line in files[name].splitlines()]
            except DocketError:
                continue
    return found


def _spelled(files: Files, documents: dict[str, list[Any]]) -> Files:
    changed = dict(files)
    for name, each in documents.items():
        try:
            changed[name] = b"".join(encode(document) + b"\n" for document in each)
        except (DocketError, TypeError):
            continue
    return changed


def repaired(files: Files, level: int) -> Files:
    """``files`` made right again as far as ``level``: 1 the chain, 2 notes, 3 bindings, 4 signatures."""
    documents = _documents(files)
    try:
        return _repaired(files, documents, level)
    except (DocketError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        return _spelled(files, documents)


def _repaired(files: Files, documents: dict[str, list[Any]], level: int) -> Files:
    events = documents.get("ledger.jsonl", [])
    tree, proofs, notes, last = Frontier(), {}, [], ""
    sizes = {int(size) for size in re.findall(rb"^docket/[^\n]*\n([0-9]{1,6})\n", files.get("checkpoints", b""), re.M)}
    signer = None
    for number, event in enumerate(events if level else []):
        event["seq"], event["prev"] = number, last or Recording().head
        data = event["data"]
        if event["type"] == "session.start":
            signer = key(f"{data['docket']} session {data['session']}")
            if "continues" in data:
                data["continues"] = {"size": number, "root": tree.root().hex(), "head": last}
        event.pop("hash", None)
        leaf = leaf_hash(encode(seal(event)))
        event["hash"] = last = leaf.hex()
        proofs[number] = tree.append_watched(leaf)
        if level > 1 and signer is not None and number + 1 in sizes:
            notes.append(checkpoint.sign(_docket(events), number + 1, tree.root(), signer))
    changed = _spelled(files, documents)
    if notes:
        changed["checkpoints"] = b"".join(notes)
    if level > 2 and "receipt.json" in documents:
        receipt = documents["receipt.json"][0]
        if events:
            _rebind(receipt, events, tree, proofs, notes)
        if level > 3:
            _resign(receipt)
        changed["receipt.json"] = encode(receipt) + b"\n"
    return changed


def _docket(events: list[Any]) -> str:
    return str(events[0]["data"]["docket"])


def _rebind(
    receipt: Any, events: list[Any], tree: Frontier, proofs: dict[int, ProofBuilder], notes: list[bytes]
) -> None:
    size = len(events)
    receipt["ledger"].update(size=size, root=tree.root().hex(), head=events[-1]["hash"])
    if notes:
        receipt["ledger"]["checkpoint"] = notes[-1].decode()
    for proven in [*receipt["starts"], *([receipt["end"]] if "end" in receipt else [])]:
        number = proven["event"]["seq"] if proven is not receipt.get("end") else size - 1
        hashes = [each.hex() for each in tree.proof(proofs[number])]
        proven.update(event=events[number], proof={"index": number, "size": size, "hashes": hashes})
    if "end" in receipt:
        data = receipt["end"]["event"]["data"]
        receipt["totals"], receipt["ops"] = data["totals"], data["ops"]


def _resign(receipt: Any) -> None:
    if receipt["kind"] == "recovered":
        return
    data = receipt["starts"][-1]["event"]["data"]
    operator: SigningKey | None = key("operator") if "endorsement" in data else None
    signed = build.sign(receipt, key(f"{data['docket']} session {data['session']}"), operator)
    receipt["signatures"] = signed["signatures"]
