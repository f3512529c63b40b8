"""Building a policy for an agent from a few chosen keys."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from docket.policy.kinds import MAX_USD
from docket.policy.model import Caps, Models, OnBreach, Policy
from docket.primitives.money import PICO, Usd


def preset(name: str, *, usd: Decimal, calls: int, models: tuple[str, ...], on_breach: OnBreach = "deny") -> Policy:
    """A policy called ``name`` with a cap in dollars, one in calls, and the models that may be called.

    ``deny`` suits agents that stop on a refusal and say why: the person keeps the session and its work.
    """
    assert 0 < usd <= MAX_USD
    policy = Policy()
    caps = Caps(max_usd=Usd(int(usd * PICO)), max_model_calls=calls, on_breach=on_breach)
    return replace(policy, about=replace(policy.about, name=name), caps=caps, models=Models(allow=models))
