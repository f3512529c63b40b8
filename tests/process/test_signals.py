"""Signals to docket without a terminal: each is forwarded once, and a second request to end skips the grace period."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.processes import gone, state, until
from tests.process.conftest import Run, agent

Start = Callable[..., Run]


@pytest.mark.parametrize(
    "name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT"]
)
def test_a_signal_is_forwarded_to_the_agent_s_group(run: Start, name: str) -> None:
    started = run(*agent("signals", name, "SIGALRM"), grace=60)
    assert started.line() == "ready"
    os.kill(started.docket, getattr(signal, name))
    assert started.line() == f"{name} 1"
    os.killpg(started.agent, signal.SIGALRM)  # what comes next shows that nothing came in between
    assert started.line() == "SIGALRM 1"


@pytest.mark.parametrize("name", ["SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT"])
def test_a_signal_that_is_only_forwarded_ends_nothing(run: Start, name: str) -> None:
    started = run(*agent("signals", name), grace=0)
    assert started.line() == "ready"
    for count in (1, 2, 3):
        os.kill(started.docket, getattr(signal, name))
        assert started.line() == f"{name} {count}"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_an_agent_that_ignores_the_request_is_killed_after_the_grace_period(run: Start, name: str) -> None:
    started = run(*agent("stubborn"), grace=0.2)
    assert started.line() == "ready"
    os.kill(started.docket, getattr(signal, name))
    report = started.report()
    assert (report["signal"], report["ending"]) == (signal.SIGKILL, name)
    assert started.process.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize(("first", "second"), [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGINT"), ("SIGHUP", "SIGINT")])
def test_a_second_request_skips_the_grace_period(run: Start, first: str, second: str) -> None:
    """The grace period is far longer than the test: only skipping it lets the run end."""
    started = run(*agent("signals", "SIGTERM", "SIGINT", "SIGHUP"), grace=3600)
    assert started.line() == "ready"
    os.kill(started.docket, getattr(signal, first))
    assert started.line() == f"{first} 1"
    os.kill(started.docket, getattr(signal, second))
    report = started.report()
    assert (report["signal"], report["ending"]) == (signal.SIGKILL, first)


def test_an_agent_that_obeys_gives_its_own_status(run: Start) -> None:
    started = run("sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done", grace=60)
    assert started.line() == "ready"
    os.kill(started.docket, signal.SIGTERM)
    assert started.report()["code"] == 9
    assert started.process.returncode == 9


def test_a_stopped_agent_is_continued_so_that_it_can_end(run: Start) -> None:
    started = run("sh", "-c", "echo ready; exec tail -f /dev/null", grace=60)
    assert started.line() == "ready"
    os.kill(started.agent, signal.SIGSTOP)
    assert until(lambda: state(started.agent) == "T")
    assert state(started.docket) != "T"  # no terminal, no job control: whoever stopped it knows why
    os.kill(started.docket, signal.SIGTERM)
    assert started.report()["signal"] == signal.SIGTERM


def test_stopping_docket_stops_the_agent_and_continuing_it_continues_both(run: Start) -> None:
    """``kill -TSTP`` and ``kill -CONT`` without a terminal, twice."""
    started = run(*agent("signals", "SIGCONT", "SIGUSR1"), grace=60, process_group=0)
    assert started.line() == "ready"
    for count in (1, 2):
        os.kill(started.docket, signal.SIGTSTP)
        assert until(lambda: state(started.agent) == "T")
        assert until(lambda: state(started.docket) == "T")
        os.kill(started.docket, signal.SIGCONT)
        assert started.line() == f"SIGCONT {count}"
        os.kill(started.docket, signal.SIGUSR1)
        assert started.line() == f"SIGUSR1 {count}"


def test_what_was_ignored_stays_ignored(run: Start) -> None:
    """``nohup docket run``: neither docket nor the agent ends at a hangup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        started = run("sh", "-c", "echo ready; kill -HUP $$; echo alive; exec tail -f /dev/null")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert started.line() == "ready"
    assert started.line() == "alive"
    os.kill(started.docket, signal.SIGHUP)
    os.kill(started.docket, signal.SIGTERM)
    assert started.report()["ending"] == "SIGTERM"


def test_signal_dispositions_of_the_agent_are_the_caller_s(run: Start) -> None:
    """Python ignores SIGPIPE and SIGXFSZ and handles SIGINT; an agent must not inherit that, nor a blocked signal."""
    started = run("sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status")
    assert started.line().split() == ["SigBlk:", "0" * 16]
    ignored = int(started.line().split()[1], 16)
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigIgn:"))
    python = sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))
    assert ignored == int(own.split()[1], 16) & ~python


def test_a_signal_sent_to_docket_s_whole_group_reaches_the_agent_once(run: Start) -> None:
    """``kill %1`` of a shell signals the group of the job: the guardian and the agent are not in it."""
    started = run(*agent("signals", "SIGTERM", "SIGALRM"), grace=60, process_group=0)
    assert started.line() == "ready"
    os.killpg(started.docket, signal.SIGTERM)
    assert started.line() == "SIGTERM 1"
    os.killpg(started.agent, signal.SIGALRM)
    assert started.line() == "SIGALRM 1"


def test_killing_docket_s_whole_group_leaves_nothing(run: Start) -> None:
    started = run(*agent("tree", "ten", "stay"), process_group=0)
    pids = [int(word) for word in started.line().split()[1:]]
    os.killpg(started.docket, signal.SIGKILL)
    for pid in (*pids, started.guardian):
        assert gone(pid, 2)
