"""Many runs under one budget, through an installed docket: never more than it allows, and exactly settled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.installed import Done, Installed, Provider, environment

AGENT = ("-m", "docket.sim.agent")


class Team:
    """An installed docket with a store of its own."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.store = f"sqlite://{installed.directory}/fleet.sqlite"
        assert self.run("store", "init").status == 0

    def run(self, *words: str, **agent: str) -> Done:
        return self.installed.run(*words, env={"DOCKET_STORE": self.store, **agent})

    def budget(self, name: str = "team") -> dict[str, Any]:
        return dict(json.loads(self.run("budget", "show", name, "--json").out))

    def start(self, upstream: Provider, number: int) -> subprocess.Popen[bytes]:
        """A run of an agent that never stops, in the background."""
        flags = ["--quiet", "--budget", "team", "--docket-dir", f"runs{number}", *upstream.flags]
        agent = {"DOCKET_AGENT_MODE": "runaway", "DOCKET_AGENT_MODEL": "gpt-4o", "DOCKET_STORE": self.store}
        return subprocess.Popen(
            [str(self.installed.docket), "run", *flags, "--", str(self.installed.python), *AGENT],
            cwd=self.installed.directory,
            env=environment(agent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture
def team(installed: Installed) -> Team:
    return Team(installed)


def next_ledger(directory: Path) -> Path:
    """The ledger of the run that begins below ``directory``."""
    while True:
        for path in directory.glob("runs/*/ledger.jsonl"):
            return path


def test_runs_at_once_spend_exactly_their_budget_and_one_that_was_killed_is_settled_by_its_ledger(
    team: Team, provider: Callable[..., Provider]
) -> None:
    installed, upstream = team.installed, provider("--input-tokens", "10", "--output-tokens", "10")
    assert team.run("budget", "create", "team", "--max-calls", "120").status == 0
    runs = [team.start(upstream, number) for number in range(3)]
    ledger = next_ledger(installed.directory / "runs0")
    while ledger.read_bytes().count(b'"model.response"') < 3:
        assert runs[0].poll() is None
    os.killpg(runs[0].pid, signal.SIGKILL)
    assert runs[0].wait(60) == -signal.SIGKILL
    refused = team.run("budget", "settle", "--docket-dir", "runs0", "latest")
    assert refused.status == 1
    assert "docket doctor --close" in refused.err
    closed = team.run("doctor", "--close", "--docket-dir", "runs0", "latest")
    assert "what it leased of shared budgets and did not spend was given back" in closed.err
    again = team.run("budget", "settle", "--docket-dir", "runs0", "latest")
    assert "0 USD, 0 tokens, 0 calls charged, 0 USD, 0 tokens, 0 calls given back" in again.out
    assert {run.wait(60) for run in runs[1:]} == {42}
    ledgers = installed.directory.glob("runs?/runs/*/ledger.jsonl")
    sent = sum(path.read_bytes().count(b'"type":"model.request"') for path in ledgers)
    after = team.budget()
    assert after["used"]["calls"] == sent <= 120
    assert (after["runs"], after["leased"]["calls"]) == (0, 0)
    for number in range(3):
        verdict = json.loads(team.run("verify", "--json", f"runs{number}/latest").out)
        assert [check for check in verdict["checks"] if check["status"] == "fail"] == []


def test_a_breach_names_the_budget_and_a_spent_budget_starts_nothing(
    team: Team, provider: Callable[..., Provider]
) -> None:
    installed, upstream = team.installed, provider("--input-tokens", "10", "--output-tokens", "10")
    assert team.run("budget", "create", "team", "--max-calls", "4").status == 0
    agent = {"DOCKET_AGENT_MODE": "runaway"}
    done = team.run("run", "--budget", "team", *upstream.flags, "--", str(installed.python), *AGENT, **agent)
    assert done.status == 42
    assert "the shared budget team cannot cover the next call of up to 1: 4 of 4 calls are used" in done.err
    receipt = installed.receipt()
    assert receipt["session"]["breach"]["cap"] == "shared_budget"
    assert receipt["totals"]["calls"] == 4
    latest = installed.latest.resolve()
    again = team.run("run", "--budget", "team", *upstream.flags, "--", "true")
    assert (again.status, installed.latest.resolve()) == (2, latest)
    assert "team is used up for good: all of its 4 calls are spent" in again.err


def test_dollars_are_taken_before_they_are_spent_and_given_back_to_the_cent(
    team: Team, provider: Callable[..., Provider]
) -> None:
    installed, upstream = team.installed, provider("--input-tokens", "2000", "--output-tokens", "500")
    assert team.run("budget", "create", "org", "--max-usd", "10").status == 0
    assert team.run("budget", "create", "team", "--max-usd", "5", "--per", "day", "--parent", "org").status == 0
    agent = {"DOCKET_AGENT_MODE": "bounded", "DOCKET_AGENT_MODEL": "gpt-4o"}
    done = team.run("run", "--budget", "team", *upstream.flags, "--", str(installed.python), *AGENT, **agent)
    assert done.status == 0, done.err
    cost = installed.receipt()["totals"]["cost_usd"]
    assert team.budget()["used"]["usd"] == team.budget("org")["used"]["usd"] == cost
    (leased, *_) = installed.events("x-docket.budget-leased")
    requests = installed.events("model.request")
    assert leased["seq"] < requests[0]["seq"]
    assert installed.events("x-docket.budget-returned")[0]["data"]["settled"] is True
