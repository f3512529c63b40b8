"""What a docket that died on a full volume could still say, and what its absence costs."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from docket.clock import SystemClock
from docket.control.evidence import Guard
from docket.ledger import checkpoint
from docket.primitives.canonical import decode_object
from docket.primitives.signature import SigningKey
from docket.sim.disk import Fail, FaultyDisk, Operation
from docket.storage.documents import documents_at
from docket.storage.durable import SystemDisk
from docket.storage.paths import CHECKPOINTS, LEDGER, RECEIPT, RESERVE, RunDirectory
from docket.storage.reserve import Reserve
from docket.storage.writer import LedgerWriter
from docket.supervisor import ledger_history
from docket.supervisor.dead_run import close
from docket.supervisor.doctor import diagnose
from docket.verify.verifier import verify
from kit.runs import KEY, first_start, new_run, policy_applied, request, response


async def died_on_a_full_volume(root: Path) -> Path:
    """A run that recorded a call, lost three events for want of space, and died with its supervisor."""
    full: dict[str, Fail] = {}

    def plan(operation: Operation) -> Fail | None:
        return full.get(operation.kind) if operation.name != RESERVE else None

    run = new_run(root, FaultyDisk(SystemDisk(), plan))
    reserve = Reserve.make(run, 70_000)
    guard = Guard("continue")
    writer = LedgerWriter.create(run, key=KEY, clock=SystemClock(), guard=guard, reserve=reserve)
    await writer.append_watched(first_start(run.name, KEY))
    await writer.append(policy_applied())
    await writer.checkpoint()
    await writer.append(request(1))
    await writer.append(response(1))
    full["write"] = Fail(errno.ENOSPC)
    for event in (request(2), response(2), request(3)):
        assert await writer.append(event) is None
    await writer.close()
    run.close()
    return run.path


def closed(path: Path) -> tuple[object, object, str]:
    run = RunDirectory.open(path)
    close(run, SystemClock())
    run.close()
    receipt = decode_object((path / RECEIPT).read_bytes()[:-1])
    evidence = receipt["ops"]["evidence"]  # type: ignore[index,call-overload]
    return evidence["ledger_complete"], evidence["unwritten_events"], str(verify(documents_at(path)).verdict)  # type: ignore[index,call-overload]


async def test_the_note_in_the_reserve_says_what_was_lost_and_goes_where_notes_belong(tmp_path: Path) -> None:
    path = await died_on_a_full_volume(tmp_path)
    assert "3 events are known to be lost" in diagnose(path).detail
    assert closed(path) == (False, 3, "recovered")
    notes, torn = checkpoint.split((path / CHECKPOINTS).read_bytes())
    assert (checkpoint.parse(notes[-1]).size, checkpoint.parse(notes[-1]).lost, torn) == (4, 3, b"")
    assert not (path / RESERVE).exists()


@pytest.mark.parametrize("how", ["deleted", "garbled", "forged", "of another size"])
async def test_without_a_right_note_the_receipt_says_less_and_never_more(tmp_path: Path, how: str) -> None:
    path = await died_on_a_full_volume(tmp_path)
    found = {
        "garbled": b"garbage\n" * 100,
        "forged": checkpoint.sign(path.name, 4, b"\x01" * 32, SigningKey(b"\x07" * 32), 0),
        "of another size": checkpoint.sign(path.name, 3, b"\x01" * 32, KEY, 0),
    }
    if how == "deleted":
        (path / RESERVE).unlink()
    else:
        (path / RESERVE).write_bytes(found[how])
    assert closed(path) == ("unknown", 0, "recovered")


async def test_the_receipt_of_a_run_that_died_holds_what_its_ledger_shows(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    writer = LedgerWriter.create(run, key=KEY, clock=SystemClock())
    await writer.append_watched(first_start(run.name, KEY))
    await writer.append(policy_applied())
    for call in range(1, 8):  # the same bytes each time
        await writer.append(request(call))
        await writer.append(response(call))
    await writer.checkpoint()
    await writer.close()
    run.close()
    closed(run.path)
    receipt: Any = decode_object((run.path / RECEIPT).read_bytes()[:-1])
    assert [(each["rule"], each["seqs"]) for each in receipt["findings"]] == [("runaway-loop", [4, 6, 8, 10, 12, 14])]


def swapped(path: Path, decoy: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """From the first look at the run's ledger on, its path names ``decoy``; returns where the run is then."""
    moved = path.with_name("moved")
    genuine = ledger_history.read_ledger

    def then_swap(run: RunDirectory, *rest: Any) -> Any:
        read = genuine(run, *rest)
        if not moved.exists():
            path.rename(moved)
            decoy.rename(path)
        return read

    monkeypatch.setattr(ledger_history, "read_ledger", then_swap)
    return [moved]


async def test_what_is_closed_is_the_directory_that_was_looked_at_whatever_its_path_names_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = await died_on_a_full_volume(tmp_path / "a")
    decoy = await died_on_a_full_volume(tmp_path / "b")
    before = (path / LEDGER).read_bytes()
    (moved,) = swapped(path, decoy, monkeypatch)
    run = RunDirectory.open(path)
    close(run, SystemClock())
    run.close()
    assert not (path / RECEIPT).exists()  # the decoy was left alone
    assert (moved / LEDGER).read_bytes().startswith(before)
    assert str(verify(documents_at(moved)).verdict) == "recovered"


async def test_what_the_doctor_judges_is_the_directory_that_it_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = await died_on_a_full_volume(tmp_path / "a")
    closed(path)
    decoy = tmp_path / "decoy"
    shutil.copytree(path, decoy)
    (decoy / LEDGER).write_bytes(b"{}\n" + (decoy / LEDGER).read_bytes())
    swapped(path, decoy, monkeypatch)
    assert diagnose(path).state == "complete"
    assert diagnose(path).state != "complete"  # the decoy by itself
