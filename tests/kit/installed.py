"""docket as a user has it: the wheel in an environment of its own, the scripted provider as a process, real agents."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import site
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from docket.chaos.evidence import Evidence, disagreements

ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "tests/e2e/agents"


@dataclass(frozen=True)
class Done:
    """A finished ``docket`` command."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Installed:
    """The wheel, installed into an environment of its own, and a directory to use it in."""

    python: Path
    docket: Path
    directory: Path

    def run(self, *arguments: str, env: dict[str, str] | None = None, timeout: float = 60) -> Done:
        """Run ``docket ARGUMENTS`` in the directory, without a terminal.

        Every run leaves its last metrics, and they are held against its ledger.
        """
        metrics = self.directory / "docket.prom"
        metrics.unlink(missing_ok=True)
        if arguments[:1] == ("run",):
            arguments = ("run", "--metrics-file", str(metrics), *arguments[1:])
        done = subprocess.run(
            [str(self.docket), *arguments],
            cwd=self.directory,
            env=environment(env or {}),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        if metrics.exists():
            assert disagreements(Evidence(self.latest, metrics)) == []
        return Done(done.returncode, done.stdout, done.stderr)

    @property
    def latest(self) -> Path:
        return self.directory / ".docket" / "latest"

    def receipt(self) -> dict[str, Any]:
        """The receipt of the latest run."""
        return json.loads((self.latest / "receipt.json").read_text())

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The events of the latest run, of one type or all."""
        lines = (self.latest / "ledger.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["type"])]

    def verdict(self) -> dict[str, Any]:
        """What ``docket verify --json`` says of the latest run, and its exit status."""
        done = self.run("verify", "--json", str(self.latest))
        return json.loads(done.out) | {"exit": done.status}


def environment(extra: dict[str, str]) -> dict[str, str]:
    """What a clean shell would have, and ``extra``."""
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "XDG_STATE_HOME") if name in os.environ
    }
    return kept | extra


def _environment(target: Path) -> tuple[Path, Path]:
    """A new environment ``target`` with our dependencies but without docket: its Python, its site-packages."""
    venv.create(target, with_pip=False, symlinks=True)
    packages = next((target / "lib").glob("python3*")) / "site-packages"
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return target / "bin" / "python", packages


def environment_with_a_copy(target: Path) -> tuple[Path, Path]:
    """A new environment with a copy of docket's source that may be changed: its Python, the copy."""
    python, packages = _environment(target)
    shutil.copytree(ROOT / "src/docket", packages / "docket", ignore=shutil.ignore_patterns("__pycache__"))
    return python, packages / "docket"


def install_wheel(shared: Path, target: Path) -> None:
    """Build the wheel under ``shared`` and install it into the new environment ``target``; dependencies are ours."""
    source = shared / "source"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    wheels = shared / "wheels"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(wheels), str(source)], check=True)
    python, _ = _environment(target)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], check=True)
    (target / "ready").touch()


def installed_once(base: Path) -> Path:
    """An environment with the built wheel, made once for all tests and workers of the session of ``base``."""
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    target = shared / "installed"
    with (shared / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "ready").exists():
            install_wheel(shared, target)
    return target


@dataclass(frozen=True)
class Provider:
    """The scripted provider as a process of its own."""

    url: str

    def report(self) -> dict[str, Any]:
        """What it saw and what it stated."""
        with urlopen(f"{self.url}/sim/requests") as answer:
            return json.load(answer)

    @property
    def flags(self) -> list[str]:
        """Flags of ``docket run`` that point OpenAI and Anthropic at it."""
        return ["--upstream", f"openai={self.url}/v1", "--upstream", f"anthropic={self.url}"]


@contextmanager
def started_provider(python: Path, *flags: str) -> Iterator[Provider]:
    """A scripted provider, run by ``python``, that ends with the context."""
    argv = [str(python), "-m", "docket.sim.upstream", *flags]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield Provider(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.communicate()


def agent(name: str, *arguments: str) -> list[str]:
    """The command line of a real agent among ``agents/``, run by the tests' own Python, which has the SDKs."""
    return [sys.executable, str(AGENTS / name), *arguments]
