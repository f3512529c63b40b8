"""One run as one file: a deterministic tar (POSIX ustar) that verifies as it is.

Invariant: the same run gives the same bytes, whoever archives it and when; only regular files of one run directory are
in it, under its docket number; what is read back is only ever looked at, never extracted.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

from docket.errors import FormatError, LedgerError
from docket.storage.durable import READ_BYTES, temporary_name
from docket.storage.paths import CHECKPOINTS, LEDGER, LOCK, NUMBER, RECEIPT, RunDirectory
from docket.storage.regular import FILE_MODE, open_regular
from docket.verify.context import Documents
from docket.verify.receipt_shape import MAX_BYTES

_MAGIC, _MAGIC_AT = b"ustar", 257
"""Where a tar header says what it is (POSIX.1-2017, pax, ustar interchange format)."""
MAX_MEMBERS = 1_000_000
"""Files looked at of an archive that is read: bounds the index of one that somebody made up."""


def write_archive(run: RunDirectory, target: Path) -> int:
    """Write the archive of ``run`` to the new file ``target``; gives its size in bytes.

    Raises LedgerError where the run holds something that is no regular file, or the disk refuses.
    """
    temporary = target.with_name(temporary_name(target.name))
    try:
        with os.fdopen(open_regular(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY), "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
                for name in _names(run):
                    _add(archive, run, name)
            size = file.tell()
        os.link(temporary, target)
    except FileExistsError as error:
        raise LedgerError(
            f"{target} exists already", hint="an archive is never overwritten: choose another name"
        ) from error
    except (OSError, tarfile.TarError) as error:
        raise LedgerError(f"cannot write the archive {target}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return size


def is_archive(head: bytes) -> bool:
    """Whether ``head``, the first 512 bytes of a file, is a tar header, and no document: those begin with ``{``."""
    return head[:1] != b"{" and head[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC


def documents_in(path: Path) -> Documents:
    """The documents of the archive ``path``. Raises FormatError where it is not the archive of one run."""
    try:
        _refuse_cut(path)
        file = os.fdopen(open_regular(path, follow=True), "rb")
        with file, tarfile.open(fileobj=file, mode="r:") as archive:
            members = _members(archive, path)
    except (OSError, tarfile.TarError) as error:
        raise FormatError(f"{path} is no readable archive: {error}") from error
    if LEDGER not in members and RECEIPT not in members:
        raise FormatError(f"{path} holds neither {RECEIPT} nor {LEDGER}")
    receipt = b"".join(_chunks(path, members[RECEIPT], MAX_BYTES + 1)) if RECEIPT in members else None
    if LEDGER not in members:
        return Documents(receipt=receipt)
    notes = _chunks(path, members[CHECKPOINTS]) if CHECKPOINTS in members else iter(())
    return Documents(receipt=receipt, ledger=_chunks(path, members[LEDGER]), checkpoints=notes)


def _names(run: RunDirectory) -> list[str]:
    """Every file of the run, by its path, in an order that depends on nothing else."""
    found = []
    for root, directories, names, descriptor in os.fwalk(dir_fd=run.fd, follow_symlinks=False):
        directories.sort()
        for name in names:
            path = os.path.normpath(os.path.join(root, name))
            if path == LOCK or path.endswith(".tmp"):
                continue
            if not stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise LedgerError(f"{run.path / path} is no regular file: a run holds only such")
            found.append(path)
    return sorted(found)


def _add(archive: tarfile.TarFile, run: RunDirectory, name: str) -> None:
    fd = open_regular(name, directory=run.fd)
    with os.fdopen(fd, "rb") as file:
        member = tarfile.TarInfo(f"{run.name}/{name}")
        member.size = os.fstat(fd).st_size
        member.mode = FILE_MODE
        archive.addfile(member, file)


def _members(archive: tarfile.TarFile, path: Path) -> dict[str, tarfile.TarInfo]:
    members: dict[str, tarfile.TarInfo] = {}
    run: str | None = None
    for count, member in enumerate(archive):
        directory, _, name = member.name.partition("/")
        run = run or directory
        if count >= MAX_MEMBERS or not member.isreg() or directory != run or not NUMBER.fullmatch(run):
            raise FormatError(f"{path} is not the archive of one run: {member.name[:80]!r} is in it")
        if name in members:
            raise FormatError(f"{path} holds {name[:80]!r} twice")
        members[name] = member
    return members


def _refuse_cut(path: Path) -> None:
    """Raise FormatError unless the archive ends as one does: in two blocks of zeros."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 2 * tarfile.BLOCKSIZE))
        if file.read() != bytes(2 * tarfile.BLOCKSIZE):
            raise FormatError(f"{path} is cut off: its end is missing")


def _chunks(path: Path, member: tarfile.TarInfo, limit: int | None = None) -> Iterator[bytes]:
    """The bytes of ``member``, at most ``limit`` of them."""
    left = member.size if limit is None else min(member.size, limit)
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        file.seek(member.offset_data)
        while left and (chunk := file.read(min(left, READ_BYTES))):
            left -= len(chunk)
            yield chunk
