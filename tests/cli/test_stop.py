"""``docket stop`` where there is nothing to stop, or not here; ``tests/e2e/test_stop.py`` stops real runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from docket.cli.main import status_of
from docket.storage.lock import Lock
from docket.storage.paths import LOCK
from kit.runs import new_run


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_that_nobody_holds_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = new_run(tmp_path)
    assert status_of(["stop", run.name]) == 2
    assert f"nobody holds {run.name}: it has ended" in capsys.readouterr().err


def test_a_run_of_another_host_is_not_signalled_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = new_run(tmp_path)
    lock = Lock(run)
    (run.path / LOCK).write_text(f"pid {os.getpid()}, docket {run.name}, host elsewhere\n")
    assert status_of(["stop"]) == 2
    assert f"{run.name} is held on elsewhere" in capsys.readouterr().err
    lock.release()


@pytest.mark.parametrize("words", [["DKT-20200101-0000000000"], ["latest"], ["--grace", "-1"]])
def test_a_wrong_call_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["stop", *words]) == 2
    assert capsys.readouterr().out == ""
