"""What the evidence of a run says about its files: read from the ledger, held against receipt and manifests.

Invariant: a manifest is used only where its bytes give the digest in the ledger, and a ledger only where its chain
holds and gives the root of the receipt that stands beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from docket.errors import FormatError
from docket.ledger.chain import MAX_LINE, Chain, read_entry
from docket.ledger.chain import Entry as LedgerEntry
from docket.primitives.canonical import Json, JsonObject, decode_object
from docket.snapshot.changes import Difference, differences
from docket.snapshot.directory import AFTER, BEFORE, SnapshotDirectory
from docket.snapshot.manifest import Entry, Header, Reader, text_from_json
from docket.storage.paths import LEDGER, RECEIPT, RunDirectory
from docket.storage.regular import open_regular


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One ``fs.snapshot`` event: the root it was of, and the digest of its manifest."""

    root: str
    manifest: str
    intact: bool
    at_ns: int
    """When the event was recorded, in nanoseconds since 1970."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Paths that are not covered or were left out by rule, with the reason: the first ones."""


@dataclass(kw_only=True)
class Changed:
    """What the run changed, and which directories it changed names in."""

    header: Header
    found: list[Difference]
    recorded_end: bool
    times: dict[str, tuple[Entry, Entry]] = field(default_factory=dict)


def read_taken(run: RunDirectory) -> tuple[Taken, Taken | None]:
    """The snapshots before and after the last session of ``run``. Raises FormatError: none, or damaged evidence."""
    size, root = _receipt_anchor(run)
    before: Taken | None = None
    after: Taken | None = None
    chain = Chain()
    for entry in _entries(run):
        try:
            chain.follow(entry)
        except FormatError as error:
            raise FormatError(f"the ledger is damaged at event {entry.seq}: {error}") from error
        if chain.size == size and chain.root().hex() != root:
            raise FormatError("the ledger is not the one that the receipt is of")
        if entry.type == "fs.snapshot":
            if entry.data.get("when") == "before":
                before, after = _taken(entry), None
            else:
                after = _taken(entry)
    if size is not None and chain.size < size:
        raise FormatError("the ledger is shorter than the receipt says")
    if before is None:
        raise FormatError(f"{run.name} recorded no snapshot of files")
    return before, after


def read_changes(directory: SnapshotDirectory, before: Taken, after: Taken | None) -> Changed:
    """What differs between the two manifests, or everything there was where the run recorded no end.

    Raises FormatError where a manifest is missing, malformed or not the one of the ledger.
    """
    times: dict[str, tuple[Entry, Entry]] = {}
    with ExitStack() as files:
        old = Reader(files.enter_context(directory.read(BEFORE)))
        if old.header.root != before.root:
            raise FormatError(f"{BEFORE} is of another directory than the ledger says")
        if after is None:
            found = [Difference(path=entry.path, before=entry, after=None) for entry in old]
            recorded = [(BEFORE, old, before)]
        else:
            new = Reader(files.enter_context(directory.read(AFTER)))
            found = list(differences(old, new, times))
            recorded = [(BEFORE, old, before), (AFTER, new, after)]
        for name, reader, taken in recorded:
            if reader.totals().sha256 != taken.manifest:
                raise FormatError(f"{name} is not the manifest that the ledger names")
        if after is not None and not after.intact:
            raise FormatError("the record of the files was changed while the run was going on")
        return Changed(header=old.header, found=found, recorded_end=after is not None, times=times)


def _taken(entry: LedgerEntry) -> Taken:
    try:
        root = text_from_json(_private(entry, "root"))
        manifest = _private(entry, "manifest")
    except KeyError as error:
        raise FormatError(f"event {entry.seq} withholds {error.args[0]}: nothing can be restored without it") from error
    if not isinstance(manifest, str):
        raise FormatError(f"event {entry.seq} names no manifest")
    left_out = []
    for member in ("uncovered", "ignored"):
        listed = _private_or_none(entry, member)
        for item in listed if isinstance(listed, list) else []:
            if isinstance(item, dict) and isinstance(item.get("reason"), str):
                left_out.append((text_from_json(item.get("path")), str(item["reason"])))
    return Taken(
        root=root,
        manifest=manifest,
        intact=entry.data.get("intact") is not False,
        at_ns=_instant_ns(entry.ts),
        left_out=tuple(left_out),
    )


def _instant_ns(ts: str) -> int:
    since = datetime.fromisoformat(ts) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1000


def _private(entry: LedgerEntry, name: str) -> Json:
    member = (entry.private or {}).get(name)
    if not isinstance(member, dict) or "value" not in member:
        raise KeyError(name)
    return member["value"]


def _private_or_none(entry: LedgerEntry, name: str) -> Json:
    try:
        return _private(entry, name)
    except KeyError:
        return None


def _receipt_anchor(run: RunDirectory) -> tuple[int | None, str | None]:
    """Size and root of the ledger according to the receipt; None where there is none."""
    data = run.read(RECEIPT)
    if data is None:
        return None, None
    receipt: JsonObject = decode_object(data.removesuffix(b"\n"))
    ledger = receipt.get("ledger")
    if not isinstance(ledger, dict) or type(ledger.get("size")) is not int or not isinstance(ledger.get("root"), str):
        raise FormatError(f"{RECEIPT} does not say which ledger it is of")
    return ledger["size"], ledger["root"]  # type: ignore[return-value]


def _entries(run: RunDirectory) -> Iterator[LedgerEntry]:
    """The whole lines of the ledger; a last one without its LF is a tear and no entry."""
    try:
        fd = open_regular(LEDGER, directory=run.fd)
    except OSError as error:
        raise FormatError(f"no readable {LEDGER} in {run.path}: {error.strerror}") from error
    file: BinaryIO
    with os.fdopen(fd, "rb", buffering=1 << 18) as file:
        number = 0
        while (line := file.readline(MAX_LINE + 1)).endswith(b"\n"):
            try:
                yield read_entry(line[:-1])
            except FormatError as error:
                raise FormatError(f"line {number + 1} of the ledger is no event: {error}") from error
            number += 1
        if len(line) > MAX_LINE:
            raise FormatError(f"line {number + 1} of the ledger is too long")
