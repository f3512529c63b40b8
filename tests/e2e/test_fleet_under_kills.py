"""Many runs under one budget, killed at random, on both engines: it is never passed, and exact in the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from docket.fleet.model import StoreAwayError
from docket.fleet.places import open_store
from kit import postgres
from kit.installed import Installed, Provider, environment

AGENT = ("-m", "docket.sim.agent")
SEED = 20261201


@contextmanager
def store_of(engine: str, directory: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """An address of an empty store, and what takes its server away for a moment."""
    if engine == "sqlite":
        yield f"sqlite://{directory}/fleet.sqlite", lambda: None
        return
    if postgres.binaries() is None:
        pytest.skip("no PostgreSQL server on this machine")
    with tempfile.TemporaryDirectory(prefix="docket-pg-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        with postgres.server(Path(home) / "data") as server:

            def restart() -> None:
                server.stop()
                server.start()

            yield server.database("fleet"), restart


class Crowd:
    """Runs of patient agents under the budget ``team``."""

    def __init__(self, installed: Installed, url: str, upstream: Provider, calls: int) -> None:
        self.installed, self.url, self.upstream, self.calls = installed, url, upstream, calls
        self.runs: list[subprocess.Popen[bytes]] = []

    def docket(self, *words: str, status: int | None = 0) -> str:
        done = self.installed.run(*words, env={"DOCKET_STORE": self.url})
        assert status is None or done.status == status, done.err
        return done.out

    def start(self) -> None:
        number = len(self.runs)
        flags = ["--quiet", "--budget", "team", "--docket-dir", f"runs{number}", *self.upstream.flags]
        agent = {
            "DOCKET_AGENT_MODE": "backoff",
            "DOCKET_AGENT_CALLS": str(self.calls),
            "DOCKET_AGENT_MAX_SLEEP": "0.5",
            "DOCKET_STORE": self.url,
        }
        self.runs.append(
            subprocess.Popen(
                [str(self.installed.docket), "run", *flags, "--", str(self.installed.python), *AGENT],
                cwd=self.installed.directory,
                env=environment(agent),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def ledgers(self, number: int | str = "*") -> list[Path]:
        return list(self.installed.directory.glob(f"runs{number}/runs/*/ledger.jsonl"))

    def answered(self, number: int) -> int:
        return sum(path.read_bytes().count(b'"type":"model.response"') for path in self.ledgers(number))

    def kill(self, number: int, after: int) -> None:
        """Kill run ``number`` with everything of it once it has so many answers, unless it has ended by then."""
        run = self.runs[number]
        while run.poll() is None:
            if self.answered(number) >= after:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait(60)
                self.close(number)
                return

    def close(self, number: int) -> None:
        """Close a run that died, once nothing of it lives any more; its leases are settled with it."""
        while not list(self.installed.directory.glob(f"runs{number}/runs/*/receipt.json")):
            self.docket("doctor", "--close", "--docket-dir", f"runs{number}", "latest", status=None)


def play(installed: Installed, upstream: Provider, engine: str, *, runs: int, calls: int, kills: int) -> None:
    """``runs`` runs of ``calls`` calls under a budget of two thirds of them; ``kills`` of them are killed."""
    rng, limit = random.Random(SEED), runs * calls * 2 // 3
    with store_of(engine, installed.directory) as (url, restart):
        crowd = Crowd(installed, url, upstream, calls)
        crowd.docket("store", "init")
        crowd.docket("budget", "create", "team", "--max-calls", str(limit))
        over, stop = list[int](), threading.Event()

        def look() -> None:
            store = open_store(url)
            while not stop.wait(0.05):
                try:
                    used = store.state("team").used.calls
                except StoreAwayError:
                    continue
                if used > limit:
                    over.append(used)
            store.close()

        with ExitStack() as stack:
            looking = threading.Thread(target=look)
            looking.start()
            stack.callback(looking.join)
            stack.callback(stop.set)
            for _ in range(runs):
                crowd.start()
            for number in rng.sample(range(runs), kills):
                crowd.kill(number, rng.randrange(1, calls // 3))
                restart()
            for run in crowd.runs:
                run.wait(600)
        assert over == []
        for number in range(runs):
            if crowd.ledgers(number):
                crowd.docket("budget", "settle", "--docket-dir", f"runs{number}", "latest")
        state = json.loads(crowd.docket("budget", "show", "team", "--json"))
        sent = sum(path.read_bytes().count(b'"type":"model.request"') for path in crowd.ledgers())
        assert (state["used"]["calls"], state["runs"]) == (sent, 0)
        assert limit * 0.9 < sent <= limit
        for path in crowd.ledgers():
            verdict = json.loads(crowd.docket("verify", "--json", str(path.parent), status=None))
            assert [check for check in verdict["checks"] if check["status"] == "fail"] == []


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_a_few_runs_killed_at_random_never_pass_their_budget(
    installed: Installed, provider: Callable[..., Provider], engine: str
) -> None:
    play(installed, provider("--input-tokens", "5", "--output-tokens", "5"), engine, runs=3, calls=30, kills=1)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_twenty_runs_of_a_thousand_calls_killed_at_random_never_pass_their_budget(
    installed: Installed, provider: Callable[..., Provider], engine: str
) -> None:
    play(installed, provider("--input-tokens", "5", "--output-tokens", "5"), engine, runs=20, calls=1000, kills=7)
