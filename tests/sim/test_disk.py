"""The stand-ins for the disk: what they promise a test that relies on them."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.sim.disk import PAGE, Crash, CrashedError, Fail, FaultyDisk, ForgetfulDisk, Operation, Short
from docket.storage.durable import CREATE, SystemDisk

writes = st.lists(st.tuples(st.integers(1, 3 * PAGE), st.booleans()), max_size=6)


@given(writes, st.booleans(), st.integers())
def test_a_power_cut_keeps_what_was_synced_and_invents_nothing(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[int, bool]], name_synced: bool, seed: int
) -> None:
    root = tmp_path_factory.mktemp("disk")
    (root / "before").mkdir()
    (root / "after").mkdir()
    directory = os.open(root / "before", os.O_RDONLY)
    disk = ForgetfulDisk(SystemDisk())
    fd = disk.open("file", CREATE, directory)
    if name_synced:
        disk.sync_directory(directory)
    content, durable = b"", b""
    for number, (size, synced) in enumerate(made, 1):
        disk.write(fd, bytes([number]) * size, len(content))
        content += bytes([number]) * size
        if synced:
            disk.sync(fd)
            durable = content
    disk.after_power_cut(root / "before", root / "after", random.Random(seed))
    left = root / "after" / "file"
    assert left.exists() or not name_synced
    if left.exists():
        data = left.read_bytes()
        assert data.startswith(durable)
        assert len(data) <= len(content)
        assert all(found in (0, true) for found, true in zip(data, content, strict=False))
    disk.close(fd)
    os.close(directory)


def test_states_that_a_power_cut_leaves_differ_by_seed(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    directory = os.open(tmp_path / "before", os.O_RDONLY)
    disk = ForgetfulDisk(SystemDisk())
    fd = disk.open("file", CREATE, directory)
    disk.sync_directory(directory)
    disk.write(fd, b"x" * (4 * PAGE), 0)
    states = set()
    for seed in range(40):
        after = tmp_path / f"{seed}"
        after.mkdir()
        disk.after_power_cut(tmp_path / "before", after, random.Random(seed))
        states.add((after / "file").read_bytes())
    assert b"" in states
    assert b"x" * (4 * PAGE) in states
    assert any(b"\0" in state and b"x" in state for state in states)
    disk.close(fd)
    os.close(directory)


def test_a_faulty_disk_fails_shortens_and_crashes_where_its_plan_says(tmp_path: Path) -> None:
    seen: list[Operation] = []
    outcomes = {2: Short(3), 3: Fail(errno.ENOSPC, after=1), 5: Crash(after=2)}

    def plan(operation: Operation) -> Fail | Short | Crash | None:
        seen.append(operation)
        return outcomes.get(operation.number)

    directory = os.open(tmp_path, os.O_RDONLY)
    disk = FaultyDisk(SystemDisk(), plan)
    fd = disk.open("file", CREATE, directory)
    assert disk.write(fd, b"abcdef", 0) == 6
    assert disk.write(fd, b"ghijkl", 6) == 3
    with pytest.raises(OSError, match="No space"):
        disk.write(fd, b"jkl", 9)
    disk.sync(fd)
    with pytest.raises(CrashedError):
        disk.write(fd, b"xyz", 10)
    with pytest.raises(CrashedError):
        disk.sync(fd)
    assert (tmp_path / "file").read_bytes() == b"abcdefghijxy"
    kinds = ["create", "write", "write", "write", "sync", "write"]
    assert [(operation.kind, operation.name) for operation in seen] == [(kind, "file") for kind in kinds]
    assert [operation.of_kind for operation in seen] == [0, 0, 1, 2, 0, 3]
    disk.close(fd)
    os.close(directory)
