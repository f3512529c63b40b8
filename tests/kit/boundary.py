"""A boundary on real sockets beside small stand-ins: an admission that admits, and a record that can be looked at."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from docket.boundary.build import NO_ENDURANCE, Around, build
from docket.boundary.call.desk import Desk, UnderWay
from docket.boundary.http1.upstream import Limits
from docket.boundary.listener import LOOPBACK, bind
from docket.boundary.routes import Route
from docket.boundary.server import Boundary
from docket.boundary.settings import Settings
from docket.clock import SystemClock
from docket.control.breaker import Ended
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused, Settlement
from docket.ledger.chain import Entry
from docket.ledger.events import CallNumber, CapExceeded, Event, Hold, ModelError, ModelRequest, ModelResponse
from docket.ledger.usage import Counts, Item, Usage
from docket.policy.endurance import Endurance
from docket.primitives.instant import timestamp
from docket.providers.call import UNKNOWN_MODEL, Call, Observation

T = TypeVar("T")
DOCKET = "DKT-20261130-0123456789"


class OpenAdmission:
    """Admits every call, or refuses as told; books what the provider said, without prices."""

    def __init__(self, refuse: Callable[[Call], Refused | None] = lambda _call: None) -> None:
        self.refuse = refuse
        self.number = 0
        self.open: set[int] = set()
        self.ended: list[tuple[Ended, Observation | None]] = []

    async def wait(self, call: Call, wait: Wait) -> Admitted | Refused:
        raise NotImplementedError("nobody waits here")

    def admit(self, call: Call) -> Admitted | Refused:
        refused = self.refuse(call)
        if refused is not None:
            return refused
        self.number += 1
        self.open.add(self.number)
        return Admitted(call=CallNumber(self.number), hold=Hold(tokens=0))

    def settle(self, admitted: Admitted, call: Call, ended: Ended, observation: Observation | None) -> Settlement:
        self.open.remove(admitted.call)
        self.ended.append((ended, observation))
        counts = observation.counts if observation is not None else Counts(source="none")
        items = tuple(Item(kind=kind, quantity=quantity) for kind, quantity in counts.items)
        model = (observation.model if observation is not None else None) or call.model or UNKNOWN_MODEL
        usage = Usage(source=counts.source, items=items, inconsistent=counts.inconsistent)
        return Settlement(usage=usage, model=model, tier="standard")

    def answered(self, admitted: Admitted, ended: Ended) -> tuple[Event, ...]:
        return ()

    def release(self, admitted: Admitted) -> None:
        self.open.remove(admitted.call)


class Record:
    """Takes events in order; each is durable at the next turn of the loop, unless ``gate`` holds it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    async def until(self, condition: Callable[[Record], object]) -> None:
        """Wait for events that make ``condition`` true."""
        while not condition(self):
            self._news.clear()
            await self._news.wait()

    def submit(self, event: Event) -> asyncio.Future[object]:
        entry = self.entry(event)
        self.events.append(event)
        self._news.set()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        loop.call_soon(lambda: done.done() or done.set_result(entry))
        return done

    def entry(self, event: Event) -> Entry:
        """``event`` in the place that it will have."""
        ts = timestamp(SystemClock().unix_us())
        return Entry(len(self.events), ts, 0, event.type, event.by, {}, None, "", "", _event=event)

    def refusal(self, *, lost: bool = False) -> Refused | None:
        return None

    def ends(self) -> list[ModelResponse | ModelError]:
        return [event for event in self.events if isinstance(event, ModelResponse | ModelError)]

    def requests(self) -> list[ModelRequest]:
        return [event for event in self.events if isinstance(event, ModelRequest)]

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    def calls_ended_once(self) -> bool:
        """Whether every request has exactly one end."""
        return sorted(e.call for e in self.requests()) == sorted(e.call for e in self.ends())


@dataclass
class Stage:
    """A boundary that runs, and what stands around it."""

    boundary: Boundary
    record: Record
    admission: OpenAdmission
    under_way: UnderWay
    breaches: list[CapExceeded] = field(default_factory=list)
    fatal: list[Exception] = field(default_factory=list)

    @property
    def prefix(self) -> bytes:
        return b"/r/" + self.boundary.token.encode()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.boundary.port, limit=2**22)

    async def raw(self, data: bytes) -> bytes:
        """Send ``data`` and read to the end of the connection."""
        reader, writer = await self.connect()
        writer.write(data)
        answer = await reader.read()
        writer.close()
        return answer

    async def call(
        self,
        path: str,
        body: bytes = b"",
        method: str = "POST",
        headers: Sequence[tuple[str, str]] = (),
        upstream: str = "up",
    ) -> Answered:
        """One request on its own connection."""
        lines = [f"{method} /r/{self.boundary.token}/{upstream}{path} HTTP/1.1", "Host: boundary", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        return parse(await self.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body))


@dataclass(frozen=True)
class Answered:
    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> list[str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = [line.partition(":") for line in lines]
        return [value.strip() for key, _, value in pairs if key.lower() == name.lower()]


def parse(raw: bytes) -> Answered:
    """The one answer in ``raw``, its chunks put together."""
    head, _, body = raw.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        parts, rest = [], body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            count = int(size, 16)
            if count == 0:
                break
            parts.append(rest[:count])
            rest = rest[count + 2 :]
        body = b"".join(parts)
    return Answered(int(head.split(b" ")[1]) if head else 0, head, body)


@asynccontextmanager
async def stage(
    upstream: str,
    *,
    family: str = "openai",
    admission: OpenAdmission | None = None,
    record: Any = None,
    limits: Limits | None = None,
    around: Around | None = None,
    endurance: Endurance = NO_ENDURANCE,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A boundary whose upstream ``up`` is ``upstream``."""
    admission, record = admission or OpenAdmission(), record or Record()
    routes = (
        Route.of("up", upstream, family=family, provider=family, forward_unmetered=settings.pop("unmetered", False)),
    )
    breaches: list[CapExceeded] = []
    fatal: list[Exception] = []
    desk = Desk.of(
        number=DOCKET,
        admission=admission,
        recorder=record,
        clock=SystemClock(),
        on_breach=breaches.append,
    )
    async with asyncio.TaskGroup() as tasks:
        boundary = build(
            desk,
            Settings(routes=routes, limits=limits or Limits(), **settings),
            tasks,
            on_fatal=fatal.append,
            around=around,
            endurance=endurance,
        )
        await boundary.start(bind(LOOPBACK, 0, named="--port", hint=""))
        try:
            yield Stage(boundary, record, admission, desk.under_way, breaches, fatal)
        finally:
            await boundary.close()
    assert not fatal, fatal


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def raw_upstream(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """An upstream that is one function over a connection; its URL, which begins with http whatever it speaks."""
    open_writers: set[asyncio.StreamWriter] = set()
    none_open = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.add(writer)
        none_open.clear()
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            open_writers.discard(writer)
            writer.close()
            if not open_writers:
                none_open.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**22, ssl=tls)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in tuple(open_writers):
            writer.transport.abort()
        if open_writers:
            await none_open.wait()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head (with its empty line) and body of the next request, the body as it stands on the wire."""
    head = await reader.readuntil(b"\r\n\r\n")
    named: Mapping[bytes, bytes] = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head[:-4].split(b"\r\n")[1:])
    }
    if named.get(b"transfer-encoding", b"").lower() == b"chunked":
        return head, await reader.readuntil(b"0\r\n\r\n")
    return head, await reader.readexactly(int(named.get(b"content-length", b"0")))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine with a limit that no passing test comes near."""

    async def limited() -> T:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(limited())
