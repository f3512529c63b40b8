"""Much mixed traffic in one boundary with a real gate and a real ledger: nothing grows, every call ends once.

100,000 calls stand for a day of an agent's traffic; 5 % are left by the agent, 5 % fail upstream. Whole in
``make long``, a seeded sample in ``make test``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench.subject import Nobody

from docket.boundary.build import build
from docket.boundary.call.admission import QueuedAdmission
from docket.boundary.call.desk import Desk
from docket.boundary.http1.upstream import Limits
from docket.boundary.listener import bind
from docket.boundary.routes import Route
from docket.boundary.server import Boundary
from docket.boundary.settings import Settings
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.control.evidence import Ceilings
from docket.ledger.chain import Entry
from docket.policy.model import Policy
from docket.sim.upstream import ScriptedProvider
from docket.storage.documents import documents_at
from docket.storage.keys import new_run_key
from docket.storage.paths import RunDirectory, docket_number
from docket.storage.price_file import read_prices
from docket.storage.writer import LedgerWriter
from docket.supervisor.recorder import RunRecorder
from docket.verify.verifier import verify
from kit.runs import session_start

SEED = 20261130
WORKERS = 32
WHOLE = 100_000
SAMPLE = 600
SOCKETS_OF_A_WORKER = 4
"""Its own, the boundary's two and the provider's: what may be open at one look and not at the other."""
TASKS_OF_A_WORKER = 2
"""The boundary's and the provider's."""
SETTLED = 0.2
"""Part of the traffic after which pools, caches and buffers have their size."""
MAX_GROWTH_KIB = 12 * 1024
"""Growth of the resident set over the rest of 100,000 calls: an entry kept for each would be over 50 MiB."""
BODIES = (
    b'{"model": "gpt-4o-mini", "messages": []}',
    b'{"model": "gpt-4o-mini", "stream": true, "messages": []}',
    b'{"model": "gpt-4o-mini", "stream": true, "stream_options": {"include_usage": true}, "messages": []}',
)
FAULTS = ("reset", "close", "cut", "error-event", "no-terminator")


@dataclass
class Figures:
    """This process at one moment."""

    descriptors: int
    tasks: int
    threads: int
    rss_kib: int


def figures() -> Figures:
    gc.collect()
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    return Figures(len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), threading.active_count(), rss)


class Traffic:
    """Workers that call, keep their connections, are failed by the upstream and leave."""

    def __init__(self, boundary: Boundary, calls: int) -> None:
        self._boundary = boundary
        self._left = calls
        self._rng = random.Random(SEED)
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._work())

    async def _work(self) -> None:
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while self._left > 0:
            self._left -= 1
            if streams is None:
                streams = await asyncio.open_connection("127.0.0.1", self._boundary.port, limit=2**20)
            dice = self._rng.random()
            step = ""
            if dice < 0.05:
                step = f'X-Sim-Step: {{"fault": "{self._rng.choice(FAULTS)}"}}\r\n'
            elif dice < 0.10:
                step = 'X-Sim-Step: {"pace_ms": 1, "latency_ms": 1}\r\n'
            keep = await self._call(*streams, self._rng.choice(BODIES), step, leaves=0.05 <= dice < 0.10)
            if not keep:
                streams[1].transport.abort()
                streams = None
        if streams is not None:
            streams[1].close()

    async def _call(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, step: str, *, leaves: bool
    ) -> bool:
        head = f"POST /r/{self._boundary.token}/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\n{step}"
        writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        if leaves:
            self.outcomes["left"] += 1
            if self._rng.random() < 0.5:
                await reader.read(1)
            return False
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
            if b"chunked" in answer:
                await reader.readuntil(b"0\r\n\r\n")
            else:
                await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.outcomes["cut"] += 1
            return False
        self.outcomes[answer[9:12].decode()] += 1
        return b"Connection: close" not in answer


class Ends:
    """Counts the ends of each call, and knows when none is open."""

    def __init__(self, calls: int) -> None:
        self.of = bytearray(calls + 1)
        self._open = 0
        self.none_open = asyncio.Event()

    def see(self, entry: Entry) -> None:
        if entry.type == "model.request":
            self._open += 1
            self.none_open.clear()
        elif entry.type in ("model.response", "model.error"):
            self.of[entry.data["call"]] += 1  # type: ignore[index]
            self._open -= 1
            if self._open == 0:
                self.none_open.set()


def play(calls: int, directory: Path) -> dict[str, Any]:
    """Run the traffic; figures before and after, outcomes, and the ends of the calls."""

    async def scene() -> dict[str, Any]:
        clock = SystemClock()
        run = RunDirectory.create(directory, docket_number(clock.unix_us(), os.urandom))
        key = new_run_key()
        writer = LedgerWriter.create(run, key=key, clock=clock)
        await writer.append_watched(session_start(run.name, key))
        ends = Ends(calls)
        writer.observe(ends.see)
        provider = ScriptedProvider()
        url = await provider.start()
        gate = Gate(Policy(), read_prices(None, "2026-11-30"))
        failures: list[Exception] = []
        desk = Desk.of(
            number=run.name,
            admission=QueuedAdmission(gate, clock),
            recorder=RunRecorder(writer, "continue", Ceilings(), Nobody()),
            clock=clock,
            on_breach=lambda _breach: None,
        )
        settings = Settings(
            routes=(Route.of("up", url, family="openai", provider="openai"),),
            limits=Limits(silence=30),
        )
        async with asyncio.TaskGroup() as tasks:
            boundary = build(desk, settings, tasks, on_fatal=failures.append)
            await boundary.start(bind("127.0.0.1", 0, named="", hint=""))
            first, second = (Traffic(boundary, int(calls * part)) for part in (SETTLED, 1 - SETTLED))
            await first.run()
            await ends.none_open.wait()
            before = figures()
            await second.run()
            await ends.none_open.wait()
            after = figures()
            in_flight = gate.inflight
            await boundary.drain(5)
            await boundary.close()
        await provider.close()
        await writer.checkpoint()
        await writer.close()
        assert not failures, failures
        outcomes = first.outcomes + second.outcomes
        return {
            "before": before,
            "after": after,
            "outcomes": outcomes,
            "in_flight": in_flight,
            "run": run,
            "ends": ends.of,
        }

    return asyncio.run(scene())


def check(result: dict[str, Any], calls: int) -> None:
    before, after = result["before"], result["after"]
    assert after.descriptors <= before.descriptors + SOCKETS_OF_A_WORKER * WORKERS
    assert after.tasks <= before.tasks + TASKS_OF_A_WORKER * WORKERS
    assert after.threads == before.threads
    assert after.rss_kib - before.rss_kib < MAX_GROWTH_KIB, (before, after)
    assert result["in_flight"] == 0
    ends: bytearray = result["ends"]
    numbered = len(ends.rstrip(b"\0"))
    assert ends[:numbered] == b"\0" + b"\1" * (numbered - 1)  # calls 1, 2, 3, ... ended exactly once each
    assert numbered > calls * 0.9
    report = verify(documents_at(result["run"].path))
    assert report.verdict == "unfinished", report


@pytest.mark.timeout(100)
def test_a_sample_of_a_days_traffic(tmp_path: Path) -> None:
    check(play(SAMPLE, tmp_path), SAMPLE)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_days_traffic(tmp_path: Path) -> None:
    result = play(WHOLE, tmp_path)
    check(result, WHOLE)
    print(result["before"], result["after"], dict(result["outcomes"]))
