from __future__ import annotations

from pathlib import Path

import pytest

from docket.storage.volume import file_system_of, room_is_promised

MOUNTS = r"""22 1 8:1 / / rw shared:1 - btrfs /dev/sda1 rw
30 22 8:2 / /data rw shared:2 master:1 - ext4 /dev/sda2 rw
31 30 0:41 / /data/with\040space rw - nfs4 server:/export rw
32 22 0:42 / /data2 rw - zfs pool/data rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "promised"),
    [
        ("/home/ada/.docket", "btrfs", False),
        ("/data", "ext4", True),
        ("/data/runs", "ext4", True),
        ("/data/with space/runs", "nfs4", False),
        ("/data2/runs", "zfs", False),
        ("/database", "btrfs", False),
    ],
)
def test_the_deepest_mount_that_holds_a_path_decides(tmp_path: Path, path: str, kind: str, promised: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_of(Path(path), mounts) == kind
    assert room_is_promised(kind) is promised


def test_where_nobody_says_what_it_is_nothing_is_promised(tmp_path: Path) -> None:
    assert file_system_of(Path("/"), tmp_path / "none") == "unknown"
    assert not room_is_promised("unknown")


def test_this_machine_is_read() -> None:
    assert file_system_of(Path("/proc/self")) == "proc"
