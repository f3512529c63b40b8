"""Gemini CLI: reads ``GOOGLE_GEMINI_BASE_URL``, but only once its settings say that it logs in by key."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from docket.agents.adapter import Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy

HOME = "GEMINI_CLI_HOME"
FOLDER = ".gemini"
SETTINGS = f"{FOLDER}/settings.json"
BY_KEY = "gemini-api-key"
KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
VERTEX = "GOOGLE_GENAI_USE_VERTEXAI"


def adapt(launch: Launch) -> Adaptation:
    """A private home with the user's own settings, where they do not select the login by key already.

    Whatever else stands beside the settings (trusted folders, commands, memory) is linked into it.
    """
    settings = _settings(launch)
    security = settings.get("security")
    auth = security.get("auth") if isinstance(security, dict) else None
    selected = auth.get("selectedType") if isinstance(auth, dict) else None
    problems: list[str] = []
    if launch.environ.get(VERTEX, "").lower() in ("1", "true"):
        problems.append(f"{VERTEX} makes Gemini CLI call Vertex AI, which docket cannot see; unset it, set {KEYS[0]}")
    elif not any(launch.environ.get(key) for key in KEYS):
        problems.append(f"Gemini CLI with a Google login calls a server that docket cannot see; set {KEYS[0]}")
    if selected == BY_KEY or problems:
        return Adaptation(argv=launch.argv, problems=tuple(problems))
    merged = {**settings, "security": {**(security if isinstance(security, dict) else {}), "auth": _auth(auth)}}
    return Adaptation(
        argv=launch.argv,
        files={SETTINGS: orjson.dumps(merged, option=orjson.OPT_INDENT_2).decode()},
        linked=(_home(launch) / FOLDER, FOLDER),
        home_variable=HOME,
        did=(f"a private settings home ({HOME}) selects the login by API key",),
    )


def _auth(auth: object) -> dict[str, Any]:
    return {**(auth if isinstance(auth, dict) else {}), "selectedType": BY_KEY}


def _home(launch: Launch) -> Path:
    return Path(launch.environ.get(HOME) or launch.home)


def _settings(launch: Launch) -> dict[str, Any]:
    text = launch.read(_home(launch) / SETTINGS)
    try:
        settings = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return {}
    return settings if isinstance(settings, dict) else {}


def _preset() -> Policy:
    return preset("gemini-cli", usd=Decimal(5), calls=500, models=("gemini-*",))


AGENT = Agent(name="gemini-cli", commands=("gemini",), packages=("@google/gemini-cli",), adapt=adapt, preset=_preset)
