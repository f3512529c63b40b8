"""The breaker between a real agent's sockets and a real upstream's, and the limiter; only time is ours."""

from __future__ import annotations

import asyncio
import json

from docket.boundary.call.admission import QueuedAdmission
from docket.control.admission import Gate
from docket.ledger.events import BreakerClosed, BreakerHalfOpen, BreakerOpen, ModelDenied, RateLimited
from docket.policy.parse import parse
from docket.sim.clock import ManualClock
from docket.storage.price_file import read_prices
from kit.boundary import Stage, raw_upstream, read_request, run, stage

S = 1_000_000
CHAT = json.dumps({"model": "m", "messages": []}).encode()  # noqa: TID251 (a client's own)
BREAKER = "[resilience]\nbreaker_threshold = 3\nbreaker_cooldown_seconds = 2\n"


class Upstream:
    """Answers 500 while ``down``; while ``slow`` it holds each request until ``go``; else answers ``status``."""

    def __init__(self) -> None:
        self.down, self.slow, self.status = True, False, 200
        self.go = asyncio.Event()
        self.arrived = asyncio.Event()
        self.gone = asyncio.Event()
        self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        self.requests += 1
        self.arrived.set()
        if self.slow:
            waiting = asyncio.ensure_future(self.go.wait())
            leaving = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                self.gone.set()
            waiting.cancel()
            leaving.cancel()
        status = 500 if self.down else self.status
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" % status)
        await writer.drain()


def admission(policy: str, clock: ManualClock) -> QueuedAdmission:
    return QueuedAdmission(Gate(parse(policy), read_prices(None, "2026-11-30")), clock)


async def call(on: Stage) -> int:
    return (await on.call("/v1/chat/completions", CHAT)).status


def test_one_of_twenty_is_the_probe_and_a_cut_probe_frees_its_slot() -> None:
    async def play() -> None:
        clock, upstream = ManualClock(), Upstream()
        async with raw_upstream(upstream.serve) as url, stage(url + "/v1", admission=admission(BREAKER, clock)) as on:
            assert [await call(on) for _ in range(4)] == [500, 500, 500, 429]
            assert upstream.requests == 3
            clock.advance(2 * S)
            upstream.down, upstream.slow = False, True
            upstream.arrived.clear()
            _, probe = await on.connect()
            head = b"POST %s/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            probe.write(head % (on.prefix, len(CHAT)) + CHAT)
            await upstream.arrived.wait()
            assert await asyncio.gather(*(call(on) for _ in range(19))) == [429] * 19
            assert upstream.requests == 4, "1 of 20 reached the upstream"
            probe.close()
            await upstream.gone.wait()
            await on.record.until(lambda record: len(record.ends()) == 4)
            assert on.record.ends()[-1].reason == "client-gone"
            upstream.slow, upstream.status = False, 404
            assert await call(on) == 404, "the next call is the probe"
            assert await call(on) == 404, "a 4xx is an answer: the breaker is closed"
            events = [type(e) for e in on.record.events if isinstance(e, BreakerOpen | BreakerHalfOpen | BreakerClosed)]
            assert events == [BreakerOpen, BreakerHalfOpen, BreakerClosed]
        assert sum(denied.count for denied in on.record.of(ModelDenied)) == 20

    run(play())


def test_a_failed_probe_doubles_the_rest_and_says_so_honestly() -> None:
    async def play() -> None:
        clock, upstream = ManualClock(), Upstream()
        async with raw_upstream(upstream.serve) as url, stage(url + "/v1", admission=admission(BREAKER, clock)) as on:
            assert [await call(on) for _ in range(3)] == [500] * 3
            clock.advance(2 * S)
            assert await call(on) == 500
            clock.advance(S // 2)
            refused = await on.call("/v1/chat/completions", CHAT)
            assert (refused.status, refused.header("retry-after")) == (429, ["4"])
            clock.advance(4 * S)
            upstream.down = False
            assert await call(on) == 200, "who obeyed is admitted"

    run(play())


def test_keys_of_two_tenants_do_not_share_a_breaker() -> None:
    async def play() -> None:
        clock, upstream = ManualClock(), Upstream()
        async with raw_upstream(upstream.serve) as url, stage(url + "/v1", admission=admission(BREAKER, clock)) as on:
            for key, statuses in (("sk-a", [500, 500, 500, 429]), ("sk-b", [500, 500, 500, 429])):
                headers = [("authorization", f"Bearer {key}")]
                seen = [(await on.call("/v1/chat/completions", CHAT, headers=headers)).status for _ in range(4)]
                assert seen == statuses
            assert not any("sk-" in repr(event) for event in on.record.events)

    run(play())


def test_the_limiter_of_b23_admits_the_client_that_obeys() -> None:
    """One token every 1.5 s, burst 1: two calls 0.1 s apart, then sleep exactly Retry-After and call again."""

    async def play() -> None:
        clock, upstream = ManualClock(), Upstream()
        upstream.down = False
        policy = "[resilience]\nmax_calls_per_second = 0.666667\n"
        async with raw_upstream(upstream.serve) as url, stage(url + "/v1", admission=admission(policy, clock)) as on:
            assert await call(on) == 200
            clock.advance(S // 10)
            refused = await on.call("/v1/chat/completions", CHAT)
            assert (refused.status, refused.header("retry-after")) == (429, ["2"])
            assert json.loads(refused.body)["error"]["docket"]["code"] == "max_calls_per_second"
            clock.advance(2 * S)
            assert await call(on) == 200
            (limited,) = on.record.of(RateLimited)
            assert limited.state == {
                "burst": 1,
                "interval_us": 1_500_000,
                "full_in_us": 1_400_000,
                "wait_us": 1_400_000,
            }

    run(play())
