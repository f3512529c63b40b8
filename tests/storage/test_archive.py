"""One run as one file: the same bytes every time, verified as it is, refused where it is anything else."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from docket.errors import FormatError, LedgerError
from docket.storage.archive import write_archive
from docket.storage.documents import documents_at
from docket.storage.paths import LEDGER, RECEIPT, RunDirectory
from docket.verify.verifier import verify
from kit.runs import NUMBER, continue_run, new_run, write_unsealed


async def a_run(root: Path) -> RunDirectory:
    run = new_run(root, number=NUMBER)
    await write_unsealed(run, 1)
    await continue_run(run.path)
    (run.path / "blobs").mkdir(mode=0o700)
    (run.path / "blobs" / ("a" * 64)).write_bytes(b"body")
    return run


async def test_an_archive_is_the_same_bytes_whenever_it_is_made_and_verifies(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    write_archive(run, tmp_path / "one.tar")
    os.utime(run.path / LEDGER, (1, 1))
    (run.path / LEDGER).chmod(0o640)
    (run.path / ".receipt.json.1.aa.tmp").write_text("stale")
    size = write_archive(run, tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert (tmp_path / "two.tar").stat().st_size == size
    with tarfile.open(tmp_path / "one.tar") as archive:
        names = archive.getnames()
    kept = ["blobs/" + "a" * 64, "checkpoints", LEDGER, RECEIPT]
    assert names == [f"{NUMBER}/{name}" for name in kept]
    inside, outside = verify(documents_at(tmp_path / "one.tar")), verify(documents_at(run.path))
    assert inside.to_json() == outside.to_json()
    assert inside.verdict.value == "incomplete"  # session 0 of it died


async def test_a_changed_archive_does_not_verify(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    write_archive(run, tmp_path / "one.tar")
    data = (tmp_path / "one.tar").read_bytes()
    (tmp_path / "one.tar").write_bytes(data.replace(b"gpt-test", b"gpt-tesu", 1))
    assert verify(documents_at(tmp_path / "one.tar")).verdict.value == "failed"


async def test_an_archive_is_never_overwritten_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    write_archive(run, tmp_path / "one.tar")
    with pytest.raises(LedgerError, match="exists already"):
        write_archive(run, tmp_path / "one.tar")
    (run.path / "link").symlink_to("/etc/passwd")
    with pytest.raises(LedgerError, match="no regular file"):
        write_archive(run, tmp_path / "two.tar")
    assert [name for name in os.listdir(tmp_path) if "tar" in name] == ["one.tar"]


def made_up(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            archive.addfile(member, io.BytesIO())
    return path


@pytest.mark.parametrize(
    "members",
    [
        [("other/ledger.jsonl", tarfile.REGTYPE)],
        [(f"{NUMBER}/{LEDGER}", tarfile.SYMTYPE)],
        [(f"{NUMBER}/{LEDGER}", tarfile.REGTYPE), (f"{NUMBER}/{LEDGER}", tarfile.REGTYPE)],
        [(f"{NUMBER}/{LEDGER}", tarfile.REGTYPE), (f"{NUMBER[:-1]}A/{RECEIPT}", tarfile.REGTYPE)],
        [(f"{NUMBER}/notes", tarfile.REGTYPE)],
        [(f"../{NUMBER}/{LEDGER}", tarfile.REGTYPE)],
    ],
)
def test_what_is_not_the_archive_of_one_run_is_refused(tmp_path: Path, members: list[tuple[str, bytes]]) -> None:
    path = made_up(tmp_path / "made-up.tar", *members)
    with pytest.raises(FormatError):
        documents_at(path)


async def test_a_cut_archive_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    write_archive(run, tmp_path / "one.tar")
    data = (tmp_path / "one.tar").read_bytes()
    end = len(data.rstrip(b"\0")) + 1023
    for cut in [*range(600, end, 397), end]:
        (tmp_path / "one.tar").write_bytes(data[:cut])
        with pytest.raises(FormatError):
            documents_at(tmp_path / "one.tar")
