"""What an event costs: CPU of each step of the writer's path, and of the whole path on this disk.

Run with ``python -m tools.ledger_bench [events]``. Prints the median of five rounds, in microseconds per event.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from docket.clock import SystemClock
from docket.ledger.chain import Chain, read_entry, weight_of
from docket.ledger.codec import Draft, draft
from docket.ledger.events import CallNumber, Event, Hold, ModelRequest
from docket.primitives.instant import timestamp
from docket.primitives.money import Usd
from docket.storage.keys import new_run_key
from docket.storage.paths import RunDirectory, docket_number
from docket.storage.writer import LedgerWriter

ROUNDS = 5
TOGETHER = 32


def request(call: int) -> ModelRequest:
    """An event of usual size."""
    return ModelRequest(
        call=CallNumber(call),
        upstream="openai",
        provider="openai",
        protocol="openai-chat",
        endpoint="/v1/chat/completions",
        model="gpt-test",
        stream=True,
        bytes=300,
        hold=Hold(tokens=100, usd=Usd(123_450_000)),
        waited_us=0,
        private={"target": "/v1/chat/completions", "request_sha256": "0" * 64},
    )


def exhaust(values: Iterable[object]) -> None:
    deque(values, maxlen=0)


def extend_all(drafts: list[Draft]) -> None:
    chain, stamp = Chain(), timestamp(1_800_000_000_000_000)
    for prepared in drafts:
        chain.extend(prepared, ts=stamp, elapsed_us=1, entropy=os.urandom)


def follow_all(lines: list[bytes]) -> None:
    chain = Chain()
    for line in lines:
        chain.follow(read_entry(line))


def measure(name: str, count: int, work: Callable[[], object]) -> None:
    """Print the median CPU time of ``work`` per event."""
    rounds = []
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        rounds.append((time.process_time() - before) / count * 1e6)
    sys.stdout.write(f"{name:38}{statistics.median(rounds):8.2f} us CPU/event\n")


async def write_all(events: list[Event], together: int) -> None:
    """Append ``events``, ``together`` at a time, to a new ledger on the disk of the working directory."""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        clock = SystemClock()
        run = RunDirectory.create(Path(directory) / ".docket", docket_number(clock.unix_us(), os.urandom))
        writer = LedgerWriter.create(run, key=new_run_key(), clock=clock)
        before = time.perf_counter()
        for start in range(0, len(events), together):
            waiters = [writer.submit(event) for event in events[start : start + together]]
            for waiter in waiters:
                await waiter
        sys.stdout.write(f"  {together} at a time: {(time.perf_counter() - before) / len(events) * 1e6:.1f} us/event\n")
        await writer.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    events: list[Event] = [request(call) for call in range(count)]
    drafts = [draft(event) for event in events]
    chain, stamp = Chain(), timestamp(1_800_000_000_000_000)
    lines = [chain.extend(item, ts=stamp, elapsed_us=1, entropy=os.urandom)[1][:-1] for item in drafts]
    measure("make the event", count, lambda: exhaust(request(call) for call in range(count)))
    measure("draft (loop)", count, lambda: exhaust(draft(event) for event in events))
    measure("weigh (thread)", count, lambda: exhaust(weight_of(item) for item in drafts))
    measure("place in the chain (thread)", count, lambda: extend_all(drafts))
    measure("read and check", count, lambda: follow_all(lines))
    for together in (TOGETHER, 1):
        measure("whole path", count, lambda together=together: asyncio.run(write_all(events, together)))  # type: ignore[misc]


if __name__ == "__main__":
    main()
