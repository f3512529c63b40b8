"""Claude Code: reads ``ANTHROPIC_BASE_URL``, unless its own settings name another address or another cloud."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import orjson

from docket.agents.adapter import PRIVATE_HOME, Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy

CLOUDS = {"CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock", "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI"}
"""Variables that make it call another cloud, whatever ``ANTHROPIC_BASE_URL`` says."""
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
VARIABLE = "ANTHROPIC_BASE_URL"
SETTINGS = "settings.json"


def adapt(launch: Launch) -> Adaptation:
    """Its own settings win over the environment, so an address in them is overridden by a file for ``--settings``."""
    did: list[str] = []
    argv, files = launch.argv, {}
    if any(VARIABLE in env for env in _settings_environments(launch)):
        files = {SETTINGS: orjson.dumps({"env": {VARIABLE: launch.base_urls["anthropic"]}}).decode()}
        argv = launch.with_options("--settings", f"{PRIVATE_HOME}/{SETTINGS}")
        did.append(f"--settings overrides the {VARIABLE} of its settings file")
    problems = [
        f"{variable} makes Claude Code call {cloud}, which docket cannot see; unset it and give {KEYS[0]}"
        for variable, cloud in CLOUDS.items()
        if launch.environ.get(variable, "") not in ("", "0", "false")
    ]
    if not any(launch.environ.get(key) for key in KEYS):
        did.append("no API key is set: with a subscription login use --budget-mode quota, its dollars are not billed")
    return Adaptation(argv=argv, files=files, did=tuple(did), problems=tuple(problems))


def _settings_environments(launch: Launch) -> Iterator[dict[str, object]]:
    config = Path(launch.environ.get("CLAUDE_CONFIG_DIR") or launch.home / ".claude")
    for path in (config / "settings.json", Path(".claude/settings.json"), Path(".claude/settings.local.json")):
        text = launch.read(path)
        try:
            settings = orjson.loads(text) if text else None
        except orjson.JSONDecodeError:
            continue
        if isinstance(settings, dict) and isinstance(settings.get("env"), dict):
            yield settings["env"]


def _preset() -> Policy:
    return preset("claude-code", usd=Decimal(5), calls=500, models=("claude-*",))


AGENT = Agent(
    name="claude-code", commands=("claude",), packages=("@anthropic-ai/claude-code",), adapt=adapt, preset=_preset
)
