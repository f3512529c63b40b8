"""opencode: an address in its configuration wins over the environment, so it gets one inline."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson

from docket.agents.adapter import Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy

CONTENT = "OPENCODE_CONFIG_CONTENT"
"""Holds a configuration as JSON, merged over those of files."""
PROVIDERS = {"anthropic": ("anthropic", "/v1"), "openai": ("openai", ""), "google": ("gemini", "/v1beta")}
"""Its providers: our protocol, and what its SDK wants behind the address that other clients take."""


def adapt(launch: Launch) -> Adaptation:
    """Base URLs of the providers, merged into whatever inline configuration there is."""
    config = _inline(launch)
    providers = config.setdefault("provider", {})
    if not isinstance(providers, dict):
        return Adaptation(argv=launch.argv, problems=(f"{CONTENT} holds a provider that is no object; unset it",))
    for name, (protocol, suffix) in PROVIDERS.items():
        if protocol in launch.base_urls:
            provider = providers.setdefault(name, {})
            options = provider.setdefault("options", {}) if isinstance(provider, dict) else {}
            options["baseURL"] = launch.base_urls[protocol] + suffix
    return Adaptation(
        argv=launch.argv,
        environment={CONTENT: orjson.dumps(config).decode()},
        did=(f"{CONTENT} points its providers anthropic, openai and google at docket",),
    )


def _inline(launch: Launch) -> dict[str, Any]:
    try:
        config = orjson.loads(launch.environ.get(CONTENT) or "{}")
    except orjson.JSONDecodeError:
        return {}
    return config if isinstance(config, dict) else {}


def _preset() -> Policy:
    return preset("opencode", usd=Decimal(5), calls=500, models=("claude-*", "gpt-*", "gemini-*"))


AGENT = Agent(name="opencode", commands=("opencode",), packages=("opencode-ai",), adapt=adapt, preset=_preset)
