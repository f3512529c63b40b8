"""Who descends from whom, and signals that cannot hit a process that was not meant."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.process import tree
from docket.process.tree import MAX_COMMAND, Process, command, descendants, parent, processes, same, send
from kit.processes import gone, until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def row(pid: int) -> Process:
    (found,) = [process for process in processes() if process.pid == pid]
    return found


@given(st.lists(st.integers(0, 30), min_size=2, max_size=31))
def test_descendants_are_those_whose_chain_of_parents_leads_to_the_root(parents: list[int]) -> None:
    """Any table, also one with cycles, which a snapshot that is not atomic can show."""
    rows = [Process(pid + 1, above, "1", True) for pid, above in enumerate(parents)]
    table = {process.pid: process.parent for process in rows}
    found = {process.pid for process in descendants(1, rows)}
    for process in rows:
        chain, pid = set(), process.pid
        while pid in table and pid not in chain and pid != 1:
            chain.add(pid)
            pid = table[pid]
        assert (process.pid in found) == (pid == 1 and process.pid != 1)


def test_parents_come_before_their_children() -> None:
    rows = [Process(4, 3, "1", True), Process(3, 2, "1", True), Process(2, 1, "1", True)]
    assert [process.pid for process in descendants(1, rows)] == [2, 3, 4]


def test_a_process_is_its_pid_and_its_start(sleeper: subprocess.Popen[bytes]) -> None:
    """A newcomer under a reused pid has another start time, and is not signalled."""
    real = row(sleeper.pid)
    assert parent(sleeper.pid) == os.getpid()
    assert same(real)
    reused = real._replace(start="1")
    assert not same(reused)
    assert not send(reused, signal.SIGKILL)
    assert sleeper.poll() is None
    assert send(real, signal.SIGKILL)
    assert gone(sleeper.pid)


def test_without_pidfd_the_start_is_compared_all_the_same(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old seccomp profiles of containers refuse pidfd_open."""

    def refused(pid: int, flags: int = 0) -> int:
        raise PermissionError(1, "pidfd_open")

    real = row(sleeper.pid)
    monkeypatch.setattr(tree.os, "pidfd_open", refused)
    assert not send(real._replace(start="1"), signal.SIGKILL)
    assert sleeper.poll() is None
    assert send(real, signal.SIGKILL)
    assert sleeper.wait(20) == -signal.SIGKILL


def test_a_process_that_is_gone_is_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    real = row(sleeper.pid)
    sleeper.kill()
    assert until(lambda: not row(sleeper.pid).alive)  # a zombie still has its row
    sleeper.wait()
    assert not send(real, signal.SIGKILL)
    assert command(sleeper.pid) == ""
    assert parent(sleeper.pid) == 0


def test_a_command_line_is_bounded_and_a_nameless_one_is_named(sleeper: subprocess.Popen[bytes]) -> None:
    assert until(lambda: command(sleeper.pid) == "sleep 300")
    long = subprocess.Popen(["sleep", "300", *["0" * 1000] * 20])
    try:
        assert until(lambda: len(command(long.pid)) == MAX_COMMAND)
    finally:
        long.kill()
        long.wait()
    assert command(2).startswith("[") or command(2) == ""  # a kernel thread, where it can be seen


def test_a_name_with_brackets_and_spaces_is_read_right() -> None:
    """The name in /proc/PID/stat is whatever the process likes, brackets included (proc(5))."""
    script = "printf ') S 1 (x' >/proc/self/comm; echo; read line"
    process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    try:
        assert row(process.pid).parent == os.getpid()
    finally:
        process.communicate()
