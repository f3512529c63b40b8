"""Everything the agent started is gone before ``reap`` answers, whatever it was, and each straggler is named."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from docket.process import reaper
from docket.process.cgroup import ControlGroup
from docket.process.outcome import ExitStatus, Spawned
from docket.process.supervision import Guardian
from kit.freezer import Freezer
from kit.processes import argument_holders, gone, state, until
from tests.process.conftest import CASES, ROOT, Run, agent

Start = Callable[..., Run]
SEED = 20261130


def orphans(run: Run) -> dict[int, tuple[str, str]]:
    found = run.report()["orphans"]
    assert isinstance(found, list)
    return {row["pid"]: (row["ended"], row["command"]) for row in found}


@pytest.mark.parametrize(
    ("shape", "ended"),
    [("setsid", "terminated"), ("daemon", "terminated"), ("stubborn", "killed"), ("nohup", "terminated"),
     ("threads", "killed"), ("stopped", "terminated")],
)  # fmt: skip
def test_a_straggler_is_ended_and_named(run: Start, shape: str, ended: str) -> None:
    """It outlives the agent, gets SIGTERM, and SIGKILL where that does not help."""
    started = run(*agent("tree", shape, "exit"), grace=0.3)
    _agent, straggler = (int(word) for word in started.line().split()[1:])
    found = orphans(started)
    assert found[straggler][0] == ended
    assert len(found[straggler][1]) > len("sleep")
    assert gone(straggler, 0)
    assert started.process.returncode == 0


def test_a_straggler_that_ends_by_itself_keeps_its_exit(run: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    os.mkfifo(tmp_path / "never")
    # It waits without a child: a fork that has not called exec yet would be a second straggler of the same name.
    straggler = f"trap 'exit 4' TERM; exec 3<>{tmp_path}/never; echo up >{tmp_path}/up; read x <&3"
    started = run("sh", "-c", f'setsid sh -c "{straggler}" & read x <{tmp_path}/up; echo $x; exit 0', grace=20)
    assert started.line() == "up"
    assert [ended for ended, command in orphans(started).values() if "trap" in command] == ["exited"]


def test_a_grandchild_in_another_session_goes_with_the_run(run: Start) -> None:
    """SIGTERM to the supervisor; both pids are gone."""
    started = run("sh", str(CASES / "setsid_grandchild.sh"), grace=20)
    grandchild, child = (int(started.line().split()[1]) for _ in range(2))
    assert child == started.agent
    assert until(lambda: Path(f"/proc/{grandchild}/cmdline").read_text().startswith("sleep"))
    os.kill(started.docket, signal.SIGTERM)
    assert orphans(started)[grandchild] == ("terminated", "sleep 300")
    assert gone(grandchild, 0)
    assert gone(child, 0)


def test_a_thousand_children_are_gone_and_each_is_named(run: Start) -> None:
    started = run(*agent("tree", "children", "exit"), grace=20)
    _agent, *children = (int(word) for word in started.line().split()[1:])
    assert len(children) == 1000
    assert set(children) == set(orphans(started))
    assert all(state(pid) == "" for pid in children)


def test_zombies_are_reaped_and_are_no_stragglers(run: Start) -> None:
    started = run(*agent("tree", "zombies", "exit"))
    _agent, *zombies = (int(word) for word in started.line().split()[1:])
    assert orphans(started) == {}
    assert all(state(pid) == "" for pid in zombies)


def test_a_fork_bomb_within_limits_is_ended(run: Start) -> None:
    """It refills every slot that a kill frees, in sessions of its own, and is ended all the same."""
    started = run(*agent("bomb", "60"), grace=0.2)
    assert started.line() == "bomb"
    os.kill(started.docket, signal.SIGTERM)
    started.report()
    assert until(lambda: not argument_holders("agents.py\0bomb"), 0.1)


def test_a_grandchild_that_holds_stdout_and_stderr_delays_nothing(run: Start) -> None:
    """The status is known at once; what holds the pipe is ended like everything else."""
    started = run("sh", "-c", "setsid sleep 300 & exit 3", grace=20)
    started.report()
    assert started.process.returncode == 3
    assert started.stdout.read() == ""


def test_a_stop_after_the_grace_period_ends_the_whole_tree_at_once(run: Start) -> None:
    started = run(*agent("tree", "ten", "stay"), grace=0.2)
    pids = [int(word) for word in started.line().split()[1:]]
    os.kill(started.docket, signal.SIGTERM)
    assert started.report()["signal"] == signal.SIGTERM
    assert all(gone(pid, 0) for pid in pids)


def test_a_nested_run_is_ended_in_order(run: Start, tmp_path: Path) -> None:
    """docket under docket: the inner one hears SIGTERM and ends its own run."""
    inner = [
        sys.executable,
        "-m",
        "tests.process.driver",
        str(tmp_path / "inner"),
        "20",
        *agent("tree", "daemon", "stay"),
    ]
    started = run(*inner, grace=40)
    pids = [int(word) for word in started.line().split()[1:]]
    os.kill(started.docket, signal.SIGTERM)
    report = started.report()
    assert report["orphans"] == []
    assert (tmp_path / "inner").exists()
    assert all(gone(pid, 0) for pid in pids)


@pytest.fixture
def freezer() -> Iterator[Freezer]:
    if not Freezer.available():
        pytest.skip("no version 1 freezer group can be made here")
    group = Freezer(f"docket-test-{os.getpid()}")
    yield group
    group.thaw()
    assert until(lambda: not (group.path / "cgroup.procs").read_text())
    group.remove()


@pytest.mark.parametrize("who", ["straggler", pytest.param("agent", marks=pytest.mark.long)])
def test_what_sigkill_does_not_end_is_named_after_ten_seconds(run: Start, freezer: Freezer, who: str) -> None:
    """Bounded: the run ends, the survivor is named, and it dies as soon as it can."""
    started = run(*agent("tree", "daemon", "stay"), grace=0.1)
    first, second = (int(word) for word in started.line().split()[1:])
    stuck = second if who == "straggler" else first
    freezer.freeze(stuck)
    os.kill(started.docket, signal.SIGTERM)
    found = orphans(started)
    assert found[stuck][0] == "survived"
    assert "agents.py" in found[stuck][1]
    assert not gone(stuck, 0)
    freezer.thaw()
    assert gone(stuck, 5)


def test_the_bound_is_ten_seconds() -> None:
    """What the issue promises, and what the tests above wait for."""
    assert reaper.KILL_LIMIT_US == 10_000_000


def kill_at(run: Start, moment: float, victim: str) -> None:
    """SIGKILL for docket or its guardian ``moment`` seconds after a tree of ten began to grow."""
    started = run(*agent("tree", "ten", "stay"))
    try:
        started.process.wait(moment)
    except subprocess.TimeoutExpired:
        os.kill(getattr(started, victim), signal.SIGKILL)
    assert gone(started.guardian, 2)
    assert gone(started.agent, 2)
    assert until(lambda: not argument_holders(started.report_file.parent.name), 2)
    assert until(lambda: not [pid for pid in argument_holders("agents.py\0tree\0ten") if belongs(pid, started)], 2)


def belongs(pid: int, run: Run) -> bool:
    """Whether the process was started by this test (the environment names its directory)."""
    try:
        return run.report_file.parent.name.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("victim", ["docket", "guardian"])
def test_killing_the_supervisor_at_any_moment_leaves_nothing(run: Start, victim: str) -> None:
    """A seeded sample of moments, from before the tree is whole to long after."""
    source = random.Random(f"{SEED}-{victim}")
    for _ in range(6):
        kill_at(run, source.uniform(0, 0.15), victim)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["docket", "guardian"])
def test_killing_the_supervisor_at_two_hundred_moments_leaves_nothing(run: Start, victim: str) -> None:
    source = random.Random(f"{SEED}-{victim}-long")
    for _ in range(200):
        kill_at(run, source.uniform(0, 0.25), victim)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_crash_of_docket_itself_leaves_nothing(run: Start, name: str) -> None:
    no_core = (resource.RLIMIT_CORE, (0, 0))
    started = run(*agent("tree", "ten", "stay"), preexec_fn=lambda: resource.setrlimit(*no_core))
    pids = [int(word) for word in started.line().split()[1:]]
    os.kill(started.docket, getattr(signal, name))
    for pid in (*pids, started.guardian):
        assert gone(pid, 2)


def test_docket_ends_the_run_when_the_guardian_dies_and_says_so(run: Start) -> None:
    started = run(*agent("tree", "ten", "stay"))
    pids = [int(word) for word in started.line().split()[1:]]
    os.kill(started.guardian, signal.SIGKILL)
    report = started.report()
    assert report["lost"] is True
    assert report["signal"] == signal.SIGKILL
    assert set(orphans(started)) <= set(pids)
    assert all(gone(pid, 0) for pid in pids)
    group = ControlGroup.of(started.guardian)
    assert group is None or not Path(group.path).exists()


DYING = """#!{python} -I
import os, signal, sys
from docket.process import guardian

def die(self, started):
    while not os.path.exists({started!r}):
        pass
    os.kill(os.getpid(), signal.SIGKILL)

guardian.Guardian._launched = die
sys.argv[1:] = sys.argv[-3:]
guardian.main()
"""


def test_a_guardian_that_dies_before_it_could_report_the_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent runs, and has a child in another session, but docket has not heard of it: all of it is ended."""
    program = tmp_path / "guardian"
    program.write_text(DYING.format(python=sys.executable, started=str(tmp_path / "started")))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    guardian = Guardian.start()
    script = f"setsid sleep 300 & echo $! >{tmp_path}/pid; mv {tmp_path}/pid {tmp_path}/started; exec tail -f /dev/null"

    async def supervise() -> None:
        started = await guardian.spawn(["sh", "-c", script], os.environ, str(tmp_path))
        assert isinstance(started, Spawned)
        assert await guardian.exited() == ExitStatus(signal=signal.SIGKILL)
        reaped = await guardian.reap(5)
        assert reaped.guardian_lost
        await guardian.close()

    asyncio.run(supervise())
    assert gone(int((tmp_path / "started").read_text()), 0)


def test_a_stopped_guardian_is_set_going_again(run: Start) -> None:
    """An agent can stop the guardian of its own user: docket continues it."""
    started = run(*agent("signals", "SIGUSR1"))
    assert started.line() == "ready"
    os.kill(started.guardian, signal.SIGSTOP)
    assert until(lambda: state(started.guardian) in "SR")
    os.kill(started.docket, signal.SIGUSR1)
    assert started.line() == "SIGUSR1 1"


def test_descriptors_that_the_user_passed_reach_the_agent_and_docket_s_own_do_not(run: Start) -> None:
    """Process substitution and job servers work; what docket holds open itself is not inherited."""
    reading, writing = os.pipe()
    try:
        started = run(
            "bash",
            "-c",
            f"ls /proc/self/fd | grep -v '^[0-2]$' | tr '\\n' ' '; echo hello >&{writing}",
            pass_fds=(writing,),
        )
        listed = started.line().split()
        assert str(writing) in listed
        assert len(listed) == 2  # and the directory that ls itself has open
        assert os.read(reading, 6) == b"hello\n"
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(os.geteuid() != 0, reason="the guardian hides its descriptors from a plain user")
def test_the_guardian_holds_no_lock_and_no_directory(run: Start, tmp_path: Path) -> None:
    """Its descriptors are the inherited stdio, the socket, a wakeup pipe; nothing of docket's files."""
    started = run(*agent("stubborn"))
    assert started.line() == "ready"
    targets = {os.readlink(f"/proc/{started.guardian}/fd/{fd}") for fd in os.listdir(f"/proc/{started.guardian}/fd")}
    assert not [target for target in targets if str(tmp_path) in target or str(ROOT) in target]
