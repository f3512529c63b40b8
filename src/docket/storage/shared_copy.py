"""Handing over less than a whole run: a copy with values withheld, or one event with its proof.

Invariant: the run that is read is never written; what is handed over verifies like the original.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from docket.errors import FormatError, UsageError
from docket.ledger import checkpoint
from docket.ledger.chain import Chain, Entry, read_entry
from docket.ledger.events import SessionStart
from docket.primitives.canonical import Json, JsonObject, decode_object, encode
from docket.primitives.merkle import ProofBuilder
from docket.receipt.redaction import Withholding
from docket.storage.documents import CHUNK, chunks_of
from docket.storage.durable import DIRECTORY_MODE, READ_BYTES
from docket.storage.paths import BLOBS, CHECKPOINTS, LEDGER, MAX_DOCUMENT, SNAPSHOT
from docket.storage.regular import open_regular, read_regular
from docket.verify.lines import Lines

MAX_NOTES = 1 << 28
"""Bytes of checkpoints that are read: those of two hundred million events."""
PROOF_FORMAT = "docket-proof/1"


def redact(run: Path, target: Path, withholding: Withholding, *, bodies: bool, snapshot: bool) -> None:
    """Copy the run directory ``run`` to the new directory ``target`` with values withheld.

    ``bodies`` and ``snapshot`` say whether kept bodies and the snapshot go with it. Raises UsageError if ``target``
    exists or lies in ``run``, FormatError where a document cannot be read whole.
    """
    run = run.resolve()
    if target.resolve().is_relative_to(run):
        raise UsageError(f"{target} lies inside the run itself")
    try:
        target.mkdir(mode=DIRECTORY_MODE)
    except OSError as error:
        raise UsageError(f"cannot make {target}: {error.strerror}", hint="name a directory that is new") from error
    for path in sorted(run.iterdir()):
        if path.name == LEDGER or (path.name.startswith("receipt") and path.suffix == ".json"):
            _write(target / path.name, _withheld(path, withholding))
        elif path.name == CHECKPOINTS:
            _write(target / path.name, chunks_of(path))
        elif (path.name == BLOBS and bodies) or (path.name.startswith(SNAPSHOT) and snapshot):
            _copy_tree(path, target / path.name)


def _copy_tree(source: Path, target: Path) -> None:
    """Copy the directory ``source``; what is no regular file in it makes the copy fail. Raises FormatError."""
    try:
        shutil.copytree(source, target, copy_function=_copy_file, symlinks=True)
    except (shutil.Error, OSError) as error:
        raise FormatError(f"{source} cannot be copied: it holds what is no regular file, or cannot be read") from error


def _copy_file(source: str, target: str) -> None:
    with os.fdopen(open_regular(source), "rb") as read:
        _write(Path(target), iter(lambda: read.read(READ_BYTES), b""))


def prove(run: Path, seq: int) -> JsonObject:
    """The proof document of event ``seq`` under the last whole checkpoint of the run directory ``run``.

    Raises UsageError where no checkpoint covers it, FormatError where ledger or checkpoints cannot be read.
    """
    notes, _ = checkpoint.split(_all_of(run / CHECKPOINTS))
    note = checkpoint.parse(notes[-1]) if notes else None
    if note is None or seq >= note.size:
        raise UsageError(
            f"no checkpoint of {run} covers event {seq}" + (f": the last is over {note.size} events" if note else "")
        )
    chain, wanted, start = Chain(), None, None
    for entry in _entries(run / LEDGER):
        watch = entry.seq == seq or entry.type == SessionStart.type
        proof = chain.follow(entry, watch=watch)
        if proof is not None and entry.type == SessionStart.type:
            start = (entry, proof)
        if proof is not None and entry.seq == seq:
            wanted = (entry, proof)
        if chain.size == note.size:
            break
    if wanted is None or start is None or chain.size != note.size or chain.root() != note.root:
        raise FormatError(f"{run / LEDGER} is not the ledger of its last checkpoint", hint="docket verify says why")
    return {
        "format": PROOF_FORMAT,
        "docket": note.origin.removeprefix("docket/"),
        "checkpoint": notes[-1].decode(),
        "event": _proven(chain, *wanted),
        "start": _proven(chain, *start),
    }


def _all_of(path: Path) -> bytes:
    data = b"".join(islice(chunks_of(path), MAX_NOTES // CHUNK + 1))
    if len(data) > MAX_NOTES:
        raise FormatError(f"{path} is larger than {MAX_NOTES} bytes")
    return data


def _proven(chain: Chain, entry: Entry, proof: ProofBuilder) -> JsonObject:
    hashes: list[Json] = [each.hex() for each in chain.frontier.proof(proof)]
    return {"event": entry.to_json(), "proof": {"index": entry.seq, "size": chain.size, "hashes": hashes}}


def _entries(path: Path) -> Iterator[Entry]:
    for number, line in enumerate(Lines(chunks_of(path))):
        try:
            yield read_entry(line)
        except FormatError as error:
            raise FormatError(str(error), where=f"{path}, event {number}") from error


def _withheld(path: Path, withholding: Withholding) -> Iterator[bytes]:
    lines = Lines(chunks_of(path)) if path.name == LEDGER else _lines_of_receipt(path)
    for number, line in enumerate(lines):
        try:
            yield encode(withholding.apply(decode_object(line))) + b"\n"
        except FormatError as error:
            raise FormatError(str(error), where=f"{path}, line {number}") from error
    if lines.oversize:
        raise FormatError(f"{path} holds a line that is longer than an event may be")
    if lines.rest:
        raise FormatError(f"{path} ends in a torn line", hint="docket doctor --quarantine-torn-tail sets it aside")


def _lines_of_receipt(path: Path) -> Lines:
    """The one line of a receipt, read whole: it may be longer than an event. Raises FormatError."""
    try:
        return Lines([read_regular(path, MAX_DOCUMENT)], MAX_DOCUMENT)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from error


def _write(path: Path, parts: Iterator[bytes]) -> None:
    fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(fd, "wb") as file:
        file.writelines(parts)
