"""Pruning: whole runs by age and number, and never one that is going on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.errors import LedgerError
from docket.storage import retention
from docket.storage.lock import Lock
from docket.storage.paths import LEDGER, RunDirectory
from docket.storage.retention import DAY_US, removable, remove
from kit.runs import new_run

NOW_US = 20_000 * DAY_US


def run_of_age(root: Path, days: int) -> Path:
    run = new_run(root)
    (run.path / LEDGER).write_bytes(b"x" * 10)
    os.utime(run.path / LEDGER, ns=((NOW_US - days * DAY_US) * 1000,) * 2)
    run.close()
    return run.path


@settings(max_examples=30)
@given(st.lists(st.integers(0, 9), max_size=6), st.none() | st.integers(0, 9), st.none() | st.integers(0, 7))
def test_exactly_what_no_rule_keeps_is_removable(
    tmp_path_factory: pytest.TempPathFactory, ages: list[int], keep_days: int | None, keep_last: int | None
) -> None:
    root = tmp_path_factory.mktemp("runs")
    paths = [run_of_age(root, age) for age in ages]
    found = removable(root / ".docket", keep_days=keep_days, keep_last=keep_last, now_us=NOW_US)
    newest = paths[len(paths) - keep_last :] if keep_last and keep_last < len(paths) else paths if keep_last else []
    expected = [
        path
        for path, age in zip(paths, ages, strict=True)
        if path not in newest and (keep_days is None or age >= keep_days)
    ]
    assert [removal.path for removal in found] == expected
    assert all((removal.files, removal.bytes) == (1, 10) for removal in found)


def test_a_run_that_is_going_on_is_kept_and_the_others_go_whole(tmp_path: Path) -> None:
    old, running = run_of_age(tmp_path, 5), new_run(tmp_path)
    lock = Lock(running)
    docket_dir = tmp_path / ".docket"
    first, second = removable(docket_dir, keep_days=0, keep_last=None, now_us=NOW_US + 10**15 * 4)
    assert (first.path, second.path) == (old, running.path)
    assert remove(docket_dir, first)
    assert not remove(docket_dir, second)
    assert [path.name for path in (docket_dir / "runs").iterdir()] == [running.name]
    lock.release()


def test_latest_points_to_the_newest_run_that_is_left(tmp_path: Path) -> None:
    old, new = run_of_age(tmp_path, 5), run_of_age(tmp_path, 1)
    docket_dir = tmp_path / ".docket"
    older, newer = removable(docket_dir, keep_days=None, keep_last=0, now_us=NOW_US)
    remove(docket_dir, newer)
    assert (docket_dir / "latest").resolve() == old
    assert newer.path == new
    remove(docket_dir, older)
    assert not os.path.lexists(docket_dir / "latest")


@pytest.mark.parametrize("what", ["directory", "link"])
def test_what_takes_a_runs_place_while_it_is_looked_at_is_not_removed(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run_of_age(tmp_path, 5)
    (found,) = removable(tmp_path / ".docket", keep_days=1, keep_last=None, now_us=NOW_US)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()

    class Swapping(Lock):
        def __init__(self, run: RunDirectory) -> None:
            super().__init__(run)
            path.rename(tmp_path / "aside")
            precious.rename(path) if what == "directory" else path.symlink_to(precious)

    monkeypatch.setattr(retention, "Lock", Swapping)
    with pytest.raises(LedgerError, match="another directory than was looked at"):
        remove(tmp_path / ".docket", found)
    assert (path / "file").exists()
    assert (tmp_path / "aside" / LEDGER).exists()
