"""The CPU time of one whole call with neither socket nor disk: ``python -m bench.in_memory [--stream] [--calls N]``.

The real boundary, gate and chain between stand-ins for the transports, at 64 connections: what a change of the code
costs or wins, on a machine with other work on it. The fastest of several rounds of process time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bench.pieces import ANSWER, BODY, REQUEST, RESPONSE, TOKEN
from bench.subject import PRICES
from docket.boundary.build import build
from docket.boundary.call.admission import QueuedAdmission
from docket.boundary.call.desk import Desk
from docket.boundary.call.ports import Recorder
from docket.boundary.http1.agent_connection import Connection
from docket.boundary.http1.origin import Origin
from docket.boundary.http1.upstream import Upstreams
from docket.boundary.http1.upstream_connection import Link
from docket.boundary.listener import bind
from docket.boundary.routes import Route
from docket.boundary.server import Boundary
from docket.boundary.settings import Settings
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.control.decision import Refused
from docket.ledger.chain import Chain, Entry
from docket.ledger.codec import draft
from docket.ledger.events import Event
from docket.policy.model import Policy
from docket.pricing.table import PriceTable
from docket.primitives.canonical import encode
from docket.supervisor.run import COLLECT_AFTER

CONNECTIONS = 64
NUMBER = "DKT-20261130-AAAAAAAAAA"
ROUNDS = 8
EVENT = b'data: {"id":"chatcmpl-1","model":"bench-1","choices":[{"index":0,"delta":%b,"finish_reason":%b}]%b}\n\n'
EVENTS = [
    *[EVENT % (b'{"content":"Hello"}', b"null", b"")] * 8,
    EVENT % (b"{}", b'"stop"', b',"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}'),
    b"data: [DONE]\n\n",
]
STREAM = [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    *[b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS],
]
LAST_CHUNK = b"0\r\n\r\n"


class Transport(asyncio.Transport):
    """Hands what is written to ``sent``; its socket is there to be asked whether it is readable."""

    def __init__(self, sent: Callable[[bytes], None]) -> None:
        super().__init__()
        self._sent = sent
        self._ends = socket.socketpair()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._sent(bytes(data))

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._ends[0] if name == "socket" else default

    def close(self) -> None:
        for end in self._ends:
            end.close()

    abort = close


class Record:
    """A chain in memory: every event gets its place and its line, and is durable one turn of the loop later."""

    def __init__(self) -> None:
        self._chain = Chain()
        self._loop = asyncio.get_running_loop()

    def refusal(self, *, lost: bool = False) -> Refused | None:
        return None

    def submit(self, event: Event) -> asyncio.Future[Entry | None]:
        entry, _, _ = self._chain.extend(draft(event), ts="2026-11-30T00:00:00.000000Z", elapsed_us=0, entropy=bytes)
        durable: asyncio.Future[Entry | None] = self._loop.create_future()
        self._loop.call_soon(durable.set_result, entry)
        return durable


class Agents:
    """Connections that ask again as soon as they were answered, until ``goal`` answers came in all."""

    def __init__(self, boundary: Boundary, stream: bool, connections: int = CONNECTIONS) -> None:
        request = REQUEST.replace(TOKEN, boundary.token.encode()).replace(b"700", b"%d" % len(BODY))
        self._request = request + b"\r\n\r\n" + BODY
        if stream:
            self._request = self._request.replace(b'"stream":false', b'"stream":true ')
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._connections = [self._connect(boundary) for _ in range(connections)]

    def _connect(self, boundary: Boundary) -> Connection:
        connection = Connection(boundary._opened)

        def answered(data: bytes) -> None:
            if self._stream and not data.endswith(LAST_CHUNK):
                return
            self._answers += 1
            if self._answers <= self._goal - len(self._connections):
                self._loop.call_soon(connection.data_received, self._request)
            elif self._answers == self._goal:
                self._done.set_result(None)

        connection.connection_made(Transport(answered))
        return connection

    async def ask(self, goal: int) -> float:
        """Microseconds of CPU that one of ``goal`` calls took."""
        self._answers, self._goal, self._done = 0, goal, self._loop.create_future()
        began = time.process_time()
        for connection in self._connections:
            connection.data_received(self._request)
        await self._done
        return (time.process_time() - began) / goal * 1e6

    def leave(self) -> None:
        for connection in self._connections:
            connection.connection_lost(None)


@asynccontextmanager
async def serving(recorder: Recorder, *, stream: bool) -> AsyncIterator[Boundary]:
    """The boundary of a run without caps, before an upstream that answers at once."""
    loop, clock = asyncio.get_running_loop(), SystemClock()
    answer = [*STREAM[:-1], STREAM[-1] + LAST_CHUNK] if stream else [_whole()]

    async def connect(_self: Upstreams, _origin: Origin) -> Link:
        link = Link()

        def sent(_data: bytes) -> None:
            for piece in answer:
                loop.call_soon(link.data_received, piece)

        link.connection_made(Transport(sent))
        return link

    Upstreams._connect = connect  # type: ignore[method-assign]
    desk = Desk.of(
        number=NUMBER,
        admission=QueuedAdmission(Gate(Policy(), PriceTable.parse(encode(PRICES), at="2026-11-30")), clock),
        recorder=recorder,
        clock=clock,
        on_breach=lambda _breach: None,
    )
    async with asyncio.TaskGroup() as tasks:
        settings = Settings(routes=(_route(),))
        boundary = build(desk, settings, tasks, on_fatal=lambda error: sys.exit(repr(error)))
        await boundary.start(bind("127.0.0.1", 0, named="port", hint=""))
        yield boundary
        await boundary.close()


async def measure(calls: int, stream: bool) -> float:
    async with serving(Record(), stream=stream) as boundary:
        agents = Agents(boundary, stream)
        best = min([await agents.ask(calls) for _ in range(ROUNDS)])
        agents.leave()
    return best


def _whole() -> bytes:
    return RESPONSE.replace(b"280", b"%d" % len(ANSWER)) + b"\r\n\r\n" + ANSWER


def _route() -> Route:
    return Route.of("up", "http://127.0.0.1:9/v1", family="openai", provider="openai")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--calls", type=int, default=4000)
    options = parser.parse_args()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    took = asyncio.run(measure(options.calls, options.stream))
    sys.stdout.write(f"{'stream' if options.stream else 'JSON'}: {took:.1f} us of CPU a call\n")


if __name__ == "__main__":
    main()
