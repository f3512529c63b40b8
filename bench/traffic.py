"""An agent for long and heavy runs: many workers at a steady pace, or as fast as they can; counts what it saw.

Run below ``docket run`` by ``bench.soak`` and ``bench.load``: ``python -m bench.traffic --seconds 60 --rate 50``.
Leaves its count where DOCKET_CHAOS_COUNT says, and every call's begin and time where ``--out`` says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from pathlib import Path

import aiohttp

BODY = {"model": "gpt-4o-mini", "max_completion_tokens": 64, "messages": [{"role": "user", "content": "hello there"}]}

DIRECT_EVERY = 10


class Traffic:
    """What was sent and seen."""

    def __init__(self, seconds: float, rate: float | None, direct: str | None) -> None:
        self.seconds = seconds
        self.rate = rate
        self.direct = direct
        self.beside: list[tuple[float, float]] = []
        """As ``calls``, of calls that went past docket: what the machine and the provider do to a call meanwhile."""
        self.count = {"sent": 0, "ok": 0, "refused": 0, "failed": 0}
        self.calls: list[tuple[float, float]] = []
        """Begin in seconds of the run, and time in milliseconds, of every answered call."""
        self.started = time.perf_counter()

    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    async def worker(self, session: aiohttp.ClientSession, url: str) -> None:
        while (now := self.elapsed()) < self.seconds:
            if self.rate is not None:
                due = self.count["sent"] / self.rate
                if due > now:
                    await asyncio.sleep(due - now)
                    continue
            await self.call(session, url)
            if self.direct is not None and self.count["sent"] % DIRECT_EVERY == 0:
                began = self.elapsed()
                async with session.post(self.direct, json=BODY) as answer:
                    await answer.read()
                self.beside.append((round(began, 3), round(1000 * (self.elapsed() - began), 3)))

    async def call(self, session: aiohttp.ClientSession, url: str) -> None:
        self.count["sent"] += 1
        began = self.elapsed()
        try:
            async with session.post(url, json=BODY) as answer:
                text = await answer.text()
        except aiohttp.ClientError:
            self.count["failed"] += 1
            return
        if answer.status == 200 and '"error"' not in text:
            self.count["ok"] += 1
            self.calls.append((round(began, 3), round(1000 * (self.elapsed() - began), 3)))
        else:
            self.count["refused" if "docket_policy_denied" in text else "failed"] += 1


async def play(seconds: float, workers: int, rate: float | None, direct: str | None) -> Traffic:
    """Send traffic for so long; what was sent and seen."""
    traffic = Traffic(seconds, rate, direct)
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(traffic.worker(session, url))
    return traffic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate", type=float, help="calls per second; as fast as possible if left out")
    parser.add_argument("--direct", help="also call this URL past docket, once for every ten calls")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    traffic = asyncio.run(play(given.seconds, given.workers, given.rate, given.direct))
    given.out.write_text(json.dumps({"calls": traffic.calls, "beside": traffic.beside}))
    if "DOCKET_CHAOS_COUNT" in os.environ:
        text = json.dumps(traffic.count, separators=(",", ":"), sort_keys=True)
        Path(os.environ["DOCKET_CHAOS_COUNT"]).write_text(text)


if __name__ == "__main__":
    main()
