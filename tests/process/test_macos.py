"""The macOS paths, by stand-ins on this machine: ``ps`` for the process table, no subreaper, no death signal.

No run on a real macOS was made.
"""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import docket
from docket.errors import UsageError
from docket.host import LINUX, MACOS, host
from docket.process import reaper, tree
from docket.process.reaper import Reaper
from docket.process.tree import command, parent, processes, send
from kit.processes import gone, until
from tests.process.conftest import ROOT

ps = pytest.mark.skipif(shutil.which("ps") is None, reason="no ps, which the macOS path asks")
LINUX_ONLY = {
    "pidfd_open",
    "pidfd_send_signal",
    "waitid",
    "P_ALL",
    "P_PID",
    "prctl",
    "eventfd",
    "memfd_create",
    "O_PATH",
}


def test_there_is_one_switch() -> None:
    assert host("linux") is LINUX
    assert host("linux2") is LINUX
    assert host("darwin") is MACOS
    assert (MACOS.subreaper, MACOS.death_signal, MACOS.proc_filesystem, MACOS.full_sync) == (False, False, False, True)


def test_what_is_weaker_is_said() -> None:
    said = " ".join(MACOS.limits)
    for word in ("subreaper", "parent-death signal", "not tested on a real macOS"):
        assert word in said
    assert LINUX.limits == ()


@pytest.mark.parametrize("platform", ["win32", "freebsd14", "cygwin", "aix"])
def test_other_systems_are_refused_by_name(platform: str) -> None:
    with pytest.raises(UsageError, match=platform) as caught:
        host(platform)
    assert caught.value.hint


def test_nothing_linux_only_is_touched_when_a_module_loads() -> None:
    """Attributes that other systems lack are only named inside functions."""
    for path in Path(docket.__file__).parent.rglob("*.py"):
        for node in at_load(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in LINUX_ONLY, f"{path}:{node.lineno}: {node.attr}"


def at_load(node: ast.AST) -> list[ast.AST]:
    """The nodes that are evaluated by importing the module."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found += [child, *at_load(child)]
    return found


@ps
def test_the_process_table_of_ps_has_the_same_rows() -> None:
    """Same pids and parents as /proc, without the ``ps`` that was asked."""
    child = subprocess.Popen(["sleep", "300"])
    try:
        (row,) = [row for row in processes(MACOS) if row.pid == child.pid]
        assert (row.parent, row.alive) == (os.getpid(), True)
        assert parent(child.pid, MACOS) == os.getpid()
        assert command(child.pid, MACOS) == "sleep 300"
        assert not [row for row in processes(MACOS) if row.parent == os.getpid() and row.pid != child.pid]
        assert send(row, signal.SIGKILL, MACOS)
        assert until(lambda: not [row for row in processes(MACOS) if row.pid == child.pid and row.alive])
    finally:
        child.kill()
        child.wait()
    assert not send(row, signal.SIGKILL, MACOS)


@ps
def test_a_tree_is_ended_without_a_subreaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walking until nothing is listed is all there is: children and grandchildren that are still attached end."""

    def unavailable(*arguments: object) -> int:
        raise AssertionError("not on macOS")

    monkeypatch.setattr(tree.os, "pidfd_open", unavailable)
    script = "sleep 300 & sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.05; done' & wait"
    agent = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert agent.stdout is not None
    agent.stdout.readline()
    pids = [row.pid for row in tree.descendants(os.getpid(), processes()) if row.alive]
    assert len(pids) >= 3
    end = Reaper(os.getpid(), agent.pid, machine=MACOS)
    end.begin(0, 0)
    moment = 0
    while not end.done:
        end.tick(moment, childless=False)
        moment += reaper.KILLING_LOOK_US
        agent.poll()
        assert moment < reaper.KILL_LIMIT_US
    monkeypatch.undo()
    assert all(gone(pid) for pid in pids)
    assert {orphan.ended for orphan in end.orphans} == {"killed"}
    agent.stdout.close()


@pytest.fixture
def pretended(tmp_path: Path) -> Path:
    """The stand-in as one executable, for the supervisor and for its guardian."""
    program = tmp_path / "macos"
    stand_in = (ROOT / "tests/process/macos_stand_in.py").read_text().replace("Path(__file__).parents[2]", repr(ROOT))
    program.write_text(f"#!{sys.executable}\n{stand_in}".replace("PosixPath", "Path"))
    program.chmod(0o755)
    return program


def start(program: Path, *argv: str, grace: float = 5) -> tuple[subprocess.Popen[str], list[int], Path]:
    """A run under the stand-in: the process, the pids of docket, guardian and agent, and the report."""
    report = program.with_name("report")
    process = subprocess.Popen(
        [str(program), "driver", str(report), str(grace), *argv],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    words = process.stderr.readline().split()
    assert words[0::2] == ["docket", "guardian", "agent"], words
    return process, [int(word) for word in words[1::2]], report


@ps
def test_a_run_ends_with_the_agent_s_status_and_what_is_still_attached_is_ended(pretended: Path) -> None:
    process, _, report = start(pretended, "sh", "-c", "tail -f /dev/null & echo $!; read -r line; exit 5")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert process.wait(30) == 5
    assert report.exists()
    assert gone(child)
    process.communicate()


@ps
def test_a_stop_reaches_the_group_and_then_the_whole_tree(pretended: Path) -> None:
    """A child in another session, of an agent that ignores SIGTERM, is found by walking from the guardian."""
    script = "trap '' TERM; setsid tail -f /dev/null & echo $!; while :; do wait; done"
    process, pids, _ = start(pretended, "sh", "-c", script, grace=0.3)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    os.kill(pids[0], signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGKILL
    assert gone(child)
    process.communicate()


@ps
@pytest.mark.parametrize("victim", ["docket", "guardian"])
def test_the_death_of_one_of_them_ends_what_the_other_can_find(pretended: Path, victim: str) -> None:
    process, pids, _ = start(pretended, "sh", "-c", "echo ready; exec tail -f /dev/null")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(pids[0] if victim == "docket" else pids[1], signal.SIGKILL)
    assert all(gone(pid) for pid in pids)
    process.communicate()
