"""Codex CLI: ignores ``OPENAI_BASE_URL`` and takes its address from ``-c openai_base_url`` alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import orjson

from docket.agents.adapter import Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy

KEY = "CODEX_API_KEY"
"""What its headless mode reads; with ``OPENAI_API_KEY`` alone it sends no credential."""


def adapt(launch: Launch) -> Adaptation:
    """The address by option; the key under the name that it reads."""
    # TOML and JSON write a plain string alike.
    address = orjson.dumps(launch.base_urls["openai"]).decode()
    did = ["-c openai_base_url points it at docket"]
    environment: dict[str, str] = {}
    problems: list[str] = []
    if not launch.environ.get(KEY):
        if launch.environ.get("OPENAI_API_KEY"):
            environment[KEY] = launch.environ["OPENAI_API_KEY"]
            did.append(f"{KEY} gets the value of OPENAI_API_KEY")
        elif _logged_in_with_chatgpt(launch):
            problems.append(
                f"Codex is logged in with ChatGPT and then calls chatgpt.com, which docket cannot see; set {KEY}"
            )
    return Adaptation(
        argv=launch.with_options("-c", f"openai_base_url={address}"),
        environment=environment,
        did=tuple(did),
        problems=tuple(problems),
    )


def _logged_in_with_chatgpt(launch: Launch) -> bool:
    text = launch.read(Path(launch.environ.get("CODEX_HOME") or launch.home / ".codex") / "auth.json")
    try:
        login = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return False
    return isinstance(login, dict) and bool(login.get("tokens")) and not login.get("OPENAI_API_KEY")


def _preset() -> Policy:
    return preset("codex", usd=Decimal(5), calls=500, models=("gpt-*", "codex-*", "o3*", "o4*"))


AGENT = Agent(name="codex", commands=("codex",), packages=("@openai/codex",), adapt=adapt, preset=_preset)
