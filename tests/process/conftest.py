"""Commands that start a supervised agent, for a pipe or for a shell in a terminal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from docket.primitives import canonical
from kit.processes import gone
from kit.pseudoterminal import PseudoTerminal
from kit.supervised import PIDS

ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "tests/process/agents.py"
CASES = ROOT / "tests/fixtures/proc"


def agent(*arguments: str) -> list[str]:
    """The command of a scripted agent."""
    return [sys.executable, "-S", "-E", str(AGENTS), *arguments]


@dataclass
class Run:
    """A supervised run whose stdin is no terminal."""

    process: subprocess.Popen[str]
    report_file: Path
    docket: int
    guardian: int
    agent: int
    _said: list[str] = field(default_factory=list)

    @property
    def stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def line(self) -> str:
        """The agent's next line."""
        return self.stdout.readline().rstrip("\n")

    def report(self) -> dict[str, object]:
        """What the supervisor learnt, once it has ended."""
        self.process.wait(60)
        found = canonical.decode(self.report_file.read_bytes())
        assert isinstance(found, dict)
        return found


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start ``run(*argv, grace=...)``; whatever is left at the end of the test is killed."""
    started: list[Run] = []

    def start(*argv: str, grace: float = 5.0, **options: object) -> Run:
        report = tmp_path / f"report-{len(started)}"
        process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "tests.process.driver", str(report), str(grace), *argv],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,  # type: ignore[call-overload]
        )
        assert process.stderr is not None
        words = process.stderr.readline().split()
        assert words[0::2] == ["docket", "guardian", "agent"], words
        started.append(Run(process, report, *map(int, words[1::2])))
        return started[-1]

    yield start
    for item in started:
        item.process.kill()
        item.process.communicate()
        assert gone(item.guardian)


@dataclass
class Shell:
    """An interactive bash doing job control on a real pseudo-terminal."""

    terminal: PseudoTerminal
    report: Path
    whole: bool
    """Whether the supervisor is the whole ``docket run``, not only the process package."""

    def docket(self, *argv: str, grace: float = 5.0) -> str:
        """The command line of a supervised run."""
        command = [sys.executable, "-m", "tests.process.driver", str(self.report), str(grace), *argv]
        if self.whole:
            policy = self.report.with_suffix(".toml")
            policy.write_text(f"[caps]\ngrace_seconds = {grace}\n")
            runs = self.report.with_suffix(".runs")
            flags = ["--quiet", "--policy", str(policy), "--docket-dir", str(runs), "--cwd", str(self.report.parent)]
            says = (
                PIDS.replace('echo "', 'echo "docket ').replace(" $PPID", " guardian $PPID").replace(" $$", " agent $$")
            )
            agent = ["sh", "-c", says + 'exec "$@"', "sh", *argv]
            command = [sys.executable, "-m", "docket", "run", *flags, "--", *agent]
        return " ".join(map(shlex.quote, command))

    def ending(self) -> tuple[object, object]:
        """What ended the run and by which signal the agent ended, once docket has ended."""
        if not self.whole:
            report = canonical.decode(self.report.read_bytes())
            assert isinstance(report, dict)
            return report["ending"] is not None, report["signal"]
        (receipt,) = self.report.with_suffix(".runs").glob("runs/*/receipt.json")
        session = json.loads(receipt.read_text())["session"]
        return session["outcome"] == "interrupted", session["exit"].get("signal")

    def start(self, *argv: str, grace: float = 5.0, suffix: str = "") -> tuple[int, int, int]:
        """Type the command line; returns the pids of docket, guardian and agent."""
        self.terminal.send(self.docket(*argv, grace=grace) + suffix + "\n")
        found = self.terminal.glimpse(r"docket (\d+) guardian (\d+) agent (\d+)")
        return int(found[1]), int(found[2]), int(found[3])

    def prompt(self) -> None:
        """Wait until the shell itself answers a command."""
        self.terminal.send("echo shell-$((20+3))\n")
        self.terminal.expect(r"shell-23\r\n")

    def job(self) -> str:
        """What the shell says of its only job."""
        self.terminal.send("jobs\n")
        return self.terminal.expect(r"\[1\][+ ]+(Running|Stopped)")[1]

    def status(self) -> int:
        """``$?`` of what ended last."""
        self.terminal.expect(r"\$ ")
        self.terminal.send("echo status-$?-\n")
        return int(self.terminal.expect(r"status-(\d+)-\r\n")[1])


@pytest.fixture(params=["process", pytest.param("docket run", marks=pytest.mark.long)])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    """A shell at its prompt, in the repository's directory."""
    env = {**os.environ, "PS1": "$ ", "HISTFILE": "", "TERM": "dumb", "INPUTRC": "/dev/null"}
    terminal = PseudoTerminal(["bash", "--norc", "--noprofile", "-i"], env=env, cwd=str(ROOT))
    terminal.send("bind 'set enable-bracketed-paste off' 2>/dev/null; PS2=''\n")
    yield Shell(terminal, tmp_path / "report", whole=request.param == "docket run")
    terminal.close()
