"""The store of contents: named by what was kept, shared by blocks where the filesystem can, never by a hard link."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from docket.errors import FormatError
from docket.primitives.digest import sha256_hex
from docket.snapshot.capture import OPEN_DIRECTORY
from docket.snapshot.content import ContentStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ContentStore]:
    (tmp_path / "contents").mkdir()
    fd = os.open(tmp_path / "contents", OPEN_DIRECTORY)
    yield ContentStore(fd)
    os.close(fd)


def keep(store: ContentStore, path: Path) -> str:
    fd = os.open(path, os.O_RDONLY)
    try:
        return store.read(fd)[0]
    finally:
        os.close(fd)


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_a_content_has_the_name_of_its_bytes(store: ContentStore, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert keep(store, tmp_path / "file") == sha256_hex(data)
    with os.fdopen(store.open(sha256_hex(data)), "rb") as kept:
        assert kept.read() == data


def test_the_same_bytes_are_kept_once_and_never_as_a_second_name_of_the_file(
    store: ContentStore, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"same")
        keep(store, tmp_path / name)
        assert (tmp_path / name).stat().st_nlink == 1
    assert [path.name for path in (tmp_path / "contents").iterdir()] == [sha256_hex(b"same")]
    assert store.kept_bytes + store.cloned_bytes == 4
    (tmp_path / "one").write_bytes(b"other")
    with os.fdopen(store.open(sha256_hex(b"same")), "rb") as kept:
        assert kept.read() == b"same"


def test_a_content_that_is_not_its_name_is_not_given_out(store: ContentStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    name = keep(store, tmp_path / "file")
    (tmp_path / "contents" / name).write_bytes(b"evil")
    with pytest.raises(FormatError, match="not what its name says"):
        store.open(name)
    with pytest.raises(FormatError, match="cannot be read"):
        store.open("0" * 64)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A real filesystem that shares blocks."""
    if os.geteuid() != 0 or shutil.which("mkfs.btrfs") is None:
        pytest.skip("no btrfs can be made here: sharing of blocks was not tried")
    image, target = tmp_path / "image", tmp_path / "volume"
    image.touch()
    os.truncate(image, 128 * 2**20)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True)
    target.mkdir()
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(target)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no btrfs can be mounted here: {mounted.stderr.decode().strip()}")
    yield target
    subprocess.run(["umount", str(target)], check=True)


def test_blocks_are_shared_where_the_filesystem_can(volume: Path) -> None:
    (volume / "contents").mkdir()
    (volume / "file").write_bytes(os.urandom(20 * 2**20))
    os.sync()
    free = os.statvfs(volume).f_bavail * os.statvfs(volume).f_frsize
    fd = os.open(volume / "contents", OPEN_DIRECTORY)
    store = ContentStore(fd)
    name = keep(store, volume / "file")
    os.close(fd)
    os.sync()
    assert store.cloned_bytes == 20 * 2**20
    assert free - os.statvfs(volume).f_bavail * os.statvfs(volume).f_frsize < 2 * 2**20
    with (volume / "file").open("r+b") as file:
        file.write(b"changed")
    assert sha256_hex((volume / "contents" / name).read_bytes()) == name
