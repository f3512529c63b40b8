"""One run as one file: the same bytes every time, verified as it is, refused where it is anything else."""

from __future__ import annotations

import asyncio
import io
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.cli.main import status_of
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


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, **other: object) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.mode = size, kind, 0o600
    for attribute, value in other.items():
        setattr(member, attribute, value)
    return member.tobuf(tarfile.USTAR_FORMAT)


def block(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def pax(name: str, records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return header(name, len(records), kind) + block(records)


def archive_of(*members: bytes) -> bytes:
    data = b"".join(members) + bytes(1024)
    return data + bytes(-len(data) % tarfile.RECORDSIZE)


PAX_SIZE, PAX_PATH = b"10 size=0\n", b"26 path=../../elsewhere.x\n"
WHOLE = header(f"{NUMBER}/{LEDGER}", 5) + block(b"line\n")
REFUSED: dict[str, bytes] = {
    **{
        f"a member named {name}": archive_of(header(name, 5) + block(b"line\n"), *after)
        for name, after in [
            (f"{NUMBER}/../{LEDGER}", ()),
            (f"{NUMBER}/blobs/../../{LEDGER}", (WHOLE,)),
            (f"./{NUMBER}/{LEDGER}", ()),
            (f"{NUMBER}/./{LEDGER}", ()),
            (f"{NUMBER}//{LEDGER}", ()),
            (f"/{NUMBER}/{LEDGER}", ()),
            (f"//{NUMBER}/{LEDGER}", ()),
            (f"{NUMBER}/{LEDGER}/", ()),
            (f"{NUMBER}/{LEDGER.upper()}", (WHOLE,)),
            (f"{NUMBER}/a b", (WHOLE,)),
            (f"{NUMBER}/a\\b", (WHOLE,)),
            (f"{NUMBER}/a\nb", (WHOLE,)),
            (f"{NUMBER}/C:x", (WHOLE,)),
            (f"{NUMBER}/a", (header(f"{NUMBER}/a/b"), WHOLE)),
            (f"{NUMBER}/é", (WHOLE,)),
        ]
    },
    **{
        f"a member of type {kind!r}": archive_of(header(f"{NUMBER}/a", 0, kind, linkname=f"{NUMBER}/b"), WHOLE)
        for kind in b"1 2 3 4 5 6 7 S V M D N K L x g X A".split()
    },
    "an old regular type": archive_of(header(f"{NUMBER}/{LEDGER}", 5, b"\0") + block(b"line\n")),
    "a pax size": archive_of(pax("x", PAX_SIZE), WHOLE),
    "a pax path": archive_of(pax("x", PAX_PATH), WHOLE),
    "a pax size for all": archive_of(pax("x", PAX_SIZE, tarfile.XGLTYPE), WHOLE),
    "a pax path behind the members": archive_of(WHOLE, pax("x", PAX_PATH)),
    "a GNU long name": archive_of(pax("././@LongLink", b"../elsewhere\0", tarfile.GNUTYPE_LONGNAME), WHOLE),
    "a sparse map in pax": archive_of(pax("x", b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), WHOLE),
    "bytes behind the end": archive_of(WHOLE)[:-1] + b"x",
    "a member behind the end": archive_of(WHOLE) + archive_of(header(f"{NUMBER}/x")),
    "a member behind one block of zeros": archive_of(WHOLE, bytes(512), header(f"{NUMBER}/x")),
    "a record of zeros more": archive_of(WHOLE) + bytes(tarfile.RECORDSIZE),
    "bytes behind a member's last": archive_of(WHOLE[:-1] + b"x"),
    "a damaged checksum": archive_of(WHOLE.replace(b"0000600", b"0000601", 1)),
    "a damaged header in the middle": archive_of(WHOLE, b"x" * 512, header(f"{NUMBER}/z")),
    "members out of order": archive_of(WHOLE, header(f"{NUMBER}/a")),
    "a member twice": archive_of(WHOLE, WHOLE),
    "a size beyond the file": archive_of(header(f"{NUMBER}/{LEDGER}", 1 << 32) + block(b"line\n")),
    "a negative size in base 256": archive_of(WHOLE.replace(b"00000000005\0", b"\xff" * 12, 1)),
    "another owner": archive_of(header(f"{NUMBER}/{LEDGER}", 5, uid=1) + block(b"line\n")),
    "a set-uid mode": archive_of(header(f"{NUMBER}/{LEDGER}", 5, mode=0o4755) + block(b"line\n")),
    "bytes behind the name's end": archive_of(WHOLE.replace(LEDGER.encode() + b"\0\0", LEDGER.encode() + b"\0x", 1)),
    "another run's file": archive_of(header(f"{NUMBER[:-1]}A/a"), WHOLE),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_archive_in_which_another_program_may_see_something_else_is_unreadable(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x.tar").write_bytes(REFUSED[kind])
    with pytest.raises(FormatError):
        documents_at(tmp_path / "x.tar")
    assert status_of(["verify", str(tmp_path / "x.tar")]) == 2


def test_the_archive_that_each_refused_one_was_made_of_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(archive_of(WHOLE))
    ledger = documents_at(tmp_path / "x.tar").ledger
    assert ledger is not None
    assert b"".join(ledger) == b"line\n"


@pytest.mark.parametrize("command", [("tar", "-xf"), ("bsdtar", "-xf")])
async def test_what_is_verified_is_what_tar_programs_unpack(tmp_path: Path, command: tuple[str, str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"SKIP: no {command[0]} here")
    run = await a_run(tmp_path)
    write_archive(run, tmp_path / "one.tar")
    documents = documents_at(tmp_path / "one.tar")
    (tmp_path / "unpacked").mkdir()
    argv = [*command, str(tmp_path / "one.tar"), "-C", str(tmp_path / "unpacked")]
    await asyncio.to_thread(subprocess.run, argv, check=True)
    unpacked = tmp_path / "unpacked" / NUMBER
    assert documents.ledger is not None
    assert documents.checkpoints is not None
    assert (unpacked / RECEIPT).read_bytes() == documents.receipt
    assert (unpacked / LEDGER).read_bytes() == b"".join(documents.ledger)
    assert (unpacked / "checkpoints").read_bytes() == b"".join(documents.checkpoints)
    found = sorted(str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file())
    assert found == ["blobs/" + "a" * 64, "checkpoints", LEDGER, RECEIPT]
    assert sorted(path.name for path in (tmp_path / "unpacked").iterdir()) == [NUMBER]


@given(dice=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_byte_that_is_changed_outside_the_files_makes_it_unreadable(dice: random.Random) -> None:
    data = bytearray(archive_of(WHOLE))
    at = dice.choice([place for place in range(len(data)) if not 512 <= place < 517])
    data[at] ^= 1 << dice.randrange(8)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "x.tar"
        path.write_bytes(data)
        with pytest.raises(FormatError):
            documents_at(path)


async def test_an_archive_that_is_replaced_after_it_was_opened_is_read_as_it_was(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    write_archive(run, tmp_path / "one.tar")
    documents = documents_at(tmp_path / "one.tar")
    (tmp_path / "other.tar").write_bytes(archive_of(WHOLE))
    (tmp_path / "other.tar").replace(tmp_path / "one.tar")
    assert documents.ledger is not None
    assert b"".join(documents.ledger) == (run.path / LEDGER).read_bytes()


async def test_a_name_that_other_programs_may_read_otherwise_is_not_archived(tmp_path: Path) -> None:
    run = await a_run(tmp_path)
    (run.path / "blobs" / "a\\..\\b").write_bytes(b"")
    with pytest.raises(LedgerError, match="letters, digits"):
        write_archive(run, tmp_path / "one.tar")
