"""Docket numbers and run directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import UsageError
from docket.storage.paths import NUMBER as SHAPE
from docket.storage.paths import RunDirectory, docket_number, runs_in
from kit.runs import NUMBER, new_run


@given(st.integers(0, 4_102_444_800_000_000), st.binary(min_size=10, max_size=10))
def test_every_docket_number_has_its_shape(unix_us: int, random_bytes: bytes) -> None:
    assert SHAPE.fullmatch(docket_number(unix_us, lambda count: random_bytes[:count]))


def test_docket_number_begins_with_the_utc_date() -> None:
    assert docket_number(1_796_000_000_000_000, os.urandom).startswith("DKT-20261130-")


def test_a_new_run_is_private_latest_and_ignored_by_git(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    docket_dir = tmp_path / ".docket"
    assert (docket_dir / "latest").resolve() == run.path.resolve()
    assert (docket_dir / ".gitignore").read_text() == "*\n"
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert runs_in(docket_dir) == [run.path]


def test_latest_moves_to_the_newest(tmp_path: Path) -> None:
    first, second = new_run(tmp_path), new_run(tmp_path)
    assert RunDirectory.open(tmp_path / ".docket" / "latest").path == second.path.resolve()
    assert set(runs_in(tmp_path / ".docket")) == {first.path, second.path}


def test_a_run_directory_is_never_taken_twice(tmp_path: Path) -> None:
    new_run(tmp_path, number=NUMBER)
    with pytest.raises(UsageError, match="File exists"):
        new_run(tmp_path, number=NUMBER)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".docket").write_text("a file")
    with pytest.raises(UsageError, match=str(tmp_path)) as caught:
        new_run(tmp_path)
    assert caught.value.hint is not None


def test_no_runs_where_there_is_no_docket_directory(tmp_path: Path) -> None:
    assert runs_in(tmp_path / "nothing") == []


def test_files_are_reached_through_the_descriptor_and_never_through_a_link(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (tmp_path / "secret").write_text("x")
    (run.path / "receipt.json").symlink_to(tmp_path / "secret")
    with pytest.raises(Exception, match="cannot read"):
        run.read("receipt.json")
    moved = run.path.rename(run.path.with_name("moved"))
    (moved / "note").write_text("y")
    assert run.read("note") == b"y"
    assert run.read("absent") is None
