"""The one way in which a file of a run is opened, and the one in which a file that a caller names is read.

Invariant: neither waits (a FIFO without a writer), nor does anything to a device, nor follows a link on the last step
of a name inside a run; what is no regular file is an OSError with its reason.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FILE_MODE = 0o600
_CREATES = os.O_CREAT | os.O_EXCL


def open_regular(
    name: str | Path, flags: int = os.O_RDONLY, *, directory: int | None = None, follow: bool = False
) -> int:
    """Return a descriptor of the regular file ``name`` in the open ``directory``; created with 0600, closed on exec.

    ``follow`` allows a link as the last step: for names that a caller gave. In a directory the file must be of its
    owner, of this process's user or of root. Raises OSError.
    """
    links = 0 if follow else os.O_NOFOLLOW
    if flags & _CREATES != _CREATES:
        try:
            _check(os.stat(name, dir_fd=directory, follow_symlinks=follow), name, directory)  # opening can act already
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
    fd = os.open(name, flags | links | os.O_CLOEXEC | os.O_NONBLOCK, FILE_MODE, dir_fd=directory)
    try:
        _check(os.fstat(fd), name, directory)
    except OSError:
        os.close(fd)
        raise
    return fd


def read_regular(path: Path, limit: int) -> bytes:
    """Return all bytes of the regular file ``path``, which a caller named. Raises OSError, EFBIG beyond ``limit``."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", str(path))
    return data


def _check(found: os.stat_result, name: str | Path, directory: int | None) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "is a link", str(name))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(name))
    if directory is not None and found.st_uid not in (os.fstat(directory).st_uid, os.geteuid(), 0):
        raise OSError(errno.EPERM, "belongs to another user", str(name))
