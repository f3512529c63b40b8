"""Calls that failed for a passing reason, tried again while the agent waits: each attempt a call of its own.

Invariants: nothing is sent again once a byte of an answer has reached the agent; every wait is an event with its reason
before it begins; what the agent gets in the end is one answer, the last one, unchanged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from docket.boundary.answers.refusals import Answer
from docket.boundary.call.desk import Desk
from docket.boundary.call.exchange import Request
from docket.boundary.call.open_call import OpenCall, UntilGone
from docket.boundary.call.ports import Client
from docket.boundary.call.tee import Tee
from docket.boundary.http1.wire import Framing, Header, ResponseHead
from docket.control.decision import Refused
from docket.control.endurance import REFUSED_WORK, Attempts, passing
from docket.errors import ClientGoneError
from docket.ledger.events import RetryScheduled
from docket.policy.endurance import Endurance

MAX_HELD = 256 * 1024
"""Bytes of a refusing answer that wait for whether they are the last one; a longer one is passed on at once."""
MAX_ASKED_DIGITS = 6
"""Of a Retry-After in seconds: eleven days. Dates are not read."""


class Carrying(Protocol):
    """Carries one attempt."""

    async def handle(self, request: Request, client: Client, tee: Tee, *, deny: bool = True) -> OpenCall | Refused: ...

    async def deny(self, request: Request, refused: Refused, client: Client) -> None: ...


class EnduringExchange:
    """Has ``exchange`` carry calls, again where that may help."""

    def __init__(
        self,
        desk: Desk,
        exchange: Carrying,
        policy: Endurance,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._desk = desk
        self._exchange = exchange
        self._policy = policy
        self._sleep = sleep
        self._chance = chance

    async def handle(self, request: Request, client: Client, tee: Tee) -> OpenCall | Refused:
        """Carry one call to its last attempt. Return that, or why it was refused. Raises as ``Exchange``."""
        attempts = Attempts(self._policy)
        first: OpenCall | None = None
        while True:
            held = HeldClient(client)
            carried = await self._exchange.handle(request, held, tee, deny=False)
            wait_us = self._wait(carried, held, attempts)
            if wait_us is None:
                if isinstance(carried, Refused):
                    await self._exchange.deny(request, carried, client)
                else:
                    await held.release()
                return carried
            if first is None and isinstance(carried, OpenCall):
                first = carried
                request = replace(request, of=carried.number)
            await self._pause(request, carried, attempts, wait_us, client)
            tee = tee.anew()

    def _wait(self, carried: OpenCall | Refused, held: HeldClient, attempts: Attempts) -> int | None:
        """How long to wait before the next attempt, in microseconds; None where this was the last one."""
        now = self._desk.clock.monotonic_us()
        if isinstance(carried, Refused):
            waits = carried.code == "breaker_open" and self._policy.outage_seconds is not None
            asked = (carried.retry_after or 0) * 1_000_000
            return attempts.wait_us(now, asked, self._chance()) if waits else None
        if held.passed or not passing(carried.ended):
            return None
        return attempts.wait_us(now, held.asked_us, self._chance())

    async def _pause(
        self, request: Request, carried: OpenCall | Refused, attempts: Attempts, wait_us: int, client: Client
    ) -> None:
        """Record that the call is tried again, and wait. Raises ClientGoneError where the agent leaves meanwhile."""
        desk, call = self._desk, request.call
        event = RetryScheduled(
            call=None if isinstance(carried, Refused) else carried.number,
            upstream=call.upstream,
            attempt=attempts.made + 1,
            reason="breaker_open" if isinstance(carried, Refused) else carried.ended.reason,
            status=None if isinstance(carried, Refused) else carried.ended.status,
            wait_us=wait_us,
        )
        try:
            with UntilGone(client):
                await desk.recorder.submit(event)
                await self._sleep(wait_us / 1_000_000)
        except (ClientGoneError, asyncio.CancelledError):
            desk.denials.left(call.upstream, call.model)
            raise


class HeldClient:
    """The agent, who is not told of an answer before it is known to be the last one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._held: list[Callable[[], Awaitable[None] | None]] | None = None
        self._bytes = 0
        self.started = False
        self.asked_us: int | None = None
        """How long the held answer asks to wait."""

    @property
    def passed(self) -> bool:
        """Whether the agent has got something of this answer."""
        return self._client.started

    def on_gone(self, listener: Callable[[], None] | None) -> None:
        self._client.on_gone(listener)

    async def informational(self, head: ResponseHead) -> None:
        await self._client.informational(head)

    def start(self, head: ResponseHead, framing: Framing) -> None:
        self.started = True
        if head.status not in REFUSED_WORK:
            self._client.start(head, framing)
            return
        asked = head.first(b"retry-after") or b""
        if asked.isdigit() and len(asked) <= MAX_ASKED_DIGITS:
            self.asked_us = int(asked) * 1_000_000
        self._held = [lambda: self._client.start(head, framing)]

    async def flush(self) -> None:
        if self._held is None:
            await self._client.flush()

    async def write(self, data: bytes) -> None:
        if self._held is None:
            await self._client.write(data)
            return
        self._held.append(lambda: self._client.write(data))
        self._bytes += len(data)
        if self._bytes > MAX_HELD:
            await self.release()

    async def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> None:
        if self._held is None:
            await self._client.end(last, trailers)
        else:
            self._held.append(lambda: self._client.end(last, trailers))

    async def refuse(self, answer: Answer) -> None:
        """Hold an answer in place of the upstream's."""
        self.started = True
        self._held = [lambda: self._client.refuse(answer)]

    def cut(self) -> None:
        if self._held is None:
            self._client.cut()
        else:
            self._held.append(self._client.cut)

    async def release(self) -> None:
        """Pass on what was held. Raises ClientGoneError."""
        held, self._held = self._held or [], None
        for step in held:
            done = step()
            if done is not None:
                await done
