"""One run as one file: a deterministic tar (POSIX ustar) that verifies as it is.

Invariant: the same run gives the same bytes, whoever archives it and when; only regular files of one run directory are
in it, under its docket number; what is read back is only ever looked at, never extracted, and must be, byte for byte,
what would be written of its members: so no other program can find another name, size or file in it.
"""

from __future__ import annotations

import os
import re
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
_PATH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
"""A member's path below its docket number: names that mean the same to every program and file system."""
_BLOCK, _RECORD = tarfile.BLOCKSIZE, tarfile.RECORDSIZE
_END = bytes(2 * _BLOCK)
Extent = tuple[int, int]
"""Where the bytes of a member are: offset and length."""


class _Held:
    """An open archive, closed with its last reader: what was looked at is what is read later."""

    def __init__(self, path: Path) -> None:
        self.path, self.fd = path, -1
        self.fd = open_regular(path, follow=True)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def read(self, size: int, at: int) -> bytes:
        """The ``size`` bytes from ``at`` on; fewer only where the file ends."""
        return os.pread(self.fd, size, at)


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
    """The documents of the archive ``path``, read from one descriptor that stays open as long as they are needed.

    Raises FormatError, with the reason, where it is not exactly what ``write_archive`` writes of one run.
    """
    try:
        file = _Held(path)
        members = _members(file)
    except OSError as error:
        raise FormatError(f"{path} is no readable archive: {error}") from error
    if LEDGER not in members and RECEIPT not in members:
        raise FormatError(f"{path} holds neither {RECEIPT} nor {LEDGER}")
    receipt = None
    if RECEIPT in members:
        at, size = members[RECEIPT]
        receipt = b"".join(_chunks(file, (at, min(size, MAX_BYTES + 1))))
    if LEDGER not in members:
        return Documents(receipt=receipt)
    notes = _chunks(file, members[CHECKPOINTS]) if CHECKPOINTS in members else iter(())
    return Documents(receipt=receipt, ledger=_chunks(file, members[LEDGER]), checkpoints=notes)


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
            if not _PATH.fullmatch(path):
                raise LedgerError(f"{run.path / path}: a name in an archive has letters, digits and . _ - only")
            found.append(path)
    return sorted(found)


def _add(archive: tarfile.TarFile, run: RunDirectory, name: str) -> None:
    fd = open_regular(name, directory=run.fd)
    with os.fdopen(fd, "rb") as file:
        try:
            archive.addfile(_header(f"{run.name}/{name}", os.fstat(fd).st_size), file)
        except ValueError as error:
            raise LedgerError(f"{run.path / name} does not fit into an archive: {error}") from error


def _header(name: str, size: int) -> tarfile.TarInfo:
    """What an archive says of a member: nothing but its name and size."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, FILE_MODE
    return member


def _members(file: _Held) -> dict[str, Extent]:
    """Every member of the archive by its path below the docket number. Raises FormatError."""
    path, length = file.path, os.fstat(file.fd).st_size
    members: dict[str, Extent] = {}
    known: set[str] = set()
    at, run, last = 0, "", ""
    while (block := file.read(_BLOCK, at)) != bytes(_BLOCK):
        member = _read_header(block, path, at)
        directory, _, name = member.name.partition("/")
        run = run or directory
        if len(members) >= MAX_MEMBERS or directory != run or not NUMBER.fullmatch(run) or not _PATH.fullmatch(name):
            raise FormatError(f"{path} is not the archive of one run: {member.name[:80]!r} is in it")
        if not {".", ".."}.isdisjoint(name.split("/")):
            raise FormatError(f"{path} holds {name[:80]!r}, which another program would look for elsewhere")
        if name <= last:
            raise FormatError(f"{path} holds {name[:80]!r} twice or out of order")
        _refuse_same_place(name, known, path)
        members[name], last = (at + _BLOCK, member.size), name
        end = at + _BLOCK + member.size
        at = end + -end % _BLOCK
        if file.read(at - end, end) != bytes(at - end):
            raise FormatError(f"{path} is cut off, or holds bytes of no member, behind {name[:80]!r}")
    end = at + len(_END)
    if length != end + -end % _RECORD:
        raise FormatError(f"{path} is cut off, or holds more than the archive that ends at byte {at}")
    if file.read(length - at, at) != bytes(length - at):
        raise FormatError(f"{path} holds bytes behind the archive's end, which is at byte {at}")
    return members


def _read_header(block: bytes, path: Path, at: int) -> tarfile.TarInfo:
    """The member that ``block`` begins: a regular file, described as ``write_archive`` describes it."""
    try:
        found = tarfile.TarInfo.frombuf(block, "ascii", "strict")
        if found.isreg():
            member = _header(found.name, found.size)
            if member.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict") == block:
                return member
        reason = "it begins no regular file as docket archives one"
    except (tarfile.HeaderError, ValueError) as error:
        reason = str(error)
    raise FormatError(f"{path} is no archive of docket's at byte {at}: {reason}")


def _refuse_same_place(name: str, known: set[str], path: Path) -> None:
    """Raise FormatError where a file system could put ``name`` in the place of an earlier member."""
    folded = name.casefold()
    parents = [folded[:at] for at, letter in enumerate(folded) if letter == "/"]
    if folded in known or any(f"{parent}\0" in known for parent in parents):
        raise FormatError(f"{path} holds {name[:80]!r} and another name that some file systems take for the same")
    known.update((folded, f"{folded}\0", *parents))


def _chunks(file: _Held, extent: Extent) -> Iterator[bytes]:
    """The bytes at ``extent`` of the open archive. Raises FormatError where they are gone."""
    at, left = extent
    while left:
        chunk = file.read(min(left, READ_BYTES), at)
        if not chunk:
            raise FormatError(f"{file.path} was cut off while it was read")
        at, left = at + len(chunk), left - len(chunk)
        yield chunk
