"""Reading a run's ledger whole, with its checkpoints. Never writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from docket.errors import FormatError, LedgerError
from docket.ledger import checkpoint
from docket.ledger.chain import Entry
from docket.ledger.checkpoint import MAX_NOTE, Checkpoint
from docket.ledger.scan import Scan, Scanner
from docket.storage.durable import READ, READ_BYTES
from docket.storage.paths import CHECKPOINTS, LEDGER, RunDirectory
from docket.storage.reserve import kept_note


@dataclass(slots=True)
class NotesRead:
    """What the checkpoints file came to."""

    offset: int = 0
    """Bytes of the whole notes."""
    length: int = 0
    """Bytes of the file: more than ``offset`` where something stands behind them."""
    last: bytes = b""
    """The last whole note."""
    kept: bytes = b""
    """A right note in the reserve that says more than ``last``, if there is one."""
    fault: str | None = None
    """Why what stands behind the whole notes is no torn note, where it is none."""
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    """Running SHA-256 of the whole notes."""


@dataclass(frozen=True, slots=True)
class LedgerRead:
    """A run's record, checked against itself."""

    scan: Scan
    notes: NotesRead


def read_ledger(run: RunDirectory, fold: Callable[[Entry], None] | None = None) -> LedgerRead:
    """Check the ledger of ``run`` against itself and its checkpoints; ``fold`` sees every entry that holds.

    A note that a dead session could leave only in its reserve counts as the last checkpoint where it is right.

    Constant memory. Raises LedgerError where there is no ledger or it cannot be read.
    """
    notes = NotesRead()
    scanner = Scanner(_read_notes(run, notes))
    for part in _parts(run, LEDGER):
        for entry in scanner.feed(part):
            if fold is not None:
                fold(entry)
    scan = scanner.finish()
    kept = kept_note(run)
    if kept is not None and scanner.take_kept(checkpoint.parse(kept)):
        notes.kept = kept
    return LedgerRead(scan, notes)


def _read_notes(run: RunDirectory, read: NotesRead) -> Iterator[Checkpoint]:
    """The whole notes of the file, lazily; ``read`` is complete when they are exhausted."""
    rest, ended = b"", False
    for part in _parts(run, CHECKPOINTS, required=False):
        read.length += len(part)
        if ended:
            continue
        whole, rest = checkpoint.split(rest + part)
        for note in whole:
            parsed = _parse_note(note, read)
            if parsed is None:
                ended = True
                break
            read.offset += len(note)
            read.digest.update(note)
            read.last = note
            yield parsed
        if len(rest) > MAX_NOTE and not ended:
            ended = True
            read.fault = None if b"\0" in rest else "longer than a note"


def _parse_note(note: bytes, read: NotesRead) -> Checkpoint | None:
    try:
        return checkpoint.parse(note)
    except FormatError as error:
        read.fault = None if b"\0" in note else str(error)
        return None


def _parts(run: RunDirectory, name: str, *, required: bool = True) -> Iterator[bytes]:
    try:
        fd = _open(run, name)
    except LedgerError:
        if required:
            raise
        return
    try:
        offset = 0
        while part := run.disk.read(fd, READ_BYTES, offset):
            offset += len(part)
            yield part
    except OSError as error:
        raise LedgerError(f"cannot read {run.path / name}: {error.strerror}") from error
    finally:
        run.disk.close(fd)


def _open(run: RunDirectory, name: str) -> int:
    try:
        return run.disk.open(name, READ, run.fd)
    except OSError as error:
        raise LedgerError(f"cannot open {run.path / name}: {error.strerror}") from error
