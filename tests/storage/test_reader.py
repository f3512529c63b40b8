"""Reading: checkpoints beside the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from docket.errors import LedgerError
from docket.ledger.checkpoint import split
from docket.storage.paths import CHECKPOINTS, LEDGER
from docket.storage.reader import read_ledger
from kit.runs import new_run, some_events, write_run


async def test_any_cut_of_the_checkpoints_leaves_the_whole_notes(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_run(run, some_events(2))
    notes = (run.path / CHECKPOINTS).read_bytes()
    first = len(split(notes)[0][0])
    for cut in range(len(notes) + 1):
        (run.path / CHECKPOINTS).write_bytes(notes[:cut])
        read = read_ledger(run)
        assert read.notes.fault is None
        assert (read.notes.length, read.notes.offset) == (cut, cut if cut == len(notes) else first * (cut >= first))
        assert read.scan.attested == (6 if cut == len(notes) else int(cut >= first))
        assert read.scan.note_fault is None


@pytest.mark.parametrize(
    ("behind", "fault"),
    [(b"\0" * 300, None), (b"a\nb\nc\nd\ne\nf\n", "not"), (b"x" * 2000, "longer"), (b"\0" * 9000, None)],
)
async def test_what_stands_behind_the_notes_is_torn_or_said(tmp_path: Path, behind: bytes, fault: str | None) -> None:
    run = new_run(tmp_path)
    await write_run(run, some_events(1))
    whole = (run.path / CHECKPOINTS).stat().st_size
    with (run.path / CHECKPOINTS).open("ab") as file:
        file.write(behind)
    read = read_ledger(run)
    assert (read.notes.offset, read.notes.length) == (whole, whole + len(behind))
    assert (read.notes.fault is None) == (fault is None)
    assert read.scan.attested == 4


async def test_missing_checkpoints_are_none_and_a_missing_ledger_is_an_error(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_run(run, [])
    (run.path / CHECKPOINTS).unlink()
    assert read_ledger(run).scan.attested == 0
    (run.path / LEDGER).unlink()
    with pytest.raises(LedgerError, match="No such file"):
        read_ledger(run)
