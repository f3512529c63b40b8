"""A boundary from its desk: which part works with which, said in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from docket.boundary.agent_api import AgentApi
from docket.boundary.call.background import BackgroundAnswers
from docket.boundary.call.caching import AnswerCache, CachingExchange, Numbers
from docket.boundary.call.desk import Desk
from docket.boundary.call.enduring import EnduringExchange
from docket.boundary.call.exchange import Exchange, Handler
from docket.boundary.call.forward import Forwarder
from docket.boundary.call.ports import Recorder, Upstream
from docket.boundary.call.websocket import WebSockets
from docket.boundary.health import Health
from docket.boundary.http1.egress_proxy import ProxyRule
from docket.boundary.http1.upstream import Upstreams
from docket.boundary.server import Boundary
from docket.boundary.settings import Settings
from docket.control.asserted import AssertedKeys
from docket.policy.endurance import Endurance
from docket.primitives.canonical import JsonObject

NO_ENDURANCE = Endurance()
Around = Callable[[Upstream, Recorder], Upstream]
"""Puts something between a run and its upstreams, as a drill does."""


def build(
    desk: Desk,
    settings: Settings,
    tasks: asyncio.TaskGroup,
    *,
    on_fatal: Callable[[Exception], None],
    on_crowd: Callable[[str], None] = lambda _: None,
    health: Health | None = None,
    budget: Callable[[], JsonObject] | None = None,
    asserted: AssertedKeys | None = None,
    endurance: Endurance = NO_ENDURANCE,
    around: Around | None = None,
    cache: tuple[AnswerCache, Numbers] | None = None,
) -> Boundary:
    """Return the boundary of a run, not yet listening; ``tasks`` owns what it starts.

    ``budget`` answers the agent that asks what is left; ``asserted`` are the keyed events of earlier sessions. Under a
    drill (``around``) every call goes by HTTP, where its faults are put in, and no answer is given again.
    """
    held = settings.held
    fill = None if held is None else held.fill
    upstreams = Upstreams(tasks, ProxyRule(settings.environment), settings.limits, settings.tls, fill)
    upstream: Upstream = upstreams if around is None else around(upstreams, desk.recorder)
    background = BackgroundAnswers()
    exchange = Exchange(desk, upstream, background)
    calls: Handler = exchange
    if endurance.on:
        calls = EnduringExchange(desk, exchange, endurance)
    if cache is not None and around is None:
        calls = CachingExchange(desk, calls, *cache)
    return Boundary(
        tasks,
        settings.routes,
        forwarder=Forwarder(desk, settings, calls, upstream, background),
        sockets=WebSockets(desk, upstreams, settings.limits.silence, capped=settings.capped)
        if around is None
        else None,
        agent_api=AgentApi(desk.recorder, desk.denials, desk.clock, budget=budget, asserted=asserted),
        denials=desk.denials,
        upstreams=upstreams,
        background=background,
        clock=desk.clock,
        on_fatal=on_fatal,
        on_crowd=on_crowd,
        health=health,
        held=held,
        most_connections=settings.most_connections,
    )
