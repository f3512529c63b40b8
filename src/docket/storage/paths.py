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
from docket.storage.durable import DIRECTORY_MODE, FILE_MODE, READ, Disk, SystemDisk, read_all

LEDGER = "ledger.jsonl"
CHECKPOINTS = "checkpoints"
RECEIPT = "receipt.json"
BLOBS = "blobs"
SNAPSHOT = "snapshot"
RESTORES = "restores"
LOCK = "lock"
RESERVE = "reserve"
LATEST = "latest"
RUNS = "runs"
NUMBER = re.compile(r"DKT-[0-9]{8}-[0-9A-HJKMNP-TV-Z]{10}")
"""A docket number: UTC date and ten characters of Crockford's base32."""
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

    @classmethod
    def create(cls, docket_dir: Path, number: str, disk: Disk | None = None) -> RunDirectory:
        """Make the directory of the new run ``number`` under ``docket_dir``, durably, and point ``latest`` at it.

        Raises UsageError where that is not possible.
        """
        disk = disk or SystemDisk()
        path = docket_dir / RUNS / number
        try:
            _make_docket_dir(docket_dir, disk)
            path.mkdir(mode=DIRECTORY_MODE)
            fd = os.open(path, _DIRECTORY)
            _sync_path(disk, path.parent)
            point_latest(docket_dir, number)
        except OSError as error:
            raise UsageError(
                f"cannot make the run directory {path}: {error.strerror}",
                hint="choose a directory that can be written with --docket-dir",
            ) from error
        return cls(path, fd, disk)

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
        """All bytes of the file ``name``, or None if there is none. Raises LedgerError if it cannot be read."""
        try:
            fd = self.disk.open(name, READ, self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"cannot read {self.path / name}: {error.strerror}") from error
        try:
            return read_all(self.disk, fd)
        finally:
            self.disk.close(fd)

    def close(self) -> None:
        os.close(self.fd)


def runs_in(docket_dir: Path) -> list[Path]:
    """The run directories under ``docket_dir``, oldest first."""
    with suppress(FileNotFoundError, NotADirectoryError):
        found = [path for path in (docket_dir / RUNS).iterdir() if NUMBER.fullmatch(path.name) and path.is_dir()]
        return sorted(found, key=lambda path: (path.stat().st_ctime_ns, path.name))
    return []


def find_run(docket_dir: Path, name: Path) -> Path:
    """The run directory that ``name`` means: a path, ``latest``, or a docket number. Raises UsageError for none."""
    for path in (name, docket_dir / name, docket_dir / RUNS / name):
        if path.is_dir() and NUMBER.fullmatch(path.resolve().name):
            return path.resolve()
    raise UsageError(f"no run {name}", hint="docket ls lists runs; latest is the newest")


def _make_docket_dir(docket_dir: Path, disk: Disk) -> None:
    if not docket_dir.is_dir():
        docket_dir.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        _sync_path(disk, docket_dir.resolve().parent)
    (docket_dir / RUNS).mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    with suppress(FileExistsError):
        fd = os.open(docket_dir / ".gitignore", os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
        try:
            os.write(fd, b"*\n")
        finally:
            os.close(fd)
    _sync_path(disk, docket_dir)


def _sync_path(disk: Disk, path: Path) -> None:
    fd = os.open(path, _DIRECTORY)
    try:
        disk.sync_directory(fd)
    finally:
        os.close(fd)


def point_latest(docket_dir: Path, number: str) -> None:
    """Let ``latest`` be the run ``number``."""
    temporary = docket_dir / f".{LATEST}.{number}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path(RUNS) / number)
    temporary.rename(docket_dir / LATEST)
