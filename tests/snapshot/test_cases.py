"""A directory that became a link, a set of files that must be exact, and what stands next to them."""

from __future__ import annotations

import os
from pathlib import Path

from kit.files import record, restore, script, sight


def test_a_directory_that_became_a_link_out_of_the_tree(tmp_path: Path) -> None:
    script("symlink_restore.sh", "make", tmp_path)
    run, _ = record(tmp_path / "work", lambda: script("symlink_restore.sh", "attack", tmp_path))
    done = restore(run, "--apply")
    assert done.returncode == 0, done.stderr
    script("symlink_restore.sh", "check", tmp_path)


def test_exactly_the_set_that_was_there(tmp_path: Path) -> None:
    script("restore_set.sh", "make", tmp_path)
    (tmp_path / "large").write_bytes(os.urandom(3 * 2**20))
    before = sight(tmp_path, times=True)

    def change() -> None:
        script("restore_set.sh", "change", tmp_path)
        (tmp_path / "large").unlink()

    run, _ = record(tmp_path, change)
    done = restore(run, "--apply")
    assert done.returncode == 0, done.stderr
    script("restore_set.sh", "check", tmp_path)
    assert sight(tmp_path, times=True) == before


def test_a_dry_run_changes_nothing_and_shows_text_line_by_line(tmp_path: Path) -> None:
    script("restore_set.sh", "make", tmp_path)
    run, _ = record(tmp_path, lambda: script("restore_set.sh", "change", tmp_path))
    changed = sight(tmp_path, times=True)
    shown = restore(run)
    assert shown.returncode == 0
    assert sight(tmp_path, times=True) == changed
    assert "- remove        newdir/x" in shown.stdout
    assert "+*.log" in shown.stdout
    assert "--apply does it" in shown.stderr
