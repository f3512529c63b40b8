"""What the doctor says of a directory beside the state of its ledger."""

from __future__ import annotations

from pathlib import Path

from docket.storage.lock import Lock
from docket.storage.paths import CHECKPOINTS, LEDGER
from docket.supervisor.doctor import diagnose
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
