"""What docket itself answers below ``/r/<token>/docket``: ``POST events`` and ``GET budget``.

An event is what the agent itself wants on the record, as its own assertion. Invariant: only notes, tool calls and tool
results, always ``by: agent``, bounded in size and rate, private; nothing that an agent says can make an event that does
not fit the format. With an ``Idempotency-Key`` an event is recorded once, however often it is sent: the same key and
body get the answer that the first got, also while that one is being recorded and in a resumed session; another body
gets 409.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from docket.boundary.answers.denials import Denials
from docket.boundary.answers.refusals import Answer
from docket.boundary.call.client import HttpClient
from docket.boundary.call.ports import Recorder
from docket.boundary.http1.agent_connection import RequestBody
from docket.boundary.http1.wire import RequestHead
from docket.boundary.otlp import Signal, events_of
from docket.clock import Clock
from docket.control.asserted import MEMBER, AssertedKeys, Keyed
from docket.control.decision import Refused
from docket.errors import UsageError
from docket.ledger.chain import Entry
from docket.ledger.events import Note, ToolCall, ToolResult
from docket.primitives.canonical import Json, JsonObject, encode, is_canonical
from docket.primitives.digest import sha256_hex

MAX_EVENT = 64 * 1024
"""Bytes of one asserted event: a tool's arguments fit, its output belongs into the agent's own files."""
PER_SECOND = 50
"""Asserted events a second, in the long run: above any agent's pace of tool calls."""
BURST = 200
"""Asserted events at once: a parallel batch of tools."""

MAX_EXPORT = 1024 * 1024
"""Bytes of one export of telemetry: exporters send some hundred records at once."""
OTLP: dict[bytes, Signal] = {
    b"/otlp/v1/logs": "logs",
    b"/otlp/v1/traces": "traces",
    b"/otlp/v1/metrics": "metrics",
}
MAX_KEY = 255
"""Characters of an ``Idempotency-Key``: a UUID, or a name of the agent's own."""

Asserted = Note | ToolCall | ToolResult
_KINDS: dict[str, type[Asserted]] = {kind.type: kind for kind in (Note, ToolCall, ToolResult)}


class Pace:
    """A token bucket on the loop's monotonic clock."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = asyncio.get_running_loop().time()

    def take(self) -> Refused | None:
        """Use one token, or say when there will be one."""
        now = asyncio.get_running_loop().time()
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < 1:
            return Refused(code="event_rate", message=f"more than {PER_SECOND} events a second", retry_after=1)
        self._left -= 1
        return None


class AgentApi:
    """Answers the agent's own requests to docket."""

    def __init__(
        self,
        recorder: Recorder,
        denials: Denials,
        clock: Clock,
        *,
        budget: Callable[[], JsonObject] | None = None,
        asserted: AssertedKeys | None = None,
    ) -> None:
        """``budget`` says what is left of it; None where nobody may ask. ``asserted``: the keys of earlier sessions."""
        self._recorder = recorder
        self._denials = denials
        self._clock = clock
        self._budget = budget
        self._asserted = asserted or AssertedKeys()
        self._under_way: dict[str, tuple[str, asyncio.Future[Entry | None]]] = {}
        """By key: the digest of the body, and the record that is not durable yet."""
        self._pace = Pace()

    async def answer(self, head: RequestHead, target: bytes, body: RequestBody, client: HttpClient) -> None:
        """Answer one request to ``target``. Raises ClientGoneError, WireError, LedgerError."""
        path, _, _ = target.partition(b"?")
        if (head.method, path) == (b"POST", b"/events"):
            await self._assert_event(head, body, client)
        elif head.method == b"POST" and (signal := OTLP.get(path)) is not None:
            await self._take_telemetry(signal, head, body, client)
        elif (head.method, path) == (b"GET", b"/budget") and self._budget is not None:
            await client.refuse(_json(self._budget()))
        else:
            message = "here are POST events, POST otlp/v1/{logs,traces,metrics} and GET budget"
            await client.refuse(self._denials.bad(404, "unknown_endpoint", message))

    async def _assert_event(self, head: RequestHead, body: RequestBody, client: HttpClient) -> None:
        try:
            raw = await read_event(body)
            keyed = _keyed(head, raw)
            event = parse_event(raw)
        except UsageError as error:
            await client.refuse(self._denials.bad(400, "bad_event", str(error)))
            return
        if keyed is None:
            await client.refuse(await self._record(event))
        else:
            await client.refuse(await self._once(keyed, event))

    async def _take_telemetry(self, signal: Signal, head: RequestHead, body: RequestBody, client: HttpClient) -> None:
        """Record the tools of an OTLP/HTTP export, and answer as that protocol wants it."""
        try:
            raw = await read_event(body, MAX_EXPORT)
            if head.media_type != b"application/json" or b"content-encoding" in head.named:
                message = "telemetry is taken as JSON, uncompressed: set OTEL_EXPORTER_OTLP_PROTOCOL=http/json"
                await client.refuse(self._denials.bad(415, "unsupported_telemetry", message))
                return
            events = events_of(signal, _parsed(raw))
        except UsageError as error:
            await client.refuse(self._denials.bad(400, "bad_event", str(error)))
            return
        records = [self._recorder.submit(_canonical(event)) for event in events if self._pace.take() is None]
        entries = [await record for record in records]
        if None in entries:
            await client.refuse(self._lost())
            return
        rejected = len(events) - len(records)
        told: JsonObject = {"errorMessage": f"{rejected} events came too fast to be recorded"}
        await client.refuse(_json({"partialSuccess": told} if rejected else {}))

    async def _once(self, keyed: Keyed, event: Asserted) -> Answer:
        """The answer to an event that is to be recorded once."""
        known = self._asserted.find(keyed.key, self._clock.unix_us())
        if known is not None:
            return _recorded(known.seq, replayed=True) if known.body == keyed.body else self._conflict()
        under_way = self._under_way.get(keyed.key)
        if under_way is None:
            return await self._record(replace(event, private={**event.private, MEMBER: keyed.to_json()}), keyed)
        body, record = under_way
        if body != keyed.body:
            return self._conflict()
        entry = await asyncio.shield(record)
        return self._lost() if entry is None else _recorded(entry.seq, replayed=True)

    async def _record(self, event: Asserted, keyed: Keyed | None = None) -> Answer:
        """Put ``event`` on the record; nothing stands between the look at its key and that. Raises LedgerError."""
        refused = self._pace.take()
        if refused is not None:
            return self._denials.bad(429, refused.code, refused.message)
        record: asyncio.Future[Entry | None] = self._recorder.submit(event)
        if keyed is not None:
            self._under_way[keyed.key] = keyed.body, record
            record.add_done_callback(lambda done: self._settle(keyed, done))
        entry = await asyncio.shield(record)  # a client that leaves takes nothing back: others may wait for this record
        return self._lost() if entry is None else _recorded(entry.seq)

    def _settle(self, keyed: Keyed, record: asyncio.Future[Entry | None]) -> None:
        """Know the key of what is durable; what is lost may be sent again."""
        del self._under_way[keyed.key]
        if not record.cancelled() and record.exception() is None:
            entry = record.result()
            if entry is not None:
                self._asserted.add(entry)

    def _conflict(self) -> Answer:
        message = "this Idempotency-Key stands for another event: a new event needs a new key"
        return self._denials.bad(409, "idempotency_conflict", message)

    def _lost(self) -> Answer:
        message = "the event could not be recorded, and the receipt will say that one is missing"
        return self._denials.bad(503, "evidence_broken", message)


def _recorded(seq: int, *, replayed: bool = False) -> Answer:
    answer: JsonObject = {"recorded": True, "seq": seq}
    return _json(answer | {"replayed": True} if replayed else answer)


def _keyed(head: RequestHead, raw: bytes) -> Keyed | None:
    """The key of a request, quoted or not, and its body. Raises UsageError where it is none."""
    values = head.values(b"idempotency-key")
    if not values:
        return None
    key = values[0][1:-1] if len(values[0]) > 1 and values[0][:1] == values[0][-1:] == b'"' else values[0]
    if len(values) > 1 or not 0 < len(key) <= MAX_KEY or not all(0x20 < byte < 0x7F for byte in key):
        raise UsageError(f"Idempotency-Key is one value of 1 to {MAX_KEY} visible ASCII characters")
    return Keyed.of(key, raw)


def _json(document: JsonObject) -> Answer:
    return Answer(status=200, headers=((b"Content-Type", b"application/json"),), body=encode(document) + b"\n")


async def read_event(body: RequestBody, most: int = MAX_EVENT) -> bytes:
    """The body of a request. Raises UsageError where it has more than ``most`` bytes, ClientGoneError, WireError."""
    parts, size = [], 0
    while data := await body.read():
        parts.append(data)
        size += len(data)
        if size > most:
            raise UsageError(f"there may be at most {most} bytes")
    return b"".join(parts)


def parse_event(raw: bytes) -> Asserted:
    """``{"type": "note" | "tool.call" | "tool.result", ...}``: what else it says is kept as the private ``said``.

    Agent-supplied objects stand only inside private values (evidence format section 1): what has no canonical form, or
    would stand too deep, is kept as its bytes. Raises UsageError.
    """
    document = _parsed(raw)
    if not isinstance(document, dict):
        raise UsageError("the body is not a JSON object")
    named = document.pop("type", None)
    kind = _KINDS.get(named) if isinstance(named, str) else None
    if kind is None:
        raise UsageError("type must be note, tool.call or tool.result")
    return kind(by="agent", private={"said": _kept(document, raw)} if document else {})


def _parsed(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the body is not JSON: {error.msg}") from error


def _canonical(event: Asserted) -> Asserted:
    """``event`` with what it says in a form that the format can hold."""
    said: Any = event.private["said"]
    return replace(event, private={"said": _kept(said, orjson.dumps(said))})


def _kept(document: dict[str, Json], raw: bytes) -> Json:
    if is_canonical([[[document]]]):  # where it will stand: below the event, its private members, and one of those
        return document
    return {"base64": b64encode(raw).decode(), "sha256": sha256_hex(raw)}
