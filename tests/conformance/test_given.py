"""The names that a verifier reads: one that exists and is no readable file is never a missing one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.scene import short
from conformance.verifiers import verifier
from kit.recordings import write

PROGRAMS = ("python", "js", "go")
NAMES = ("receipt.json", "ledger.jsonl", "checkpoints")


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
    "socket": _socket,
    "dangling link": lambda path: path.symlink_to("nothing here"),
    "link in a circle": lambda path: path.symlink_to(path.name),
    "link to a device": lambda path: path.symlink_to("/dev/null"),
    "link to a directory": lambda path: path.symlink_to("."),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_name_that_is_no_readable_file_is_unreadable_whatever_else_is_there(program: str, tmp_path: Path) -> None:
    cases = []
    for name in NAMES:
        for kind, make in KINDS.items():
            for others in (NAMES, ("ledger.jsonl",), ()):
                run = tmp_path / f"{name} {kind} {len(others)}"
                files = short().files()
                write({each: files[each] for each in others if each != name}, run)
                run.mkdir(exist_ok=True)
                make(run / name)
                cases.append(run)
    assert {answer[0] for answer in verifier(program).batch(cases)} == {"unreadable"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_link_to_a_regular_file_is_that_file(program: str, tmp_path: Path) -> None:
    place = write(short().files(), tmp_path / "real")
    run = tmp_path / "run"
    run.mkdir()
    for name in NAMES:
        (run / name).symlink_to(place / name)
    (tmp_path / "latest").symlink_to("run")
    answers = verifier(program).batch([run, tmp_path / "latest", run / "receipt.json"])
    assert [answer[0] for answer in answers] == ["verified"] * 3


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_unreadable(program: str, tmp_path: Path) -> None:
    run = write(short().files(), tmp_path / "run")
    (run / "checkpoints").chmod(0)
    (answer,) = verifier(program).batch([run])
    assert answer[0] == "unreadable"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_device_or_fifo_given_itself_is_unreadable_and_nobody_waits(program: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    answers = verifier(program).batch([tmp_path / "fifo", Path("/dev/zero"), tmp_path / "none"])
    assert [answer[0] for answer in answers] == ["unreadable"] * 3
