"""Points the agent at the boundary: recognises it, applies what its adapter says, tidies up after it.

Owns the private settings home, a directory of its own outside the run directory (a user's settings may hold
credentials, and a run directory is handed over as it is). Invariant: it is gone when the run is over.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docket.agents.adapter import PRIVATE_HOME, Adaptation, Launch
from docket.agents.registry import AGENTS, named, recognise
from docket.errors import UsageError
from docket.storage.regular import read_regular
from docket.supervisor.environment import Route

MAX_SETTINGS = 1024 * 1024
"""Bytes of a settings file that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """An agent ready to be started."""

    agent: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    did: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    home: Path | None = None

    @property
    def said(self) -> str | None:
        """The first line for people: what was recognised and adapted; None for a command that nothing is known of."""
        if not self.did:
            return None if self.agent in ("generic", "python") else f"agent {self.agent}"
        return f"agent {self.agent}: {'; '.join(self.did)}"

    def tidy(self) -> None:
        """Remove the private settings home."""
        if self.home is not None:
            shutil.rmtree(self.home, ignore_errors=True)


def check_agent(name: str | None) -> None:
    """Raise UsageError where ``--agent`` names nobody."""
    if name is not None and named(name) is None:
        known = ", ".join(agent.name for agent in AGENTS)
        raise UsageError(f"--agent: {name!r} is not known", hint=f"known are {known}")


def adapt(
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    routes: tuple[Route, ...],
    *,
    cwd: Path,
    agent: str | None = None,
    enabled: bool = True,
) -> Adapted:
    """How to start ``argv``; with ``enabled`` false as it is."""
    if not enabled:
        return Adapted(agent="generic", argv=argv, environment=environment)
    found, at = recognise(argv)
    if agent is not None:
        chosen = named(agent)
        assert chosen is not None, "checked before the run"
        found = chosen
    base_urls: dict[str, str] = {}
    for route in routes:
        base_urls.setdefault(route.protocol, route.base_url)
    launch = Launch(
        argv=argv,
        at=at,
        environ=environment,
        base_urls=base_urls,
        home=Path(environment.get("HOME") or "/"),
        read=lambda path: _read(cwd / path),
    )
    adaptation = found.adapt(launch)
    home = _private_home(adaptation)
    variables = {adaptation.home_variable: str(home)} if adaptation.home_variable and home else {}
    return Adapted(
        agent=found.name,
        argv=tuple(word.replace(PRIVATE_HOME, str(home)) for word in adaptation.argv) if home else adaptation.argv,
        environment={**environment, **adaptation.environment, **variables},
        did=adaptation.did,
        problems=adaptation.problems,
        home=home,
    )


def _private_home(adaptation: Adaptation) -> Path | None:
    if not adaptation.files:
        return None
    home = Path(tempfile.mkdtemp(prefix="docket-home-"))
    for name, text in adaptation.files.items():
        path = home / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    if adaptation.linked is not None:
        _link(*adaptation.linked, home)
    return home


def _link(source: Path, name: str, home: Path) -> None:
    """Let the entries of ``source`` appear in ``home``, but for those that have a file of their own there."""
    try:
        entries = list(source.iterdir())
    except OSError:
        return
    for entry in entries:
        link = home / name / entry.name
        if not link.exists():
            link.symlink_to(entry.absolute())


def _read(path: Path) -> str | None:
    try:
        return read_regular(path, MAX_SETTINGS).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
