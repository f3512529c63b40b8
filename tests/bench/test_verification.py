"""The bench of verifying: the run that it makes is whole, and what it measures is written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import verification


def test_a_small_run_is_made_verified_and_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "ROUNDS", 1)
    verification.main(1000, tmp_path)
    raw = json.loads((tmp_path / f"verification-{verification.TODAY}.json").read_text())["raw"]
    assert "python" in {each["verifier"] for each in raw}
    assert all(each["cpu_seconds"] > 0 for each in raw)
    assert "| python |" in (tmp_path / f"verification-{verification.TODAY}.md").read_text()
