"""Bodies under their digest."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from docket.errors import LedgerError, LedgerWriteError
from docket.sim.disk import Fail, FaultyDisk
from docket.storage.blobs import Blobs
from docket.storage.durable import SystemDisk
from kit.runs import new_run


def test_a_body_is_kept_once_under_its_digest(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    blobs = Blobs(run)
    blob = blobs.put(b"body")
    assert blobs.put(b"body") == blob
    assert blob.to_json() == {"sha256": hashlib.sha256(b"body").hexdigest(), "bytes": 4}
    assert blobs.get(blob.sha256) == b"body"
    kept = list((run.path / "blobs").iterdir())
    assert [path.name for path in kept] == [blob.sha256]
    assert kept[0].stat().st_mode & 0o777 == 0o600
    blobs.close()


@pytest.mark.parametrize("kind", ["create", "write", "sync", "link", "sync_directory"])
def test_a_body_that_cannot_be_kept_is_said_and_leaves_nothing_under_its_name(tmp_path: Path, kind: str) -> None:
    run = new_run(tmp_path)
    Blobs(run).close()
    run.disk = FaultyDisk(SystemDisk(), lambda op: Fail(errno.ENOSPC) if op.kind == kind else None)
    blobs = Blobs(run)
    with pytest.raises(LedgerWriteError, match="4 bytes"):
        blobs.put(b"body")
    names = [path.name for path in (run.path / "blobs").iterdir()]
    assert names == ([hashlib.sha256(b"body").hexdigest()] if kind == "sync_directory" else [])


def test_a_changed_or_missing_body_is_not_given_out(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    blobs = Blobs(run)
    blob = blobs.put(b"body")
    (run.path / "blobs" / blob.sha256).write_bytes(b"Body")
    with pytest.raises(LedgerError, match="does not hash"):
        blobs.get(blob.sha256)
    with pytest.raises(LedgerError, match="no body"):
        blobs.get("0" * 64)
