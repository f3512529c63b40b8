"""A run's place among shared budgets, found out before the run leaves a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from docket.errors import UsageError
from docket.fleet.model import DIMENSIONS, State
from docket.fleet.places import open_store, store_url
from docket.fleet.store import Store
from docket.policy.model import Policy
from docket.primitives.instant import timestamp
from docket.primitives.money import Usd


def share(policy: Policy, given: str | None, environ: Mapping[str, str]) -> tuple[Policy, Store]:
    """``policy`` with what its budgets limit, and their store, which the caller closes.

    Where dollars or tokens are limited, calls hold the most that they can cost: a lease is never passed. Raises
    UsageError where a budget is used up or cannot be kept, StoreError, StoreAwayError.
    """
    fleet = policy.fleet
    store = open_store(store_url(given, environ, fleet.store))
    try:
        states = store.charged(fleet.budgets)
        for state in states:
            _check_left(state)
        limits = frozenset(
            name for at, name in enumerate(DIMENSIONS) if any(state.budget.limits[at] is not None for state in states)
        )
        if "usd" in limits and policy.budget.mode == "quota":
            raise UsageError(
                "a shared budget in dollars cannot be kept under budget mode quota, which prices no call",
                hint="leave quota out, or share a budget of tokens or calls",
            )
        if fleet.allowance is not None and "usd" not in limits:
            raise UsageError(
                "[fleet] on_store_failure allows dollars, and none of the shared budgets limits dollars",
                hint='"refuse" is the other choice',
            )
    except BaseException:
        store.close()
        raise
    caps = replace(policy.caps, hold="worst") if limits & {"usd", "tokens"} else policy.caps
    return replace(policy, fleet=replace(fleet, limits=limits), caps=caps), store


def _check_left(state: State) -> None:
    budget = state.budget
    for at, limit in enumerate(budget.limits):
        if limit is None or state.used[at] - state.held[at] < limit:
            continue
        shown = (str(Usd(limit)), "US dollars") if at == 0 else (str(limit), DIMENSIONS[at])
        until = f"until {timestamp(state.ends)[:16]}Z" if state.ends is not None else "for good"
        raise UsageError(
            f"the shared budget {budget.name} is used up {until}: all of its {shown[0]} {shown[1]} are spent",
            hint=f"docket budget show {budget.name} says by whom; docket budget set raises it",
        )
