"""How a known agent is pointed at the boundary: a value in, a value out.

Invariant: adapting reads nothing but what it is given and writes nothing; the supervisor applies the result and says
what was adapted. The address of the boundary holds the run's token: no text for people holds it, and no command line,
which every user of the machine can read (proc(5), /proc/PID/cmdline).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docket.policy.model import Policy

PRIVATE_HOME = "{docket-home}"
"""Stands in a command line for the directory of the private settings home, whose name is not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What is about to be started, and from where."""

    argv: tuple[str, ...]
    at: int
    """Index in ``argv`` of the word that names the agent; options for it go behind."""
    environ: Mapping[str, str]
    """The agent's environment, base-URL variables set already."""
    base_urls: Mapping[str, str]
    """By protocol, where the boundary stands for it."""
    home: Path
    """The user's home directory."""
    read: Callable[[Path], str | None]
    """The text of a settings file, or None where it cannot be read."""

    def with_options(self, *options: str) -> tuple[str, ...]:
        """The command line with ``options`` behind the agent's name."""
        return (*self.argv[: self.at + 1], *options, *self.argv[self.at + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """What changes for one agent. ``did`` and ``problems`` are for people and hold no address and no credential."""

    argv: tuple[str, ...]
    """The command line; PRIVATE_HOME in one of its words is replaced where there are files."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set besides the base URLs."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of a private settings home, by relative path."""
    linked: tuple[Path, str] | None = None
    """A directory of the user's whose other entries appear in the private home too, and where ("" is the home)."""
    home_variable: str | None = None
    """The variable that is to hold that home's directory, where there are files."""
    did: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """What cannot be attached as the agent is set up, each with the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A known agent: the names of its command and packages, how it is adapted, and a policy that suits it."""

    name: str
    commands: tuple[str, ...]
    packages: tuple[str, ...] = ()
    """Names under which a package runner (npx, uvx) starts it."""
    adapt: Callable[[Launch], Adaptation]
    preset: Callable[[], Policy]
    """The policy that ``docket init --for`` writes."""
