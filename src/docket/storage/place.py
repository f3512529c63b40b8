"""Where a run directory is expected to be, compared with what the names on the way to it lead to.

A run directory is held open, so that writing goes on wherever it is moved to; a person finds it by its path. Invariant:
what is compared is device and inode of every directory on that path, and the ``latest`` link where it named this run.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

LATEST = "latest"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_Identity = tuple[int, int, int, int]


class Place:
    """The path of one run, as it was when the run began."""

    def __init__(self, path: Path, fd: int, receipt: str) -> None:
        """``path`` is ``DOCKET_DIR/runs/NUMBER``, ``fd`` the open run directory, ``receipt`` what receipts are called.

        Raises OSError where a name on the path leads nowhere.
        """
        self._path, self._held, self._receipt = path, fd, receipt
        self._docket_dir = path.parent.parent
        self._directory = os.open(self._docket_dir, _DIRECTORY)
        self._target = os.path.join(*path.parts[-2:])
        self._began_ns = os.fstat(fd).st_ctime_ns
        self._known = [
            (label, name, _identity(name))
            for label, name in (
                ("docket directory", self._docket_dir),
                ("directory of runs", path.parent),
                ("run directory", path),
            )
        ]
        self._is_latest = self.latest() == self._target

    def differences(self) -> list[str]:
        """Return how the path differs from what it was, as short stable words; nothing where it does not."""
        for label, name, known in self._known:
            with suppress(OSError):
                if _identity(name) != known:
                    return [f"{label} replaced"]
                continue
            return [f"{label} {'moved' if os.fstat(self._held).st_nlink else 'removed'}"]
        found = self._latest_differs() if self._is_latest else None
        return [] if found is None else [f"latest {found}"]

    def restore(self, difference: str) -> None:
        """Let ``latest`` name this run again, where it is a link or gone; anything else is left for a person."""
        if difference not in ("latest removed", "latest redirected"):
            return
        temporary = f".{LATEST}.{self._path.name}"
        with suppress(OSError):
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._directory)
            os.symlink(self._target, temporary, dir_fd=self._directory)
            os.rename(temporary, LATEST, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def latest(self) -> str | None:
        """Return what the ``latest`` link says, or None where there is no such link."""
        with suppress(OSError):
            return os.readlink(LATEST, dir_fd=self._directory)
        return None

    def close(self) -> None:
        """Let go of the docket directory."""
        os.close(self._directory)

    def _latest_differs(self) -> str | None:
        """Say how ``latest`` differs, unless it names this run or one that may have begun later.

        A later run takes ``latest`` over; one whose receipt is older than this run cannot have.
        """
        target = self.latest()
        if target == self._target:
            return None
        if target is None:
            try:
                os.stat(LATEST, dir_fd=self._directory, follow_symlinks=False)
            except OSError:
                return "removed"
            return "replaced"
        head, _, name = target.rpartition("/")
        if head != self._path.parent.name or name in ("", ".", ".."):
            return "redirected"
        try:
            named = os.stat(target, dir_fd=self._directory, follow_symlinks=False)
        except OSError:
            return "redirected"
        if not stat.S_ISDIR(named.st_mode):
            return "redirected"
        with suppress(OSError):
            receipt = os.stat(f"{target}/{self._receipt}", dir_fd=self._directory, follow_symlinks=False)
            if receipt.st_ctime_ns < self._began_ns:
                return "redirected"
        return None


def _identity(name: Path) -> _Identity:
    """Device and inode of the name itself and of what it leads to: a link in its place is another name."""
    itself, leads_to = os.lstat(name), os.stat(name)
    return itself.st_dev, itself.st_ino, leads_to.st_dev, leads_to.st_ino
