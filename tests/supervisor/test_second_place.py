from __future__ import annotations

import os
from pathlib import Path

import pytest

from docket.supervisor.second_place import leave, left_behind, places

NUMBER = "DKT-20261201-AAAAAAAAAA"


def test_the_named_directory_comes_first_then_the_users_state_directory(tmp_path: Path) -> None:
    environ = {"HOME": "/home/ada", "XDG_STATE_HOME": "/state"}
    assert places(tmp_path, environ) == (tmp_path, Path("/state/docket"))
    assert places(None, {"HOME": "/home/ada"}) == (Path("/home/ada/.local/state/docket"),)
    assert places(None, {"XDG_STATE_HOME": "relative", "HOME": "/home/ada"}) == (
        Path("/home/ada/.local/state/docket"),
    )  # a relative one is to be ignored (XDG base directory specification)
    assert places(None, {}) == ()


def test_the_first_place_that_takes_it_has_the_receipt_for_its_owner_alone(tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    first, second = tmp_path / "one" / "deep", tmp_path / "two"
    path = leave(NUMBER, b"{}\n", (blocked, first, second))
    assert path == first / f"{NUMBER}.receipt.json"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"{}\n", 0o600)
    assert not second.exists()
    assert left_behind(NUMBER, (blocked, second, first)) == b"{}\n"
    assert left_behind(NUMBER, (second,)) is None


def test_where_no_place_takes_it_nothing_is_said_to_be_there(tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    assert leave(NUMBER, b"{}\n", (blocked, blocked / "below")) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="SKIP: root may write anywhere")
def test_a_place_that_may_not_be_written_is_passed_over(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert leave(NUMBER, b"{}\n", (tmp_path,)) is None
