"""How many files and Python calls one model call crosses: ``python -m tools.call_walk [--stream] [--where | --calls]``.

A profile hook over the parts of ``bench.in_memory``, with a real ledger writer, recorder and receipt totals behind
them: the third call on a warm connection, from the first byte of the request to the last observer of its end event,
on the event loop and in the writer's thread. A resumed coroutine or generator counts as a call; the stand-ins for the
sockets do not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from bench.in_memory import Agents, serving
from bench.subject import Nobody

import docket
from docket.clock import SystemClock
from docket.control.evidence import Ceilings
from docket.ledger.chain import Entry
from docket.receipt.totals import Totals
from docket.storage.keys import new_run_key
from docket.storage.paths import RunDirectory
from docket.storage.writer import LedgerWriter
from docket.supervisor.recorder import RunRecorder

SOURCE = str(Path(docket.__file__).parent) + "/"
WARM = 2
"""Calls before the one that is counted."""
NAME = "DKT-20261130-AAAAAAAAAA"


class Walk:
    """Counts calls of docket's own functions, in every thread that began after it, while it is ``on``."""

    def __init__(self) -> None:
        self.on = False
        self.order: list[CodeType] = []
        threading.setprofile(self._hook)

    def __enter__(self) -> None:
        self.on = True
        sys.setprofile(self._hook)

    def __exit__(self, *_exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        self.on = False

    def _hook(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self.order.append(frame.f_code)

    @property
    def files(self) -> Counter[str]:
        return Counter(code.co_filename.removeprefix(SOURCE) for code in self.order)

    @property
    def functions(self) -> Counter[str]:
        return Counter(f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname}" for code in self.order)


async def walk(*, stream: bool) -> Walk:
    """Walk one call. Its ledger lies in a directory that is thrown away."""
    seen, ended = Walk(), asyncio.Event()

    def look(entry: Entry) -> None:
        if entry.type == "model.response":
            ended.set()

    with tempfile.TemporaryDirectory() as directory:
        run = RunDirectory.create(Path(directory), NAME)
        writer = LedgerWriter.create(run, key=new_run_key(), clock=SystemClock())
        writer.observe(Totals().add)
        writer.observe(look)
        recorder = RunRecorder(writer, "continue", Ceilings(), Nobody())
        async with serving(recorder, stream=stream) as boundary:
            agents = Agents(boundary, stream, connections=1)
            for _ in range(WARM):
                await agents.ask(1)
                await ended.wait()
                ended.clear()
            with seen:
                await agents.ask(1)
                await ended.wait()
            agents.leave()
        await writer.close()
        run.close()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", action="store_true", help="a stream of ten events in place of a JSON answer")
    parser.add_argument("--where", action="store_true", help="every file and its calls")
    parser.add_argument("--calls", action="store_true", help="every call in its order")
    options = parser.parse_args()
    seen = asyncio.run(walk(stream=options.stream))
    if options.where:
        for name, count in sorted(seen.files.items(), key=lambda item: (-item[1], item[0])):
            print(f"{count:4} {name}")
    if options.calls:
        for code in seen.order:
            print(f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname}")
    kind = "stream of ten events" if options.stream else "JSON call"
    print(f"{kind}: {len(seen.files)} files, {len(seen.functions)} functions, {len(seen.order)} calls")


if __name__ == "__main__":
    main()
