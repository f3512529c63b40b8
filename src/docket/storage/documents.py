"""From a path to what is to be verified: a run directory, a receipt or a ledger, opened and recognised.

Invariant: only regular files are read, in pieces; in a directory names decide, for a file its first line does. A name
that is there and no such file is an error, never a missing one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from docket.errors import FormatError
from docket.storage.archive import documents_in, is_archive
from docket.storage.paths import CHECKPOINTS, LEDGER, RECEIPT, RunDirectory
from docket.storage.regular import open_regular
from docket.verify.context import Documents
from docket.verify.lines import MAX_LINE
from docket.verify.receipt_shape import MAX_BYTES

CHUNK = 1 << 18
"""Bytes read at once: large enough for speed, small beside the memory a verification may take."""


def documents_at(path: Path) -> Documents:
    """The documents at ``path``. Raises FormatError where there is none that could be verified."""
    if path.is_dir():
        return _in_directory(path, None)
    with _open(path) as file:
        head = file.read(MAX_LINE)
        if is_archive(head):
            return documents_in(path)
        line = head[: head.find(b"\n") + 1] or (head + file.read(MAX_BYTES - len(head))).partition(b"\n")[0]
    if b'"format":"docket-proof/' in line:
        return Documents(proof=_read(path, MAX_BYTES + 1))
    if b'"format":"docket-receipt/' in line:
        return Documents(receipt=_read(path, MAX_BYTES + 1))
    if b'"prev":"' in line:
        return Documents(ledger=chunks_of(path))
    raise FormatError(
        f"{path} is neither a run directory nor a receipt nor a ledger",
        hint="give .docket/latest, a directory under .docket/runs, a receipt.json or a ledger.jsonl",
    )


def documents_of(run: RunDirectory) -> Documents:
    """The documents of the directory that ``run`` holds, whatever its path names meanwhile. Raises FormatError."""
    return _in_directory(run.path, run.fd)


def _in_directory(path: Path, fd: int | None) -> Documents:
    """What stands in the directory ``path``, reached through ``fd`` where that is held."""
    there = os.listdir(path if fd is None else fd)
    files = {name: _open(path / name, fd) for name in (RECEIPT, LEDGER, CHECKPOINTS) if name in there}
    receipt = None
    if RECEIPT in files:
        with files[RECEIPT] as file:
            receipt = file.read(MAX_BYTES + 1)
    if LEDGER not in files:
        if receipt is None:
            raise FormatError(
                f"{path} holds neither {RECEIPT} nor {LEDGER}",
                hint="docket ls lists runs; .docket/latest is the newest",
            )
        return Documents(receipt=receipt)
    notes = _pieces(files[CHECKPOINTS]) if CHECKPOINTS in files else iter(())
    return Documents(receipt=receipt, ledger=_pieces(files[LEDGER]), checkpoints=notes)


def _open(path: Path, directory: int | None = None) -> _File:
    """Open ``path``, or what its last name means in the open ``directory``. Raises FormatError."""
    try:
        if directory is not None:
            return _File(path, open_regular(path.name, directory=directory))
        return _File(path, open_regular(path, follow=True))
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise FormatError(f"{path} is not a regular file") from error
        raise FormatError(f"cannot read {path}: {error.strerror}") from error


class _File:
    """A descriptor whose read errors name the path."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path, self._fd = path, fd

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor, unless that was done."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        parts = []
        while size > 0:
            try:
                part = os.read(self._fd, min(size, CHUNK))
            except OSError as error:
                raise FormatError(f"cannot read {self._path}: {error.strerror}") from error
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _read(path: Path, limit: int) -> bytes:
    with _open(path) as file:
        return file.read(limit)


def chunks_of(path: Path) -> Iterator[bytes]:
    """The bytes of the regular file ``path``, in pieces. Raises FormatError where it cannot be read."""
    yield from _pieces(_open(path))


def _pieces(file: _File) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk
