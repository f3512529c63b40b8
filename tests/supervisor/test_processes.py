"""Whose processes are a run's: those that were started with its number."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from docket.supervisor.processes import processes_of

NUMBER = "DKT-20261130-00PR0CESS0"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=os.environ | {"DOCKET_RUN": NUMBER})
    assert process.stdin is not None
    while f"DOCKET_RUN={NUMBER}".encode() not in _environment(process.pid):  # until it is exec'd
        pass
    yield process
    process.stdin.close()
    process.wait()


def _environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


def test_a_process_of_the_run_is_found_and_one_of_another_is_not(child: subprocess.Popen[bytes]) -> None:
    assert processes_of(NUMBER).pids == (child.pid,)
    assert processes_of(NUMBER[:-1]).pids == ()
    assert processes_of(NUMBER + "0").pids == ()


def test_one_that_ended_and_was_not_yet_waited_for_is_gone(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes_of(NUMBER).pids == ()


def test_nobody_is_a_process_of_a_run_that_never_was() -> None:
    assert processes_of("DKT-20260101-0000000000").pids == ()
