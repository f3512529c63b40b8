"""What is durable is whole: every failure of every call leaves the old or the new file, never a part."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from docket.sim.disk import Crash, Fail, FaultyDisk, Operation
from docket.storage.durable import Disk, SystemDisk, replace, write_new


def directory_of(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


@pytest.mark.parametrize("outcome", [Fail(errno.EIO), Fail(errno.ENOSPC, after=3), Crash(), Crash(after=3)])
@pytest.mark.parametrize(("action", "before"), [(replace, b"old content"), (write_new, None)])
def test_any_failing_call_leaves_the_old_or_the_new_file(
    tmp_path: Path,
    action: Callable[[Disk, str, bytes, int], None],
    before: bytes | None,
    outcome: Fail | Crash,
) -> None:
    directory = directory_of(tmp_path)
    number, finished = 0, False
    while not finished:
        for path in tmp_path.iterdir():
            path.unlink()
        if before is not None:
            (tmp_path / "file").write_bytes(before)

        def plan(operation: Operation, failing: int = number) -> Fail | Crash | None:
            return outcome if operation.number == failing else None

        try:
            action(FaultyDisk(SystemDisk(), plan), "file", b"new content", directory)
            finished = True
        except OSError:
            pass
        left = (tmp_path / "file").read_bytes() if (tmp_path / "file").exists() else None
        assert left in (before, b"new content")
        number += 1
    assert number > 4
    assert left == b"new content"
    os.close(directory)


def test_a_file_that_exists_is_not_overwritten_by_write_new(tmp_path: Path) -> None:
    directory = directory_of(tmp_path)
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        write_new(SystemDisk(), "file", b"new", directory)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    os.close(directory)


def test_a_link_in_the_place_of_a_file_is_never_followed(tmp_path: Path) -> None:
    directory = directory_of(tmp_path)
    (tmp_path / "outside").write_bytes(b"old")
    (tmp_path / "file").symlink_to(tmp_path / "outside")
    replace(SystemDisk(), "file", b"new", directory)
    assert (tmp_path / "outside").read_bytes() == b"old"
    assert (tmp_path / "file").read_bytes() == b"new"
    os.close(directory)
