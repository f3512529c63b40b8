"""What docket itself answers below ``/r/<token>/docket``: ``POST events`` and ``GET budget``.

An event is what the agent itself wants on the record, as its own assertion. Invariant: only notes, tool calls and tool
results, always ``by: agent``, bounded in size and rate, private; nothing that an agent says can make an event that does
not fit the format.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable

import orjson

from docket.boundary.answers.denials import Denials
from docket.boundary.answers.refusals import Answer
from docket.boundary.call.client import HttpClient
from docket.boundary.call.ports import Recorder
from docket.boundary.http1.agent_connection import RequestBody
from docket.boundary.http1.wire import RequestHead
from docket.control.decision import Refused
from docket.errors import UsageError
from docket.ledger.events import Event, Note, ToolCall, ToolResult
from docket.primitives.canonical import Json, JsonObject, encode, is_canonical
from docket.primitives.digest import sha256_hex

MAX_EVENT = 64 * 1024
"""Bytes of one asserted event: a tool's arguments fit, its output belongs into the agent's own files."""
PER_SECOND = 50
"""Asserted events a second, in the long run: above any agent's pace of tool calls."""
BURST = 200
"""Asserted events at once: a parallel batch of tools."""

_KINDS: dict[str, type[Note | ToolCall | ToolResult]] = {kind.type: kind for kind in (Note, ToolCall, ToolResult)}


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

    def __init__(self, recorder: Recorder, denials: Denials, budget: Callable[[], JsonObject] | None) -> None:
        """``budget`` says what is left of it; None where nobody may ask."""
        self._recorder = recorder
        self._denials = denials
        self._budget = budget
        self._pace = Pace()

    async def answer(self, head: RequestHead, target: bytes, body: RequestBody, client: HttpClient) -> None:
        """Answer one request to ``target``. Raises ClientGoneError, WireError, LedgerError."""
        path, _, _ = target.partition(b"?")
        if (head.method, path) == (b"POST", b"/events"):
            await self._assert_event(body, client)
        elif (head.method, path) == (b"GET", b"/budget") and self._budget is not None:
            await client.refuse(_json(self._budget()))
        else:
            message = "here are POST events and GET budget"
            await client.refuse(self._denials.bad(404, "unknown_endpoint", message))

    async def _assert_event(self, body: RequestBody, client: HttpClient) -> None:
        try:
            event = await read_event(body)
        except UsageError as error:
            await client.refuse(self._denials.bad(400, "bad_event", str(error)))
            return
        refused = self._pace.take()
        if refused is not None:
            await client.refuse(self._denials.bad(429, refused.code, refused.message))
            return
        await self._recorder.submit(event)
        await client.refuse(_json({"recorded": True}))


def _json(document: JsonObject) -> Answer:
    return Answer(status=200, headers=((b"Content-Type", b"application/json"),), body=encode(document) + b"\n")


async def read_event(body: RequestBody) -> Event:
    """The event that a request asserts. Raises UsageError with what is wrong, ClientGoneError, WireError."""
    raw = b""
    while data := await body.read():
        raw += data
        if len(raw) > MAX_EVENT:
            raise UsageError(f"an event has at most {MAX_EVENT} bytes")
    return parse_event(raw)


def parse_event(raw: bytes) -> Event:
    """``{"type": "note" | "tool.call" | "tool.result", ...}``: what else it says is kept as the private ``said``.

    Agent-supplied objects stand only inside private values (evidence format section 1): what has no canonical form, or
    would stand too deep, is kept as its bytes. Raises UsageError.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the body is not JSON: {error.msg}") from error
    if not isinstance(document, dict):
        raise UsageError("the body is not a JSON object")
    named = document.pop("type", None)
    kind = _KINDS.get(named) if isinstance(named, str) else None
    if kind is None:
        raise UsageError("type must be note, tool.call or tool.result")
    return kind(by="agent", private={"said": _kept(document, raw)} if document else {})


def _kept(document: dict[str, Json], raw: bytes) -> Json:
    if is_canonical([[[document]]]):  # where it will stand: below the event, its private members, and one of those
        return document
    return {"base64": b64encode(raw).decode(), "sha256": sha256_hex(raw)}
