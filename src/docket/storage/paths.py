"""Where a run lives: ``.docket/runs/<docket number>/``, opened once, by descriptor (evidence format section 2).

Owns docket numbers, the names inside a run directory and the ``latest`` link. Directories are 0700 and files 0600.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from docket.errors import LedgerError, UsageError
from docket.primitives.instant import timestamp
from docket.primitives.sealed import Entropy
from docket.storage.durable import (
    DIRECTORY_MODE,
    READ,
    Disk,
    SystemDisk,
    foreign_name,
    read_all,
    syncs_directories,
)
from docket.storage.place import LATEST, Place
from docket.storage.regular import open_regular

LEDGER = "ledger.jsonl"
CHECKPOINTS = "checkpoints"
RECEIPT = "receipt.json"
BLOBS = "blobs"
SNAPSHOT = "snapshot"
RESTORES = "restores"
LOCK = "lock"
RESERVE = "reserve"
RUNS = "runs"
NUMBER = re.compile(r"DKT-[0-9]{8}-[0-9A-HJKMNP-TV-Z]{10}")
"""A docket number: UTC date and ten characters of Crockford's base32."""
MAX_DOCUMENT = 64 * 2**20
"""Bytes of a receipt at most (evidence format section 1); every other file that is read whole is smaller."""
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def docket_number(unix_us: int, entropy: Entropy) -> str:
    """A new docket number, for example ``DKT-20261130-7Q2M9X4T0B``: 50 random bits after the date."""
    date = timestamp(unix_us)[:10].replace("-", "")
    return f"DKT-{date}-" + "".join(_ALPHABET[byte & 31] for byte in entropy(10))


def earlier_receipt(session: int) -> str:
    """The name that the receipt of ``session`` has once a later session has begun."""
    return f"receipt-{session}.json"


class RunDirectory:
    """One run's directory, held open; every file in it is reached through the descriptor."""

    def __init__(self, path: Path, fd: int, disk: Disk) -> None:
        self.path = path
        self.fd = fd
        self.disk = disk
        self.names_durable = True
        """Whether the file system can make the names in a directory durable; tried when a run begins."""
        self._place: Place | None = None

    @classmethod
    def create(cls, docket_dir: Path, number: str, disk: Disk | None = None) -> RunDirectory:
        """Make the directory of the new run ``number`` under ``docket_dir``, durably, and point ``latest`` at it.

        Raises UsageError where that is not possible.
        """
        disk = disk or SystemDisk()
        path = docket_dir / RUNS / number
        _check_links(docket_dir)
        try:
            _make_docket_dir(docket_dir, disk)
            path.mkdir(mode=DIRECTORY_MODE)
            run = cls(path, os.open(path, _DIRECTORY), disk)
            _sync_path(disk, path.parent)
            point_latest(docket_dir, number)
            run.watch_place()
        except OSError as error:
            raise UsageError(
                f"cannot make the run directory {path}: {error.strerror}",
                hint="choose a directory that can be written with --docket-dir",
            ) from error
        return run

    @classmethod
    def open(cls, path: Path, disk: Disk | None = None) -> RunDirectory:
        """Open the existing run directory ``path``; ``latest`` may be named. Raises UsageError if there is none."""
        path = path.resolve()
        try:
            fd = os.open(path, _DIRECTORY)
        except OSError as error:
            raise UsageError(f"no run directory at {path}: {error.strerror}", hint="docket ls lists runs") from error
        return cls(path, fd, disk or SystemDisk())

    @property
    def name(self) -> str:
        return self.path.name

    def read(self, name: str) -> bytes | None:
        """All bytes of the file ``name``, or None if there is none.

        Raises LedgerError if it cannot be read or has more than MAX_DOCUMENT bytes.
        """
        try:
            fd = self.disk.open(name, READ, self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"cannot read {self.path / name}: {error.strerror}") from error
        try:
            size = self.disk.fstat(fd).size
            if size > MAX_DOCUMENT:
                raise LedgerError(f"cannot read {self.path / name}: {size} bytes, where {MAX_DOCUMENT} are the most")
            return read_all(self.disk, fd)
        except OSError as error:
            raise LedgerError(f"cannot read {self.path / name}: {error.strerror}") from error
        finally:
            self.disk.close(fd)

    def watch_place(self) -> None:
        """From now on ``displaced`` compares the path with what it is now. Raises OSError."""
        self.names_durable = syncs_directories(self.fd)
        self._place = Place(self.path, self.fd, RECEIPT)

    def displaced(self) -> list[str]:
        """Return how another hand changed the way to this directory, or put a receipt into it, while the run goes on.

        Each is a short stable word; what can be undone is undone. Nothing where nobody asked to ``watch_place``.
        """
        if self._place is None:
            return []
        found = self._place.differences()
        for difference in found:
            self._place.restore(difference)
        with suppress(OSError):
            os.stat(RECEIPT, dir_fd=self.fd, follow_symlinks=False)
            found.append("receipt planted")
            os.rename(RECEIPT, foreign_name(RECEIPT), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        return found

    def where(self) -> Path:
        """Return where this directory is now: its path, or where somebody has moved it to, where that can be known."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self.fd), self.path.lstat()):
                return self.path
        with suppress(OSError):
            return Path(os.readlink(f"/proc/self/fd/{self.fd}"))
        return self.path

    def later(self) -> str | None:
        """Return the run that ``latest`` names now, if that is another one."""
        target = self._place.latest() if self._place is not None else None
        name = os.path.basename(target or "")
        return name if name and name != self.name else None

    def close(self) -> None:
        if self._place is not None:
            self._place.close()
        os.close(self.fd)


def runs_in(docket_dir: Path) -> list[Path]:
    """The run directories under ``docket_dir``, oldest first."""
    with suppress(FileNotFoundError, NotADirectoryError):
        found = [path for path in (docket_dir / RUNS).iterdir() if NUMBER.fullmatch(path.name) and _is_own(path)]
        return sorted(found, key=lambda path: (path.stat().st_ctime_ns, path.name))
    return []


def _is_own(path: Path) -> bool:
    """Whether ``path`` is a directory itself: what a link leads to is no run of this docket directory."""
    return path.is_dir() and not path.is_symlink()


def find_run(docket_dir: Path, name: Path) -> Path:
    """The run directory that ``name`` means: a path, ``latest``, or a docket number. Raises UsageError for none."""
    for path in (name, docket_dir / name, docket_dir / RUNS / name):
        if path.is_dir() and NUMBER.fullmatch(path.resolve().name):
            return path.resolve()
    raise UsageError(f"no run {name}", hint="docket ls lists runs; latest is the newest")


def _check_links(docket_dir: Path) -> None:
    """Raise UsageError for a link on the way that others could change, or a ``latest`` that is no link."""
    for name in (docket_dir, docket_dir / RUNS):
        if not name.is_symlink() or not name.exists():
            continue
        target = name.stat()
        if target.st_uid not in (os.geteuid(), 0) or target.st_mode & 0o022:
            raise UsageError(
                f"{name} is a link to a directory that others may change",
                hint="let it point to a directory of your own that nobody else may write, or use --docket-dir",
            )
    latest = docket_dir / LATEST
    if os.path.lexists(latest) and not latest.is_symlink():
        raise UsageError(f"{latest} is in the way: docket keeps a link there", hint="move it elsewhere")


def _make_docket_dir(docket_dir: Path, disk: Disk) -> None:
    if not docket_dir.is_dir():
        docket_dir.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        _sync_path(disk, docket_dir.resolve().parent)
    (docket_dir / RUNS).mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    with suppress(FileExistsError):
        fd = open_regular(docket_dir / ".gitignore", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        try:
            os.write(fd, b"*\n")
        finally:
            os.close(fd)
    _sync_path(disk, docket_dir.resolve())


def _sync_path(disk: Disk, path: Path) -> None:
    fd = os.open(path, _DIRECTORY)
    try:
        disk.sync_directory(fd)
    finally:
        os.close(fd)


def point_latest(docket_dir: Path, number: str) -> None:
    """Let ``latest`` be the run ``number``."""
    temporary = docket_dir / f".{LATEST}.{number}.{os.getpid()}"  # others may point it at the same run
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path(RUNS) / number)
    temporary.rename(docket_dir / LATEST)
