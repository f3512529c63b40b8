"""Tests are run as a user without rights, on a machine whose interpreter only root may reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.another_user import closed_above

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="SKIP: needs root and unshare")
def test_what_root_must_skip_is_run_as_another_user_and_nothing_of_the_machine_is_changed() -> None:
    """Root may write anywhere, so that test is skipped as root."""
    closed = closed_above(Path(sys.base_prefix).resolve())
    before = os.stat(closed or "/")
    words = ["-q", "-rs", "tests/supervisor/test_second_place.py"]
    command = [sys.executable, "-m", "tools.another_user", "--", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
    after = os.stat(closed or "/")
    assert (after.st_mode, after.st_ino, after.st_dev) == (before.st_mode, before.st_ino, before.st_dev)


def test_the_highest_directory_that_is_closed_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "a/b/c"
    inner.mkdir(parents=True)
    for each in (tmp_path, tmp_path / "a", tmp_path / "a/b"):
        each.chmod(0o755)
    above = closed_above(inner)
    assert above is None or above in tmp_path.parents
    (tmp_path / "a/b").chmod(0o700)
    assert closed_above(inner) in ({tmp_path / "a/b"} if above is None else {above})
