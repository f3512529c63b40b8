"""Moving the bytes of a torn write aside: never deleted, never overwritten, idempotent, crash-safe at every call.

The sidecar is whole and durable before the file is cut; a crash between leaves both, and the next attempt finds its
own sidecar by name and content.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from docket.errors import LedgerDamagedError, LedgerWriteError
from docket.storage.durable import WRITE, write_new
from docket.storage.paths import RunDirectory

MAX_TORN = 4 << 20
"""Bytes that are moved in one piece: the recovery table allows a tear of 1 MiB, and notes are smaller still."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """What was moved where. ``offset`` is where it stood, in bytes."""

    sidecar: str
    offset: int
    bytes: int
    sha256: str


def quarantine(run: RunDirectory, name: str, offset: int) -> Quarantined:
    """Move everything from ``offset`` of the file ``name`` to ``<stem>.torn.<offset>.<sha256>``.

    For the holder of the lock alone. Raises LedgerWriteError where the disk refuses; nothing is lost then.
    """
    disk = run.disk
    try:
        fd = disk.open(name, WRITE, run.fd)
        try:
            size = disk.fstat(fd).size
            if size - offset > MAX_TORN:
                raise LedgerDamagedError(f"{size - offset} bytes of {run.path / name} are no torn write")
            torn = b""
            while part := disk.read(fd, size - offset - len(torn), offset + len(torn)):
                torn += part
            digest = hashlib.sha256(torn).hexdigest()
            sidecar = f"{name.removesuffix('.jsonl')}.torn.{offset}.{digest}"
            if torn:
                _keep(run, sidecar, torn)
            disk.truncate(fd, offset)
            disk.sync(fd)
        finally:
            disk.close(fd)
    except OSError as error:
        raise LedgerWriteError(f"cannot quarantine the end of {run.path / name}: {error.strerror}") from error
    return Quarantined(sidecar, offset, len(torn), digest)


def _keep(run: RunDirectory, sidecar: str, torn: bytes) -> None:
    try:
        write_new(run.disk, sidecar, torn, run.fd)
    except FileExistsError:
        kept = run.read(sidecar)
        if kept != torn:
            raise LedgerDamagedError(f"{run.path / sidecar} exists and does not hold what its name says") from None
