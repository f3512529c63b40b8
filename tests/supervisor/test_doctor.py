"""What the doctor says of a directory beside the state of its ledger."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from docket.ledger.codec import draft
from docket.ledger.events import Note
from docket.storage.lock import Lock
from docket.storage.paths import CHECKPOINTS, LEDGER, RECEIPT, RunDirectory
from docket.storage.reader import read_ledger
from docket.supervisor.doctor import BY_TAIL, diagnose
from docket.verify.report import Tail
from kit.runs import continue_run, new_run, write_unsealed


def kinds(path: Path) -> list[str]:
    return [trouble.kind for trouble in diagnose(path).troubles]


async def test_each_trouble_is_named_with_the_command_that_ends_it(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_unsealed(run, 1)
    assert kinds(run.path) == []
    (run.path / ".receipt.json.7.ab.tmp").write_bytes(b"")
    (run.path / ".receipt.json.7.ab.tmp").chmod(0o600)
    assert kinds(run.path) == ["stale temporary files"]
    (run.path / LEDGER).chmod(0o644)
    (run.path / "blobs").mkdir(mode=0o700)
    (run.path / "blobs" / ("0" * 64)).write_bytes(b"body")
    (run.path / "blobs" / ("0" * 64)).chmod(0o600)
    assert kinds(run.path) == ["stale temporary files", "permissions", "blob changed"]
    with (run.path / CHECKPOINTS).open("ab") as file:
        file.write(b"docket/")
    diagnosis = diagnose(run.path)
    assert "torn checkpoint" in [trouble.kind for trouble in diagnosis.troubles]
    assert LEDGER in next(trouble.detail for trouble in diagnosis.troubles if trouble.kind == "permissions")
    assert not diagnosis.healthy


async def test_states_of_sealed_runs(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_unsealed(run, 1)
    await continue_run(run.path)
    assert diagnose(run.path).state == "complete"
    assert diagnose(run.path).healthy
    ledger = (run.path / LEDGER).read_bytes()
    with (run.path / LEDGER).open("ab") as file:
        file.write(ledger.splitlines(keepends=True)[0][:50])
    assert diagnose(run.path).state == "beyond the receipt"
    (run.path / LEDGER).write_bytes(ledger.replace(b'"reported"', b'"reporteD"', 1))
    assert diagnose(run.path).state == "damaged"
    lock = Lock(run)
    assert diagnose(run.path).state == "running"
    lock.release()


def test_a_run_that_never_began_is_told_apart(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert diagnose(run.path).state == "never started"
    (run.path / LEDGER).touch(mode=0o600)
    assert diagnose(run.path).state == "never started"
    assert diagnose(tmp_path / "nothing").state == "unreadable"


async def sealed(tmp_path: Path) -> RunDirectory:
    run = new_run(tmp_path)
    await write_unsealed(run, 1)
    await continue_run(run.path)
    return run


async def test_a_valid_line_behind_a_sealed_receipt_is_beyond_it(tmp_path: Path) -> None:
    run = await sealed(tmp_path)
    read = read_ledger(run)
    note = draft(Note(private={"text": "appended"}))
    _, line, _ = read.scan.chain.extend(note, ts="2026-12-01T10:00:00.000000Z", elapsed_us=2**50, entropy=os.urandom)
    with (run.path / LEDGER).open("ab") as file:
        file.write(line)
    assert diagnose(run.path).state == "beyond the receipt"


async def test_a_receipt_that_breaks_the_form_is_changed_whatever_words_its_fault_has(tmp_path: Path) -> None:
    run = await sealed(tmp_path)
    receipt = (run.path / RECEIPT).read_bytes()
    (run.path / RECEIPT).write_bytes(receipt.replace(b'"calls":', b'"beyond":9007199254740993,"calls":', 1))
    diagnosis = diagnose(run.path)
    assert "beyond" in diagnosis.detail
    assert diagnosis.state == "sealed but changed"


async def test_a_continued_run_with_the_earlier_receipt_put_back_is_not_complete(tmp_path: Path) -> None:
    run = await sealed(tmp_path)
    earlier = (run.path / RECEIPT).read_bytes()
    await continue_run(run.path)
    (run.path / RECEIPT).write_bytes(earlier)
    diagnosis = diagnose(run.path)
    assert (diagnosis.state, diagnosis.healthy) == ("no receipt", False)
    assert diagnosis.command == f"docket doctor --close {run.path}"


@pytest.mark.parametrize("tail", list(Tail))
def test_every_tail_behind_a_receipt_has_its_state(tail: Tail) -> None:
    assert BY_TAIL[tail][0] in {"complete", "no receipt", "beyond the receipt"}
    assert (BY_TAIL[tail][0] == "complete") == (tail is Tail.NOTHING)
