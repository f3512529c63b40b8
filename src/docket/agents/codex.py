"""Codex CLI: ignores ``OPENAI_BASE_URL`` and takes its address from ``openai_base_url`` of its configuration alone."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path

import orjson

from docket.agents.adapter import Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy

KEY = "CODEX_API_KEY"
"""What its headless mode reads; with ``OPENAI_API_KEY`` alone it sends no credential."""


HOME, CONFIG, ADDRESS = "CODEX_HOME", "config.toml", "openai_base_url"
_OWN_ADDRESS = re.compile(rf"^[ \t]*\"?{ADDRESS}\"?[ \t]*=[^\n]*\n?", re.MULTILINE)


def adapt(launch: Launch) -> Adaptation:
    """A private home whose configuration is the user's with our address; the key under the name that it reads.

    Not ``-c`` on its command line, which every user of the machine can read.
    """
    config = _config(launch.read(_home(launch) / CONFIG) or "", launch.base_urls["openai"])
    if config is None:
        return Adaptation(argv=launch.argv, problems=(f"{CONFIG} of Codex cannot be read; it calls past docket",))
    did = [f"a private settings home ({HOME}) points it at docket"]
    environment: dict[str, str] = {}
    problems: list[str] = []
    if any(word.startswith(ADDRESS) for word in launch.argv):
        problems.append(f"{ADDRESS} on the command line sends calls past docket; leave it out")
    if not launch.environ.get(KEY):
        if launch.environ.get("OPENAI_API_KEY"):
            environment[KEY] = launch.environ["OPENAI_API_KEY"]
            did.append(f"{KEY} gets the value of OPENAI_API_KEY")
        elif _logged_in_with_chatgpt(launch):
            problems.append(
                f"Codex is logged in with ChatGPT and then calls chatgpt.com, which docket cannot see; set {KEY}"
            )
    return Adaptation(
        argv=launch.argv,
        environment=environment,
        files={CONFIG: config},
        linked=(_home(launch), ""),
        home_variable=HOME,
        did=tuple(did),
        problems=tuple(problems),
    )


def _config(text: str, address: str) -> str | None:
    """Return the user's configuration ``text`` with ``address`` in it and all else the same; None if that fails."""
    ours = f"{ADDRESS} = {orjson.dumps(address).decode()}\n"  # TOML and JSON write a plain string alike
    try:
        settings = tomllib.loads(text)
        merged = ours + (_OWN_ADDRESS.sub("", text, count=1) if ADDRESS in settings else text)
        return merged if tomllib.loads(merged) == {**settings, ADDRESS: address} else None
    except tomllib.TOMLDecodeError:
        return None


def _home(launch: Launch) -> Path:
    return Path(launch.environ.get(HOME) or launch.home / ".codex")


def _logged_in_with_chatgpt(launch: Launch) -> bool:
    text = launch.read(_home(launch) / "auth.json")
    try:
        login = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return False
    return isinstance(login, dict) and bool(login.get("tokens")) and not login.get("OPENAI_API_KEY")


def _preset() -> Policy:
    return preset("codex", usd=Decimal(5), calls=500, models=("gpt-*", "codex-*", "o3*", "o4*"))


AGENT = Agent(name="codex", commands=("codex",), packages=("@openai/codex",), adapt=adapt, preset=_preset)
