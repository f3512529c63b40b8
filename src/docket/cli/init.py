"""``docket init``: write a policy file that teaches every key."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import output
from docket.errors import UsageError
from docket.policy.model import Policy
from docket.policy.render import render

KNOWN = ("claude-code", "codex", "gemini-cli", "opencode", "aider", "python", "generic")
"""Agents that have a policy of their own; ``docket.agents`` holds them."""
COMMANDS = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode": "opencode",
    "aider": "aider",
    "generic": "COMMAND",
}


@click.command("init")
@click.argument("file", type=click.Path(path_type=Path), default=Path("docket.toml"))
@click.option("--for", "agent", metavar="AGENT", help=f"A policy that suits one agent: {', '.join(KNOWN)}.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def command(file: Path, agent: str | None, force: bool) -> None:
    """Write a commented policy to FILE (docket.toml by default).

    Every key is there: those commented out show their default. `docket run` reads ./docket.toml by itself.
    """
    text = render(_policy(agent))
    try:
        if force:
            file.unlink(missing_ok=True)  # a link is replaced, not written through
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file} exists already", hint="--force replaces it") from error
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
    output.remark(f"wrote {file}; edit it, then: docket run -- {COMMANDS.get(agent or 'python', 'python agent.py')}")
    output.remark("every key is explained in docs/policy.md, caps in docs/caps.md, agents in docs/agents.md")


def _policy(agent: str | None) -> Policy:
    from docket.agents.registry import named

    if agent is None:
        return Policy()
    found = named(agent)
    if found is None:
        raise UsageError(f"--for: {agent!r} is not known", hint=f"known are {', '.join(KNOWN)}")
    return found.preset()
