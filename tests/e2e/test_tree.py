"""The whole tree is gone before the receipt, and after docket's own death, through the installed ``docket run``."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from docket.clock import SystemClock
from kit.freezer import Freezer
from kit.installed import AGENTS, Installed, Provider, environment
from kit.processes import gone, until
from kit.supervised import latest, supervised

SEED = 20261130
MARK = "DOCKET_TEST_MARK"
CALL = (
    "call() { curl -s -o answer -w '%{http_code} ' -H 'content-type: application/json' "
    '-d \'{"model":"gpt-4o","messages":[]}\' "$OPENAI_BASE_URL/chat/completions"; }; '
)


def marked(mark: str) -> list[int]:
    """Every process whose environment holds the mark of one run: docket, guardian, agent, and all they started."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
    return found


def test_stragglers_are_named_in_ledger_and_receipt_without_their_secrets(installed: Installed) -> None:
    script = (
        "setsid sleep 300 & setsid sh -c 'trap \"\" TERM; : >up; while :; do sleep 0.02; done' sh $API_KEY & "
        "until [ -e up ]; do :; done; exit 0"
    )
    env = {"API_KEY": "sk-SENTINEL9f3aSENTINEL9f3a"}
    with supervised(installed, (), script, toml="[caps]\ngrace_seconds = 0.3\n", env=env) as run:
        assert run.finish()[0] == 0
    orphans = installed.events("proc.orphan")
    ends = {event["private"]["command"]["value"].split()[0]: event["data"]["ended"] for event in orphans}
    assert ends["sleep"] in ("terminated", "killed")
    assert "killed" in [event["data"]["ended"] for event in orphans]
    session = installed.receipt()["session"]
    assert (session["orphans"], session["survivors"]) == (len(orphans), [])
    assert "SENTINEL9f3a" not in (installed.latest / "ledger.jsonl").read_text()
    assert installed.verdict()["verdict"] == "verified"


def test_calls_of_a_run_that_has_ended_are_refused(installed: Installed, provider: Callable[..., Provider]) -> None:
    """A straggler that ignores SIGTERM goes on calling during its grace period: nothing of it is forwarded."""
    upstream = provider()
    straggler = f"{CALL} trap '' TERM; while :; do call >>codes; cat answer >>answers; done"
    script = f"setsid sh -c {quoted(straggler)} & until grep -q 200 codes 2>/dev/null; do sleep 0.02; done; exit 0"
    with supervised(installed, upstream.flags, script, toml="[caps]\ngrace_seconds = 1\n") as run:
        assert run.finish()[0] == 0
    denied = installed.events("model.denied")
    assert {event["data"]["code"] for event in denied} == {"run_ended"}
    last = installed.events("proc.exit")[-1]["seq"]
    after = [event["type"] for event in installed.events("model.request") if event["seq"] > last + 5]
    assert after == []
    assert len(installed.events("model.request")) == len(upstream.report()["requests"])
    assert "run_ended" in (installed.directory / "answers").read_text()
    assert installed.verdict()["verdict"] == "verified"


def quoted(text: str) -> str:
    """For a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.long
@pytest.mark.skipif(not Freezer.available(), reason="no version 1 freezer group can be made here")
def test_a_survivor_is_named_and_the_verdict_is_incomplete(installed: Installed) -> None:
    """Uninterruptible, as far as SIGKILL can tell: the run ends after 10 s, with its boundary closed."""
    freezer = Freezer(f"docket-e2e-{os.getpid()}")
    try:
        script = "setsid sleep 300 >/dev/null 2>&1 & echo $!; while :; do sleep 0.02; done"
        with supervised(installed, (), script, toml="[caps]\ngrace_seconds = 0.1\n") as run:
            stuck = int(run.line())
            assert until(lambda: Path(f"/proc/{stuck}/cmdline").read_bytes().startswith(b"sleep"))
            freezer.freeze(stuck)
            os.kill(run.docket, signal.SIGTERM)
            status, err = run.finish()
            assert status == 143
            assert str(stuck) in err
            assert installed.receipt()["session"]["survivors"] == [stuck]
            assert [event["data"]["ended"] for event in installed.events("proc.orphan")] == ["survived"]
            verdict = installed.verdict()
            assert (verdict["verdict"], verdict["exit"]) == ("incomplete", 3)
            freezer.thaw()
            assert gone(stuck, 5)
    finally:
        freezer.thaw()
        assert until(lambda: not (freezer.path / "cgroup.procs").read_text())
        freezer.remove()


class Kills:
    """SIGKILL for docket at one moment after another, each in a directory of its own."""

    def __init__(self, installed: Installed, upstream: Provider) -> None:
        self._installed = installed
        self._upstream = upstream
        self._seen = 0
        self._clock = SystemClock()
        self.gone_ms: list[float] = []
        self.ledgers = 0
        self.calls = 0

    def kill(self, number: int, moment: float, *, once_ready: bool) -> None:
        """Start a run, kill docket ``moment`` seconds after its start (or its agent's), and look at what is left."""
        mark = uuid.uuid4().hex
        here = Installed(self._installed.python, self._installed.docket, self._installed.directory / str(number))
        (here.directory / "answers").mkdir(parents=True)
        argv = [sys.executable, "-S", "-E", str(AGENTS / "ten.py"), "answers"]
        process = subprocess.Popen(
            [str(here.docket), "run", "--quiet", *self._upstream.flags, "--", *argv],
            cwd=here.directory,
            env=environment({MARK: mark}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        if once_ready:
            process.stdout.readline()
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
        killed = self._clock.monotonic_us()
        process.wait()
        process.stdout.close()
        assert until(lambda: not marked(mark), 2), f"moment {number} ({moment}): {marked(mark)} live on"
        self.gone_ms.append((self._clock.monotonic_us() - killed) / 1000)
        self._check(here)

    def _check(self, here: Installed) -> None:
        answers = sum(path.stat().st_size for path in (here.directory / "answers").iterdir())
        asked = len(self._upstream.report()["requests"]) - self._seen
        self._seen += asked
        runs = here.directory / ".docket/runs"
        if not runs.exists() or not list(runs.iterdir()):
            assert (answers, asked) == (0, 0)
            return
        ledger = latest(here) / "ledger.jsonl"
        if not ledger.exists() or b"\n" not in ledger.read_bytes():
            assert (answers, asked) == (0, 0)
            return
        with ledger.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where somebody still holds it
        data = ledger.read_bytes()
        whole = data[: data.rindex(b"\n")].split(
            b"\n"
        )  # what was being written at that moment was acknowledged to nobody
        kinds = [line.split(b'"type":"', 1)[1].split(b'"', 1)[0] for line in whole]
        assert kinds.count(b"model.request") >= asked, "something was sent that is not in the ledger"
        assert kinds.count(b"model.response") >= answers, "an answer was given whose end is not in the ledger"
        done = here.run("verify", "--json", str(latest(here)))
        assert '"verdict":"unfinished"' in done.out.replace(" ", ""), done.out + done.err
        self.ledgers += 1
        self.calls += answers


def moments(count: int, seed: str) -> list[tuple[float, bool]]:
    """Half of them while docket starts, half while the agent calls."""
    source = random.Random(seed)
    return [(source.uniform(0, 0.8 if number % 2 == 0 else 1.6), number % 2 == 0) for number in range(count)]


def test_docket_killed_at_any_moment_leaves_no_process_no_lock_and_a_prefix_that_verifies(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    """A seeded sample."""
    kills = Kills(installed, provider())
    for number, (moment, once_ready) in enumerate(moments(4, f"{SEED}")):
        kills.kill(number, moment, once_ready=once_ready)
    assert kills.ledgers >= 2
    assert kills.calls > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_docket_killed_at_two_hundred_moments(installed: Installed, provider: Callable[..., Provider]) -> None:
    kills = Kills(installed, provider())
    for number, (moment, once_ready) in enumerate(moments(200, f"{SEED}-long")):
        kills.kill(number, moment, once_ready=once_ready)
    ordered = sorted(kills.gone_ms)
    print(
        f"{len(ordered)} moments, {kills.ledgers} with a ledger, {kills.calls} answers acknowledged; "
        f"gone after {ordered[100]:.0f} ms (median), {ordered[189]:.0f} ms (95 %), {ordered[-1]:.0f} ms (longest)"
    )
    assert kills.ledgers >= 100
    assert kills.calls > 1000


def test_an_agent_that_keeps_calling_is_gone_with_docket(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    """``kill -9``: the child is gone within 2 s, and the record ends in a state that is not called tampered."""
    script = f"exec {sys.executable} {Path(__file__).parents[1]}/fixtures/proc/keep_calling.py"
    with supervised(installed, provider().flags, script) as run:
        assert run.line() == f"pid {run.agent}"
        assert until(lambda: bool(installed.events("model.response")))
        os.kill(run.docket, signal.SIGKILL)
        assert gone(run.agent, 2)
        assert gone(run.guardian, 2)
    done = installed.run("verify", "--json", str(latest(installed)))
    assert done.status == 3
    assert '"unfinished"' in done.out
