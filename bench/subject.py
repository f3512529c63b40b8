"""docket's boundary with the real gate and a real ledger, for the benchmark.

``subject.py UPSTREAM_PORT DIRECTORY [--sync-ms N] [--blind] [--profile FILE]`` prints its port and the path of its
upstream, and serves until SIGTERM. ``--blind`` leaves answers unread (what metering costs is the difference).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import signal
import sys
import threading
from pathlib import Path

from docket.boundary.build import build
from docket.boundary.call.admission import QueuedAdmission
from docket.boundary.call.desk import Desk
from docket.boundary.listener import bind
from docket.boundary.routes import Route
from docket.boundary.settings import Settings
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.control.evidence import Ceilings
from docket.errors import LedgerError
from docket.ledger.events import CapExceeded
from docket.policy.model import Policy
from docket.pricing.table import PriceTable
from docket.primitives.canonical import encode
from docket.providers import registry
from docket.storage.durable import SystemDisk
from docket.storage.keys import new_run_key
from docket.storage.paths import RunDirectory, docket_number
from docket.storage.writer import LedgerWriter
from docket.supervisor.recorder import RunRecorder
from docket.supervisor.run import COLLECT_AFTER

PRICES = {
    "format": "docket-prices/1",
    "source": "bench",
    "version": "1",
    "date": "2026-11-30",
    "models": [
        {
            "provider": "openai",
            "model": "bench-1",
            "periods": [{"rows": [["standard", "input", "2", 1_000_000], ["standard", "output", "10", 1_000_000]]}],
        }
    ],
}


class Nobody:
    """Listens to a record that nothing befalls."""

    def evidence_broke(self, error: LedgerError) -> None:
        sys.exit(str(error))

    def evidence_lost(self) -> None:
        sys.exit("an event was lost")

    def full(self, met: CapExceeded) -> None:
        sys.exit(f"{met.cap} was met")


class SlowDisk(SystemDisk):
    """The real disk, every sync so many seconds slower."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def sync(self, fd: int) -> None:
        super().sync(fd)
        threading.Event().wait(self._seconds)


async def serve(port: int, directory: Path, sync_ms: float) -> None:
    clock = SystemClock()
    disk = SlowDisk(sync_ms / 1000) if sync_ms else None
    number = docket_number(clock.unix_us(), os.urandom)
    writer = LedgerWriter.create(RunDirectory.create(directory, number, disk), key=new_run_key(), clock=clock)
    gate = Gate(Policy(), PriceTable.parse(encode(PRICES), at="2026-11-30"))
    route = Route.of("up", f"http://127.0.0.1:{port}/v1", family="openai", provider="openai")
    stop = asyncio.Event()
    failures: list[Exception] = []
    desk = Desk.of(
        number=number,
        admission=QueuedAdmission(gate, clock),
        recorder=RunRecorder(writer, "continue", Ceilings(), Nobody()),
        clock=clock,
        on_breach=lambda _breach: None,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with asyncio.TaskGroup() as tasks:
        boundary = build(desk, Settings(routes=(route,)), tasks, on_fatal=failures.append)
        own = await boundary.start(bind("127.0.0.1", 0, named="--port", hint=""))
        sys.stdout.write(f"{own} {boundary.base_url('up').partition(str(own))[2]}/chat/completions\n")
        sys.stdout.flush()
        await stop.wait()
        await boundary.close()
    await writer.close()
    if failures:
        raise failures[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sync-ms", type=float, default=0)
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--profile")
    options = parser.parse_args()
    if options.blind:
        registry.observer_of = lambda _call, *, status, media_type: None  # type: ignore[assignment]
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    work = serve(options.port, options.directory, options.sync_ms)
    if options.profile is None:
        asyncio.run(work)
        return
    profile = cProfile.Profile()
    profile.runcall(asyncio.run, work)
    profile.dump_stats(options.profile)


if __name__ == "__main__":
    main()
