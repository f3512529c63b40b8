"""A place to hold drills in: scripted providers, supervised runs and their evidence, all real processes on loopback.

Owns every process it starts and ends it by its id. Waiting is for a thing that happens, never for a time to pass; each
wait has a deadline far beyond any machine's worst day, so that only a hang fails it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from docket.chaos.audit import COUNT_VARIABLE, agents_count
from docket.chaos.evidence import Evidence
from docket.chaos.volume import on_volume, why_not
from docket.clock import Clock, SystemClock
from docket.errors import ProcessError
from docket.primitives.canonical import Json, JsonObject, encode

DEADLINE_SECONDS = 90.0
"""For anything awaited; a healthy drill takes seconds."""
LOOK_SECONDS = 0.01
"""Between two looks at a file or a process of somebody else."""
AGENT = (sys.executable, "-m", "docket.sim.agent")


class Provider:
    """A scripted provider in a process of its own, which can be killed and come back at the same address."""

    def __init__(self, directory: Path, steps: Sequence[JsonObject]) -> None:
        self._script = directory / "script.json"
        self._script.write_bytes(encode(list[Json](steps)))
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.start()

    def start(self) -> None:
        """Listen, at the address of before if there was one."""
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "docket.sim.upstream", "--port", port, "--script", str(self._script)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise ProcessError("the scripted provider did not start")

    def kill(self) -> None:
        """End it at once: connections break, and the port refuses."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def requests(self) -> int:
        """How many requests came in since it started."""
        with urllib.request.urlopen(f"{self.url}/sim/requests", timeout=DEADLINE_SECONDS) as answer:
            return int(json.load(answer)["count"])


@dataclass(slots=True)
class Run:
    """One ``docket`` process under way, or ended."""

    process: subprocess.Popen[bytes]
    directory: Path
    stderr: Path
    clock: Clock
    status: int | None = None
    evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        self.evidence = Evidence(self.directory, self.directory / "docket.prom")

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait for ``happened``. Raises ProcessError where docket ends or the deadline passes before."""

        def looked() -> bool:
            if happened():
                return True
            if self.process.poll() is not None and not happened():
                raise ProcessError(f"docket ended before {what}: {self.stderr.read_text()[-500:]}")
            return False

        wait_for(looked, what, self.clock)

    def until_event(self, kind: str, count: int = 1) -> None:
        """Wait until ``count`` events of type ``kind`` are in the ledger."""
        wanted = b'"type":"%s"' % kind.encode()
        self.until(lambda: self._ledger().count(wanted) >= count, f"{count} x {kind}")

    def wait(self) -> Self:
        """Wait for the end of docket; then the evidence is whole."""
        try:
            self.status = self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            raise ProcessError(f"docket did not end in {DEADLINE_SECONDS:g} s") from error
        runs = sorted((self.directory / "runs").iterdir()) if (self.directory / "runs").exists() else []
        run = runs[-1] if runs else self.directory
        self.evidence = Evidence(run, self.directory / "docket.prom", (self.directory / "elsewhere",))
        return self

    def count(self) -> JsonObject | None:
        """What the reference agent counted on the wire."""
        return agents_count(self.directory / "count.json")

    def said(self) -> str:
        """What docket and the agent wrote to stderr."""
        return self.stderr.read_text(errors="replace")

    def _ledger(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.directory.glob("runs/*/ledger.jsonl"))


class Lab:
    """One scratch directory and every process of the drills in it."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._number = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def provider(self, *steps: JsonObject) -> Provider:
        """A provider that goes through ``steps`` (members of ``sim.answers.Step``) and stays at the last one."""
        provider = Provider(self.room("provider"), steps or ({"times": 0},))
        self._stack.callback(provider.kill)
        return provider

    def run(
        self,
        provider: Provider,
        *,
        policy: str = "",
        faults: str | None = None,
        seed: int = 1,
        agent: Mapping[str, str] | None = None,
        argv: Sequence[str] = AGENT,
        flags: Sequence[str] = (),
        cwd: Path | None = None,
        volume: int | None = None,
    ) -> Run:
        """Start ``docket run`` (or ``docket chaos`` with ``faults``) over ``argv``; ``agent`` adds DOCKET_AGENT_*.

        The agent works in ``cwd``, by default in the room of the run. With ``volume`` the run is recorded on a real
        volume of so many bytes (``chaos.volume``), and what it left there stands in the room once it has ended.
        """
        room = self.room("run")
        (room / "docket.toml").write_text(policy)
        command = [sys.executable, "-m", "docket", "run" if faults is None else "chaos"]
        if faults is not None:
            command += ["--faults", faults, "--seed", str(seed)]
        command += [
            "--docket-dir",
            str(room if volume is None else room / "volume"),
            "--policy",
            str(room / "docket.toml"),
            "--cwd",
            str(cwd or room),
        ]
        command += ["--upstream", f"openai={provider.url}/v1", "--metrics-file", str(room / "docket.prom")]
        command += ["--fallback-dir", str(room / "elsewhere"), *flags]
        whole = [*command, "--", *argv]
        if volume is not None:
            (room / "volume").mkdir()
            whole = on_volume(whole, size=volume, mount=room / "volume", into=room)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("DOCKET_", "OPENAI_"))}
        environ |= {f"DOCKET_AGENT_{name}": value for name, value in (agent or {}).items()}
        environ |= {COUNT_VARIABLE: str(room / "count.json"), "OPENAI_API_KEY": "sk-drill", "no_proxy": "*"}
        stderr = room / "stderr"
        with stderr.open("wb") as sink:
            process = subprocess.Popen(
                whole, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sink
            )
        self._stack.callback(_end, process)
        return Run(process, room, stderr, self._clock)

    def no_volume(self) -> str | None:
        """Return why runs cannot be given a volume of their own here, if they cannot."""
        return why_not(self.room("volume"))

    def room(self, name: str) -> Path:
        """A new directory of the lab."""
        self._number += 1
        room = self._root / f"{self._number:02d}-{name}"
        room.mkdir(parents=True)
        return room


def wait_for(happened: Callable[[], bool], what: str, clock: Clock) -> None:
    """Look until ``happened``. Raises ProcessError after the deadline."""
    began_us = clock.monotonic_us()
    while not happened():
        if clock.monotonic_us() - began_us > DEADLINE_SECONDS * 1e6:
            raise ProcessError(f"{what} did not happen in {DEADLINE_SECONDS:g} s")
        threading.Event().wait(LOOK_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a docket that a failed drill left running; its guardian ends the rest."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
