"""``docket store``: made once, by name, and never by a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from docket.cli.main import status_of


def test_a_store_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite://{tmp_path}/store"
    assert status_of(["store", "upgrade", "--store", url]) == 125
    assert "docket store init" in capsys.readouterr().err
    assert status_of(["store", "init", "--store", url]) == 0
    assert status_of(["store", "init", "--store", url]) == 125
    assert "a store already" in capsys.readouterr().err
    assert status_of(["store", "upgrade", "--store", url]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_what_is_no_store_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["store", "init", "--store", "redis://x"]) == 2
    assert "redis is no store" in capsys.readouterr().err


def test_the_users_data_directory_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKET_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert status_of(["store", "init"]) == 0
    assert (tmp_path / "docket/fleet.sqlite").is_file()
    assert (tmp_path / "docket").stat().st_mode & 0o77 == 0
