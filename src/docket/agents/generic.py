"""Any other command: it gets the base-URL variables, which most clients read."""

from __future__ import annotations

from decimal import Decimal

from docket.agents.adapter import Adaptation, Agent, Launch
from docket.agents.presets import preset
from docket.policy.model import Policy


def adapt(launch: Launch) -> Adaptation:
    return Adaptation(argv=launch.argv)


def _preset() -> Policy:
    return preset("generic", usd=Decimal(1), calls=200, models=(), on_breach="kill")


AGENT = Agent(name="generic", commands=(), adapt=adapt, preset=_preset)
