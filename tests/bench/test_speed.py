"""The benchmark of the boundary runs to its end, and no call of it fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the load generator")
def test_the_benchmark_writes_its_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.speed", "--seconds", "0.1", "--rounds", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    (page,) = tmp_path.glob("speed-*.md")
    assert "| JSON, 64 connections: calls/s over bare |" in page.read_text()
    assert "Failed calls: 0." in page.read_text()
