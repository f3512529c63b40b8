"""Everything that can be wrong with an operator's call, found out before a run has left any trace.

Invariant: after ``prepare`` nothing of the call can fail any more but the machine itself; before it nothing was made.
"""

from __future__ import annotations

import resource
import secrets
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from docket.boundary.crowd import most_connections
from docket.boundary.held_keys import HeldKeys
from docket.boundary.http1.upstream import Limits
from docket.boundary.listener import LOOPBACK, bind
from docket.boundary.routes import TOKEN_BYTES, Route
from docket.boundary.settings import Settings
from docket.clock import Clock
from docket.errors import UsageError
from docket.pricing.table import PriceTable
from docket.primitives.instant import timestamp
from docket.primitives.signature import SigningKey
from docket.storage.keys import read_operator_key
from docket.storage.price_file import read_prices
from docket.supervisor.announce import check_summary_file
from docket.supervisor.environment import effective_policy
from docket.supervisor.files import check as check_files
from docket.supervisor.key_sources import Found, check_argv, find, forget
from docket.supervisor.request import RunRequest

if TYPE_CHECKING:
    from docket.fleet.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """A call that is right: its policy is the effective one, its sockets are bound."""

    request: RunRequest
    prices: PriceTable
    operator: SigningKey | None
    routes: tuple[Route, ...]
    listener: socket.socket
    health_listener: socket.socket | None
    found: Found | None = None
    """The keys that are kept from the agent, where that was asked for."""
    held: HeldKeys | None = None
    store: Store | None = None
    """The store of the budgets that the run shares, where it shares any."""

    @property
    def settings(self) -> Settings:
        """What the boundary of the run is told."""
        policy = self.request.policy
        return Settings(
            routes=self.routes,
            capped=policy.caps_usd
            or policy.caps_tokens
            or policy.caps.max_usd is not None
            or policy.caps.max_model_calls is not None
            or "calls" in policy.fleet.limits,
            usd_cap=policy.caps_usd,
            limits=Limits(
                connect=policy.resilience.connect_timeout.seconds, silence=policy.resilience.upstream_timeout.seconds
            ),
            environment=self.request.environ,
            held=self.held,
            record_requests=policy.evidence.record_requests,
            record_responses=policy.evidence.record_responses,
            request_stream_usage=policy.usage.request_stream_usage,
            max_body_bytes=policy.evidence.max_body_bytes,
            most_connections=most_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        )


def prepare(request: RunRequest, clock: Clock) -> Preparation:
    """Check ``request`` and take what it needs. Raises UsageError, PolicyError; nothing is left behind then."""
    check_summary_file(request.summary_file)
    found, held = None, None
    environ = request.environ
    if request.hold_keys:
        found = _keys(request)
        environ = {**environ, **found.keys}  # a key that stands elsewhere makes its upstream known as well
        request = replace(request, environ=found.without(environ))
    policy = effective_policy(request.policy, environ)
    store = None
    if policy.fleet.budgets:
        from docket.supervisor.sharing import share  # a run of its own asks no database

        policy, store = share(policy, request.store, environ)
    if policy.endurance.outage_seconds is not None:  # a breaker rests no longer than a call that is tried again waits
        rest = min(policy.resilience.breaker_max_cooldown_seconds, policy.endurance.max_seconds)
        cooldown = min(policy.resilience.breaker_cooldown_seconds, rest)
        resilience = replace(policy.resilience, breaker_cooldown_seconds=cooldown, breaker_max_cooldown_seconds=rest)
        policy = replace(policy, resilience=resilience)
    operator = read_operator_key(request.operator_key) if request.operator_key is not None else None
    prices = read_prices(request.prices, timestamp(clock.unix_us())[:10])
    routes = tuple(
        Route.of(
            upstream.name,
            upstream.base_url,
            family=upstream.protocol,
            provider=upstream.vendor,
            forward_unmetered=upstream.unmetered == "forward",
            models=upstream.model_of,
        )
        for upstream in policy.upstreams
    )
    check_files(replace(request, policy=policy))
    if found is not None:
        held = HeldKeys(secrets.token_urlsafe(TOKEN_BYTES), routes, found.keys)
    listener = bind(LOOPBACK, request.port, named="--port", hint="choose a free port, or leave --port out to take any")
    try:
        health_listener = _health_listener(policy.health.listen)
    except UsageError:
        listener.close()
        raise
    return Preparation(
        request=replace(request, policy=policy),
        prices=prices,
        operator=operator,
        routes=routes,
        listener=listener,
        health_listener=health_listener,
        found=found,
        held=held,
        store=store,
    )


def _keys(request: RunRequest) -> Found:
    """Take the keys that are kept from the agent, out of docket's own environment too. Raises UsageError."""
    found = find(request.policy.keys, request.environ, request.cwd)
    if not found.keys:
        raise UsageError(
            "--hold-keys: no provider's key was found",
            hint="set it in docket's environment, in .env, or name a source in [keys] (docs/egress.md)",
        )
    check_argv(found, request.argv)
    forget(found)
    return found


def _health_listener(address: str | None) -> socket.socket | None:
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    hint = "choose a free port and an address of this machine, or leave the option out"
    return bind(host.strip("[]"), int(port), named="--health-listen", hint=hint)
