"""docket killed with SIGKILL under load: diagnosed, closed, continued, and verified each time."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.verifiers import PYTHON, go, javascript
from docket.supervisor.processes import processes_of
from kit.installed import Installed, Provider, environment

LOAD = """
call() { curl -s -o /dev/null -H 'content-type: application/json' -d '{"model":"gpt-4o","messages":[]}' \
  "$OPENAI_BASE_URL/chat/completions"; }
while true; do call & call & call & wait; done
"""
PATIENCE_SECONDS = 30.0


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for ``condition``; busy, since what is waited for is another process's file or end."""
    deadline = time.monotonic() + PATIENCE_SECONDS  # noqa: TID251 a bound, not a measurement
    while not condition():
        assert time.monotonic() < deadline, what  # noqa: TID251


def killed_run(installed: Installed, upstream: Provider, events: int) -> Path:
    """A run under load whose supervisor is killed once its ledger holds ``events`` events; nothing of it lives."""
    process = subprocess.Popen(
        [str(installed.docket), "run", "--quiet", *upstream.flags, "--", "sh", "-c", LOAD],
        cwd=installed.directory,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ledger = installed.latest / "ledger.jsonl"
    until(lambda: ledger.exists() and ledger.read_bytes().count(b"\n") >= events, "no events came")
    run = installed.latest.resolve()
    process.kill()
    process.wait()
    until(lambda: not processes_of(run.name).pids, "a process of the run lives on")
    return run


def verdict(*runs: Path) -> str:
    """The one verdict on all of ``runs`` that every verifier there is gives, check by check."""
    answers = [verifier.batch(runs) for verifier in (PYTHON, javascript(), go()) if verifier is not None]
    assert all(answer == answers[0] for answer in answers), (runs, answers)
    (said,) = {word for word, _ in answers[0]}
    return said


def kill_close_and_continue(installed: Installed, upstream: Provider, rng: random.Random) -> None:
    """One kill in a fresh directory, and both ways to go on from it."""
    installed = Installed(installed.python, installed.docket, installed.directory / f"{rng.random()}")
    installed.directory.mkdir()
    run = killed_run(installed, upstream, rng.randint(4, 60))
    diagnosis = json.loads(installed.run("doctor", "--json", str(run)).out)["runs"][0]
    assert diagnosis["state"] in ("no receipt", "torn tail"), diagnosis
    assert verdict(run) == "unfinished"
    other = Installed(installed.python, installed.docket, installed.directory / "copy")
    copy = other.directory / ".docket" / "runs" / run.name
    shutil.copytree(run, copy)

    assert installed.run("doctor", "--close", str(run)).status == 0
    assert verdict(run) == "recovered"
    assert installed.run("verify", "--accept", "recovered", str(run)).status == 0

    done = other.run(
        "run",
        "--resume",
        run.name,
        *upstream.flags,
        "--",
        "sh",
        "-c",
        LOAD.replace("while true; do", "").replace("; done", ""),
    )
    assert done.status == 0, done.err
    assert verdict(copy) == "incomplete"
    receipt = json.loads((copy / "receipt.json").read_text())
    assert receipt["session"]["sessions"] == 2
    assert receipt["totals"]["calls"] >= 3
    shutil.rmtree(installed.directory)


def test_a_killed_run_is_closed_or_continued(installed: Installed, provider: Callable[..., Provider]) -> None:
    kill_close_and_continue(installed, provider(), random.Random(48))


@pytest.mark.long
def test_two_hundred_killed_runs_are_closed_and_continued(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream, rng = provider(), random.Random(20261130)
    for _ in range(200):
        kill_close_and_continue(installed, upstream, rng)


def test_caps_count_what_earlier_sessions_booked(installed: Installed, provider: Callable[..., Provider]) -> None:
    upstream = provider()
    once = LOAD.replace("while true; do call & call & call & wait; done", "call")
    flags = ["--max-calls", "3", *upstream.flags]
    assert installed.run("run", *flags, "--", "sh", "-c", once).status == 0
    assert installed.run("run", "--resume", "latest", *flags, "--", "sh", "-c", LOAD).status == 42
    receipt = installed.receipt()
    assert (receipt["totals"]["calls"], receipt["session"]["sessions"]) == (3, 2)
    assert receipt["caps"]["usd"]["booked"] == receipt["caps"]["usd"]["billed"]
    verdict = installed.verdict()
    assert (verdict["verdict"], verdict["exit"]) == ("incomplete", 3)
    assert "sessions not linked" in verdict["reason"]
    spent = installed.run("run", "--resume", "latest", *flags, "--", "sh", "-c", once)
    assert spent.status == 2
    assert "max_model_calls is spent: 3 of 3" in spent.err
    assert len(upstream.report()["requests"]) == 3
    assert installed.verdict()["verdict"] == "incomplete"


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_second_supervisor_on_one_run_is_refused_by_the_name_of_the_first(
    installed: Installed, stopped: bool
) -> None:
    process = subprocess.Popen(
        [str(installed.docket), "run", "--quiet", "--", "sh", "-c", "echo up; read line"],
        cwd=installed.directory,
        env=environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    if stopped:
        process.send_signal(signal.SIGSTOP)
    for arguments in (["run", "--resume", "latest", "--", "true"], ["doctor", "--close", "latest"]):
        refused = installed.run(*arguments)
        assert refused.status == 125
        assert f"pid {process.pid}" in refused.err, refused.err
    assert json.loads(installed.run("doctor", "--json").out)["runs"][0]["state"] == "running"
    process.send_signal(signal.SIGCONT)
    process.communicate("go on\n", timeout=30)
    assert process.returncode == 0
    assert installed.verdict()["verdict"] == "verified"


def test_a_run_is_not_closed_while_a_process_of_it_lives(installed: Installed) -> None:
    """docket and its guardian killed together: what left the agent's session lives on, and is named."""
    process = subprocess.Popen(
        [str(installed.docket), "run", "--quiet", "--", "sh", "-c", "setsid sleep 300 >&- & echo up; wait"],
        cwd=installed.directory,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    run = installed.latest.resolve()
    until(lambda: len(processes_of(run.name).pids) == 2, "the helper did not start")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGSTOP)
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.communicate()
    until(lambda: len(processes_of(run.name).pids) == 1, "the agent lives on")
    (survivor,) = processes_of(run.name).pids
    refused = installed.run("doctor", "--close", "latest")
    assert refused.status == 125
    assert str(survivor) in refused.err
    assert not (run / "receipt.json").exists()
    os.kill(survivor, signal.SIGKILL)
    until(lambda: not processes_of(run.name).pids, "a killed process lives on")
    assert installed.run("doctor", "--close", "latest").status == 0
    assert verdict(run) == "recovered"
