"""The runs that the probes read. Each is one ``docket`` process with a real agent on a scripted provider."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from docket.chaos.lab import Run
from docket.chaos.selftest import Bench
from docket.primitives.canonical import JsonObject

SECRET = "SENTINEL-5b1f-selftest"
"""Given to the agent as a header, a query and an argument; must be found nowhere afterwards."""
PAID: JsonObject = {"input_tokens": 2000, "output_tokens": 500, "times": 0}
"""An answer that costs one cent at the list price of MODEL."""
MODEL = "gpt-4o"
AGENT = Path(__file__).with_name("visitor.py")


def ordinary(bench: Bench) -> Run:
    """An agent that makes a plain and a streamed call, looks at health, and leaves two processes behind."""
    provider = bench.provider({"text": "one two three four five six", "pace_ms": 60, "times": 0})
    argv = [sys.executable, str(AGENT), provider.url, f"--api-key={SECRET}"]
    policy = '[caps]\nmax_usd = 1\ngrace_seconds = 0.3\n[models]\nallow = ["gpt-*"]\n'
    return bench.lab.run(provider, policy=policy, argv=argv).wait()


def loop_in_usd(bench: Bench) -> Run:
    """A loop under a cap in dollars that kills."""
    return _loop(bench, "max_usd = 0.03")


def loop_in_calls(bench: Bench) -> Run:
    """A few calls more than a cap that denies allows."""
    agent = {"MODE": "runaway", "CALLS": "4", "MODEL": MODEL}
    policy = '[caps]\nmax_model_calls = 2\non_breach = "deny"\n'
    return bench.lab.run(bench.provider(PAID), policy=policy, agent=agent).wait()


def loop_in_tokens(bench: Bench) -> Run:
    """A loop under a cap in tokens."""
    return _loop(bench, "max_tokens = 5000")


def slow_agent(bench: Bench) -> Run:
    """An agent that sleeps through its wall-clock cap, behind a child that ignores SIGTERM."""
    policy = "[caps]\nmax_wall_seconds = 0.4\ngrace_seconds = 0.2\n"
    script = "trap '' TERM; sleep 600 & wait; sleep 600"
    return bench.lab.run(bench.provider(), policy=policy, argv=["sh", "-c", script]).wait()


def outage(bench: Bench) -> Run:
    """Two failures open the breaker, the provider comes back, an agent that backs off finishes."""
    provider = bench.provider({"status": 500, "times": 2}, {"times": 0})
    policy = "[resilience]\nbreaker_threshold = 2\nbreaker_cooldown_seconds = 1\n"
    agent = {"MODE": "backoff", "CALLS": "2", "MAX_SLEEP": "1", "MODEL": MODEL}
    return bench.lab.run(provider, policy=policy, agent=agent).wait()


def hasty(bench: Bench) -> Run:
    """Calls faster than the limiter allows, by an agent that obeys."""
    agent = {"MODE": "backoff", "CALLS": "3", "MAX_SLEEP": "1", "MODEL": MODEL}
    return bench.lab.run(bench.provider(), policy="[resilience]\nmax_calls_per_second = 1\n", agent=agent).wait()


def full_disk(bench: Bench) -> Run:
    """The ledger's disk is full from some byte on."""
    agent = {"CALLS": "12", "MODEL": MODEL}
    return bench.lab.run(bench.provider(), faults="enospc=96KiB", agent=agent).wait()


def failing_sync(bench: Bench) -> Run:
    """A sync of the ledger fails under on_write_failure = "stop"."""
    policy = '[resilience]\non_write_failure = "stop"\n'
    agent = {"MODE": "runaway", "CALLS": "500", "MODEL": MODEL}
    return bench.lab.run(bench.provider(), policy=policy, faults="eio@0.02", seed=3, agent=agent).wait()


def full_ledger(bench: Bench) -> Run:
    """A loop under a ceiling of ledger events."""
    agent = {"MODE": "runaway", "CALLS": "500", "MODEL": MODEL}
    return bench.lab.run(bench.provider(), policy="[resilience]\nmax_events = 16\n", agent=agent).wait()


def crash(bench: Bench) -> Run:
    """An agent that dies of a signal of its own."""
    return bench.lab.run(bench.provider(), argv=["sh", "-c", "kill -SEGV $$"]).wait()


def clock_step(bench: Bench) -> Run:
    """The wall clock steps an hour back while the agent runs."""
    return bench.lab.run(bench.provider(), faults="clock_step=-3600s", argv=["sleep", "2.2"]).wait()


def killed(bench: Bench) -> Run:
    """docket is killed while its agent and a grandchild in a session of its own run."""
    script = "setsid sleep 600 & echo $! > grandchild; echo $$ > child; sleep 600"
    run = bench.lab.run(bench.provider(), argv=["sh", "-c", script])
    pids = [run.directory / "child", run.directory / "grandchild"]
    run.until(lambda: all(path.exists() and path.read_text().strip() for path in pids), "the agent's start")
    os.kill(run.process.pid, signal.SIGKILL)
    return run.wait()


def _loop(bench: Bench, cap: str) -> Run:
    agent = {"MODE": "runaway", "MODEL": MODEL}
    return bench.lab.run(bench.provider(PAID), policy=f"[caps]\n{cap}\n", agent=agent).wait()
