"""The upstream of a drill: a provider and a network that misbehave by plan, entered at the boundary's own port.

Invariant: every injection is durable in the ledger before it is felt; what a request suffers depends on its number and
the seed alone. The bytes that reach the agent are those that the boundary saw: the drill is upstream of the record.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from docket.boundary.call.ports import Upstream, UpstreamAnswer
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.upstream_connection import Informed
from docket.boundary.http1.wire import CHUNKED, Framing, Header, ResponseHead
from docket.errors import UpstreamError
from docket.ledger.events import FaultInjected
from docket.primitives.canonical import Json, encode
from docket.sim.faults import Draw, Plan

Sleep = Callable[[float], Awaitable[None]]
Record = Callable[[FaultInjected], Awaitable[object]]

_STREAM = re.compile(rb'"stream"\s*:\s*true')
_BODY_FAULTS = frozenset({"bandwidth", "slow_close", "slicer", "limit_data", "corrupt", "duplicate"})
BANDWIDTH_PIECE = 1024
"""Bytes that a narrow line carries at once."""


class DrillUpstream:
    """Wraps the real upstream of a run. Requests are numbered 1, 2, ... in the order in which they are opened."""

    def __init__(self, inner: Upstream, plan: Plan, record: Record, sleep: Sleep = asyncio.sleep) -> None:
        self._inner = inner
        self._plan = plan
        self._record = record
        self._sleep = sleep
        self._opened = 0

    async def open(self, request: Outgoing, informed: Informed) -> UpstreamAnswer:
        """As the port says; raises UpstreamError where a fault wants it."""
        self._opened += 1
        draws = self._plan.draw("upstream", self._opened)
        for draw in draws:
            detail: dict[str, Json] = {"request": self._opened, "magnitude": draw.fault.magnitude}
            await self._record(FaultInjected(fault=draw.fault.name, detail=detail))
        for draw in draws:
            answer = await self._before(draw, request)
            if answer is not None:
                return answer
        response = await self._inner.open(request, informed)
        body = [draw for draw in draws if draw.fault.name in _BODY_FAULTS]
        return Tampered(response, body, self._sleep) if body else response

    async def _before(self, draw: Draw, request: Outgoing) -> UpstreamAnswer | None:
        """What a fault does before the upstream is asked: wait, fail, or answer in its place."""
        magnitude = draw.fault.magnitude
        match draw.fault.name:
            case "latency":
                await self._sleep(magnitude / 1_000_000)
            case "jitter":
                await self._sleep(magnitude / 1_000_000 * draw.roll)
            case "timeout":
                await self._sleep(magnitude / 1_000_000)
                raise UpstreamError("drill: the upstream stayed silent", reason="timeout")
            case "reset_peer":
                await self._sleep(magnitude / 1_000_000)
                raise UpstreamError("drill: the upstream reset the connection", reason="truncated")
            case "drop":
                raise UpstreamError("drill: the upstream closed without an answer", reason="truncated")
            case "status":
                return Canned(magnitude, b"application/json", error_body(request.target, magnitude))
            case "error_event":
                return _error_event(request)
        return None


class Canned:
    """A whole answer that came from no upstream."""

    def __init__(self, status: int, content_type: bytes, body: bytes) -> None:
        lines = [b"content-type: %b" % content_type, b"content-length: %d" % len(body)]
        self.head = ResponseHead(1, status, b"Drill", lines)
        self.framing = Framing("sized", len(body))
        self.ended = False
        self.trailers: tuple[Header, ...] = ()
        self._body = body

    async def read(self) -> bytes:
        return self.read_ready()

    def read_ready(self) -> bytes:
        body, self._body, self.ended = self._body, b"", True
        return body

    def close(self) -> None:
        """Nothing is held."""


class Tampered:
    """A real answer whose body is slowed, cut up, cut off, changed or doubled on its way."""

    def __init__(self, inner: UpstreamAnswer, draws: list[Draw], sleep: Sleep) -> None:
        self._inner = inner
        self._sleep = sleep
        self._draws = {draw.fault.name: draw for draw in draws}
        self._waiting = bytearray()
        self._sent = 0
        self._begun = False
        self.ended = inner.ended
        self.trailers: tuple[Header, ...] = ()
        self.head, self.framing = inner.head, inner.framing
        if "duplicate" in self._draws and inner.framing.kind == "sized":
            lines = [line for name, line in inner.head.lines if name != b"content-length"]
            self.head = ResponseHead(inner.head.minor, inner.head.status, inner.head.reason, lines)
            self.framing = CHUNKED

    async def read(self) -> bytes:
        """The next piece. Raises UpstreamError as the port does, and at the limit of ``limit_data``."""
        while not self._waiting and not self._inner.ended:
            self._waiting += self._changed(await self._inner.read())
        piece = bytes(self._waiting[: self._most()])
        del self._waiting[: len(piece)]
        if "bandwidth" in self._draws:
            await self._sleep(len(piece) / self._draws["bandwidth"].fault.magnitude)
        if self._inner.ended and not self._waiting:
            if "slow_close" in self._draws:
                await self._sleep(self._draws["slow_close"].fault.magnitude / 1_000_000)
            self.ended, self.trailers = True, self._inner.trailers
        self._sent += len(piece)
        return piece

    def read_ready(self) -> bytes:
        """Nothing: every piece is waited for."""
        return b""

    def close(self) -> None:
        self._inner.close()

    def _most(self) -> int:
        """Bytes of the next piece at most. Raises UpstreamError where no more are let through."""
        most = len(self._waiting)
        if "slicer" in self._draws:
            most = min(most, self._draws["slicer"].fault.magnitude)
        if "bandwidth" in self._draws:
            most = min(most, BANDWIDTH_PIECE)
        if "limit_data" in self._draws:
            left = self._draws["limit_data"].fault.magnitude - self._sent
            if left <= 0 < most:
                self._inner.close()
                raise UpstreamError("drill: the connection ended in the body", reason="truncated")
            most = min(most, left)
        return most

    def _changed(self, data: bytes) -> bytes:
        if self._begun or not data:
            return data
        self._begun = True
        if "corrupt" in self._draws:
            place = int(self._draws["corrupt"].roll * len(data))
            data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        return data * 2 if "duplicate" in self._draws else data


def error_body(target: bytes, status: int) -> bytes:
    """An error document in the shape of the protocol that ``target`` belongs to."""
    kind = "overloaded_error" if status == 529 else "api_error" if status >= 500 else "invalid_request_error"
    error: dict[str, Json] = {"type": kind, "message": f"drill: status {status}"}
    if b"/messages" in target:
        return encode({"type": "error", "error": error})
    return encode({"error": {**error, "code": None, "param": None}})


def _error_event(request: Outgoing) -> Canned:
    body = error_body(request.target, 500)
    if not _STREAM.search(request.body.whole() or b""):
        return Canned(200, b"application/json", body)
    event = b"event: error\n" if b"/messages" in request.target else b""
    return Canned(200, b"text/event-stream", event + b"data: " + body + b"\n\n")
