"""docket as PID 1 of a real PID namespace, as in a container: it reaps foreign orphans and forwards signals."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest

from kit.installed import Installed
from kit.processes import gone, state, until
from kit.supervised import latest, supervised

NAMESPACE = [
    "unshare",
    *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
    "--pid",
    "--fork",
    "--mount-proc",
]
WAIT = "while :; do sleep 0.02; done"


def available() -> bool:
    """Whether PID namespaces can be made here."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not available(), reason="no PID namespace can be made here (unshare, nsenter)")


def outer(unshare: int) -> int:
    """docket's pid as the world outside sees it: the only child of unshare."""
    with open(f"/proc/{unshare}/task/{unshare}/children") as children:
        (pid,) = children.read().split()
    return int(pid)


def enter(pid: int, script: str) -> str:
    """Run a script in the namespace of ``pid``, as ``docker exec`` does: its parent is outside."""
    command = ["nsenter", f"--target={pid}", "--pid", "--mount", "--preserve-credentials", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def test_it_gives_the_agent_s_status_and_leaves_a_receipt(installed: Installed) -> None:
    with supervised(installed, (), "setsid sleep 300 & exit 5", before=NAMESPACE) as run:
        assert run.docket == 1
        run.guardian = run.process.pid
        assert run.finish()[0] == 5
    assert installed.receipt()["session"]["exit"] == {"code": 5}
    assert installed.receipt()["session"]["orphans"] == len(installed.events("proc.orphan")) == 1
    assert installed.verdict()["verdict"] == "verified"


@pytest.mark.parametrize(
    ("number", "status"),
    [
        ("SIGTERM", 143),
        pytest.param("SIGINT", 130, marks=pytest.mark.long),
        pytest.param("SIGHUP", 129, marks=pytest.mark.long),
    ],
)
def test_a_stop_of_the_container_ends_the_run(number: str, status: int, installed: Installed) -> None:
    """The kernel discards signals that PID 1 does not handle: docket handles them and forwards them."""
    with supervised(installed, (), f"echo ready; {WAIT}", before=NAMESPACE) as run:
        assert run.line() == "ready"
        docket = outer(run.process.pid)
        run.guardian = run.process.pid
        os.kill(docket, getattr(signal, number))
        assert run.finish()[0] == status
    assert installed.receipt()["session"]["outcome"] == "interrupted"


def test_foreign_orphans_are_reaped_and_leave_the_run_alone(installed: Installed) -> None:
    """A process started by ``docker exec`` daemonises: it becomes docket's child, and no zombie when it ends."""
    with supervised(installed, (), "echo ready; exec tail -f /dev/null", before=NAMESPACE) as run:
        assert run.line() == "ready"
        docket = outer(run.process.pid)
        run.guardian = run.process.pid
        orphan = "sh -c 'echo $$; read -r x </dev/null; while [ \"$(ps -o ppid= -p $$)\" -ne 1 ]; do :; done; exit 3'"
        for _ in range(3):
            enter(docket, f"setsid {orphan} >/dev/null 2>&1 & true")
        assert until(lambda: enter(docket, "ps -A -o ppid=,stat= | grep -c '^ *1 Z' || true").strip() == "0")
        assert until(
            lambda: enter(docket, "ps -A -o ppid=,args= | grep '^ *1 ' | grep -c 'exit [3]' || true").strip() == "0"
        )
        assert state(docket) != ""
        os.kill(docket, signal.SIGTERM)
        assert run.finish()[0] == 143
    assert installed.receipt()["session"]["orphans"] == 0


def test_killing_it_takes_the_namespace_down_and_leaves_a_prefix(installed: Installed) -> None:
    with supervised(installed, (), f"setsid sleep 300 & echo ready; {WAIT}", before=NAMESPACE) as run:
        assert run.line() == "ready"
        docket = outer(run.process.pid)
        run.guardian = run.process.pid
        os.kill(docket, signal.SIGKILL)
        assert gone(docket, 2)
    assert installed.run("verify", str(latest(installed))).status == 3


def test_a_foreign_proc_is_refused_by_name(installed: Installed) -> None:
    """Without ``--mount-proc`` /proc shows other processes: docket could not see the tree it must end."""
    namespace = [word for word in NAMESPACE if word != "--mount-proc"]
    done = subprocess.run(
        [*namespace, str(installed.docket), "run", "--", "true"],
        cwd=installed.directory, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 125
    assert "/proc does not show this PID namespace" in done.stderr
