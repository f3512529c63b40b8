"""The known agents, and the way from a command line to one of them."""

from __future__ import annotations

import re

from docket.agents import aider, claude_code, codex, gemini_cli, generic, opencode, python
from docket.agents.adapter import Agent

AGENTS: tuple[Agent, ...] = (
    claude_code.AGENT,
    codex.AGENT,
    gemini_cli.AGENT,
    opencode.AGENT,
    aider.AGENT,
    python.AGENT,
    generic.AGENT,
)
"""In the order in which names are compared; the last one takes whatever is left."""
RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx"})
"""Commands whose first word that is no option names a package to start."""
_VERSIONED = re.compile(r"[0-9.]+$")


def named(name: str) -> Agent | None:
    """The agent that ``--agent`` or ``--for`` names."""
    return next((agent for agent in AGENTS if agent.name == name), None)


def recognise(argv: tuple[str, ...]) -> tuple[Agent, int]:
    """The agent that a command line starts, by its command's name, and the index of the word that names it."""
    command = argv[0].rpartition("/")[2].removesuffix(".exe")
    if command in RUNNERS:
        for at, word in enumerate(argv[1:], start=1):
            if word in ("run", "dlx") or word.startswith("-"):
                continue
            package = word[:1] + word[1:].partition("@")[0]
            return next((a for a in AGENTS if package in (*a.packages, *a.commands)), generic.AGENT), at
    plain = _VERSIONED.sub("", command)
    return next((a for a in AGENTS if command in a.commands or plain in a.commands), generic.AGENT), 0
