"""A Python program on the providers' SDKs: they read the base-URL variables, so nothing is adapted."""

from __future__ import annotations

from decimal import Decimal

from docket.agents.adapter import Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy


def adapt(launch: Launch) -> Adaptation:
    return Adaptation(argv=launch.argv)


def _preset() -> Policy:
    """``kill``: a program of one's own has no person at it, and may retry for ever."""
    return preset("python", usd=Decimal(1), calls=200, models=(), on_breach="kill")


AGENT = Agent(name="python", commands=("python", "python3", "uv", "pytest", "ipython"), adapt=adapt, preset=_preset)
