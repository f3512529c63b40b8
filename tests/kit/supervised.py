"""``docket run`` under way: the pids of docket, guardian and agent, and what the agent prints."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.installed import Installed, environment
from kit.processes import gone

PIDS = 'read -r _ _ _ docket _ </proc/$PPID/stat; echo "$docket $PPID $$"; '
"""What a shell agent says first: docket, its guardian (the agent's parent), itself."""


@dataclass
class Supervised:
    """A run that goes on."""

    process: subprocess.Popen[str]
    docket: int
    guardian: int
    agent: int

    def line(self) -> str:
        """The agent's next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def wait(self, seconds: float) -> None:
        """Wait for docket's end; raises TimeoutError if it still runs after that long."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def finish(self, patience: float = 60) -> tuple[int, str]:
        """docket's exit status and what it said."""
        _, err = self.process.communicate(timeout=patience)
        return self.process.returncode, err


@contextmanager
def supervised(
    installed: Installed,
    flags: Sequence[str],
    script: str,
    *,
    toml: str = "",
    before: Sequence[str] = (),
    env: dict[str, str] | None = None,
) -> Iterator[Supervised]:
    """Run ``sh -c script`` under docket (itself started by ``before``); nothing is left of it at the end."""
    if toml:
        (installed.directory / "docket.toml").write_text(toml)
    process = subprocess.Popen(
        [*before, str(installed.docket), "run", *flags, "--", "sh", "-c", PIDS + script],
        cwd=installed.directory,
        env=environment(env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    words = process.stdout.readline().split()
    try:
        if len(words) != 3:
            process.kill()
            raise AssertionError(process.communicate()[1])
        run = Supervised(process, *map(int, words))
        yield run
    finally:
        process.kill()
        process.communicate()
    assert gone(run.guardian)


def latest(installed: Installed) -> Path:
    """The newest run directory, also where docket died before it made the link."""
    return max((installed.directory / ".docket/runs").iterdir())
