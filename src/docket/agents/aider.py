"""aider: reads ``OPENAI_API_BASE`` and ``ANTHROPIC_BASE_URL``, which docket sets for everybody.

It streams without asking for usage, so its preset has docket ask.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from docket.agents.adapter import Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy

BASE_OPTIONS = ("--openai-api-base",)


def adapt(launch: Launch) -> Adaptation:
    """Nothing but a warning: an address on its command line wins over the environment."""
    named = [word for word in launch.argv if word.partition("=")[0] in BASE_OPTIONS]
    problems = tuple(f"{word.partition('=')[0]} sends calls past docket; leave it out" for word in named)
    return Adaptation(argv=launch.argv, problems=problems)


def _preset() -> Policy:
    policy = preset("aider", usd=Decimal(5), calls=500, models=("gpt-*", "claude-*", "gemini-*", "o3*", "o4*"))
    return replace(policy, usage=replace(policy.usage, request_stream_usage=True))


AGENT = Agent(name="aider", commands=("aider",), packages=("aider-chat",), adapt=adapt, preset=_preset)
