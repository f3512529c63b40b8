"""The ``snapshot/`` directory of a run: its manifests, and the contents where they were stored.

Everything in it is reached by descriptor, and nothing in it is trusted: a manifest is held against the digest that
the ledger keeps, a content against its own name.
"""

from __future__ import annotations

import os
import shutil
from typing import BinaryIO

from docket.errors import FormatError
from docket.snapshot.content import ContentStore
from docket.storage.durable import DIRECTORY_MODE, sync_filesystem
from docket.storage.paths import SNAPSHOT, RunDirectory
from docket.storage.regular import open_regular

BEFORE, AFTER = "before.jsonl", "after.jsonl"
CONTENTS = "contents"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR


class SnapshotDirectory:
    """The directory, held open."""

    def __init__(self, fd: int, contents: ContentStore | None, contents_fd: int) -> None:
        self._fd = fd
        self.contents = contents
        self._contents_fd = contents_fd

    @classmethod
    def create(cls, run: RunDirectory, *, stored: bool) -> SnapshotDirectory:
        """Make it. Raises OSError."""
        os.mkdir(SNAPSHOT, DIRECTORY_MODE, dir_fd=run.fd)
        fd = os.open(SNAPSHOT, _DIRECTORY, dir_fd=run.fd)
        if not stored:
            return cls(fd, None, -1)
        os.mkdir(CONTENTS, DIRECTORY_MODE, dir_fd=fd)
        contents_fd = os.open(CONTENTS, _DIRECTORY, dir_fd=fd)
        return cls(fd, ContentStore(contents_fd), contents_fd)

    @classmethod
    def open(cls, run: RunDirectory) -> SnapshotDirectory:
        """Open that of a run that has ended. Raises FormatError where there is none."""
        try:
            fd = os.open(SNAPSHOT, _DIRECTORY, dir_fd=run.fd)
        except OSError as error:
            raise FormatError(f"{run.path} has no readable {SNAPSHOT}/: {error.strerror}") from error
        try:
            contents_fd = os.open(CONTENTS, _DIRECTORY, dir_fd=fd)
        except OSError:
            return cls(fd, None, -1)
        return cls(fd, ContentStore(contents_fd), contents_fd)

    def new(self, name: str) -> BinaryIO:
        """A new file for a manifest, writable and readable."""
        return os.fdopen(open_regular(name, _NEW, directory=self._fd), "w+b", buffering=1 << 18)

    def read(self, name: str) -> BinaryIO:
        """A manifest to read. Raises FormatError where there is none."""
        try:
            fd = open_regular(name, directory=self._fd)
        except OSError as error:
            if self.contents is None and isinstance(error, FileNotFoundError):
                raise FormatError(
                    "the run was made without --snapshot, so what its files held was not kept",
                    hint="docket run --snapshot keeps it",
                ) from error
            raise FormatError(f"no readable {SNAPSHOT}/{name}: {error.strerror}") from error
        return os.fdopen(fd, "rb", buffering=1 << 18)

    def sync(self) -> None:
        """Make everything in it durable."""
        sync_filesystem(self._fd)

    def remove(self, name: str) -> None:
        """Take away a manifest that nothing will need."""
        os.unlink(name, dir_fd=self._fd)

    def close(self) -> None:
        """Let go of the descriptors."""
        if self._contents_fd >= 0:
            os.close(self._contents_fd)
        os.close(self._fd)


def discard(run: RunDirectory) -> None:
    """Take away the whole directory of a run that is refused before it starts."""
    shutil.rmtree(SNAPSHOT, ignore_errors=True, dir_fd=run.fd)
