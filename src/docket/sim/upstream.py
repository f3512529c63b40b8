"""A scripted provider: answers like OpenAI, Anthropic, Gemini and Ollama, on loopback, with faults on demand.

``python -m docket.sim.upstream`` prints its URL and serves until it is stopped. Whatever it does follows from its
script and the requests, so that a trial can be repeated; nothing is random.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import orjson

from docket.sim.answers import Asked, Spoken, Step, failure, speak
from docket.sim.sockets import accept, converse

MAX_HEAD = 512 * 1024
"""Longest request head taken."""
MAX_SEEN = 10_000
"""Requests remembered for ``GET /sim/requests``."""
STEP_HEADER = "x-sim-step"


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came in, and the tokens that its answer stated."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    tokens: tuple[int, int]


@dataclass(slots=True)
class Script:
    """Steps in order; the last one goes on for ever."""

    steps: Sequence[Step] = (Step(times=0),)
    _at: int = 0
    _used: int = 0

    def next(self) -> Step:
        """The step for the next request."""
        step = self.steps[min(self._at, len(self.steps) - 1)]
        self._used += 1
        if step.times and self._used >= step.times and self._at < len(self.steps) - 1:
            self._at, self._used = self._at + 1, 0
        return step


def step_of(document: Any) -> Step:
    """A step from its JSON object. Raises ValueError that names what is not understood."""
    known = {member.name for member in fields(Step)}
    if not isinstance(document, dict) or not set(document) <= known:
        unknown = sorted(set(document) - known) if isinstance(document, dict) else document
        raise ValueError(f"not a step: {unknown} (members are {', '.join(sorted(known))})")
    return Step(**document)


@dataclass(slots=True)
class ScriptedProvider:
    """The provider as a server in this process."""

    script: Script = field(default_factory=Script)
    seen: list[Seen] = field(default_factory=list)
    count: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> str:
        """Listen; gives the URL without a final slash."""
        self._server = await asyncio.start_server(self._serve, host, port, backlog=1024, limit=MAX_HEAD)
        bound = self._server.sockets[0].getsockname()[1]
        return f"http://{host}:{bound}"

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        if self._open:
            await self._idle.wait()

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens that all answers stated."""
        return sum(seen.tokens[0] for seen in self.seen), sum(seen.tokens[1] for seen in self.seen)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self._idle.clear()
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            writer.close()
            if not self._open:
                self._idle.set()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        raw = await reader.readuntil(b"\r\n\r\n")
        line, *rest = raw[:-4].decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ", 2)
        headers = tuple((name, value.strip()) for name, _, value in (field.partition(":") for field in rest))
        named = {name.lower(): value for name, value in headers}
        if named.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body(reader, named)
        if target == "/sim/requests":
            writer.write(_answer(200, "application/json", self._report()))
            return True
        accepted = accept(named)
        if accepted is not None:
            writer.write(accepted)
            await converse(reader, writer, lambda message: self._said(target, headers, message))
            return False
        self.count += 1
        step = step_of(orjson.loads(named[STEP_HEADER])) if STEP_HEADER in named else self.script.next()
        asked = Asked(target.partition("?")[0], len(body), _document(body), self.count)
        spoken = speak(asked, step)
        if len(self.seen) < MAX_SEEN:
            self.seen.append(Seen(method, target, headers, body, spoken.tokens if step.status < 300 else (0, 0)))
        await asyncio.sleep(step.latency_ms / 1000)
        if step.status >= 300:
            spoken = replace(
                spoken, content_type="application/json", events=(failure(asked.path, step.status),), streamed=False
            )
        if step.body is not None:
            spoken = replace(spoken, events=(step.body.encode(),), streamed=False)
        return await _deliver(reader, writer, method, step, spoken)

    def _said(self, target: str, headers: tuple[tuple[str, str], ...], message: bytes) -> Spoken:
        """The answer to one message of a WebSocket."""
        self.count += 1
        asked = Asked(target.partition("?")[0], len(message), _document(message) | {"stream": True}, self.count)
        step = self.script.next()
        spoken = speak(asked, step)
        if step.status >= 300:
            error = orjson.loads(failure(asked.path, step.status))["error"]
            event = b"data: " + orjson.dumps({"type": "error", "status": step.status, "error": error})
            spoken = replace(spoken, events=(event,), tokens=(0, 0))
        if len(self.seen) < MAX_SEEN:
            self.seen.append(Seen("WS", target, headers, message, spoken.tokens))
        return spoken

    def _report(self) -> bytes:
        given, made = self.tokens
        shown = [{"method": seen.method, "target": seen.target, "bytes": len(seen.body)} for seen in self.seen]
        return orjson.dumps({"count": self.count, "input_tokens": given, "output_tokens": made, "requests": shown})


async def _deliver(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, step: Step, spoken: Spoken
) -> bool:
    """Send an answer, or fail as the step says; whether the connection goes on."""
    if step.fault == "reset":
        writer.transport.abort()
        return False
    if step.fault == "close":
        return False
    if step.fault == "hang":
        await reader.read()  # until the client gives up
        return False
    headers = [f"{name}: {value}" for name, value in step.headers.items()]
    if not spoken.streamed:
        body = spoken.events[0]
        whole = _answer(step.status, spoken.content_type, body, headers, bodiless=method == "HEAD")
        if step.fault == "cut":
            writer.write(whole[: len(whole) - max(1, len(body) // 2)])
            await writer.drain()
            return False
        writer.write(whole)
        await writer.drain()
        return True
    framing = [f"Content-Type: {spoken.content_type}", "Transfer-Encoding: chunked", *headers]
    writer.write(_head(step.status, framing))
    events = spoken.events[: len(spoken.events) // 2] if step.fault == "cut" else spoken.events
    for event in events:
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        if step.pace_ms:
            await writer.drain()
            await asyncio.sleep(step.pace_ms / 1000)
    if step.fault == "cut":
        await writer.drain()
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _head(status: int, lines: Iterable[str]) -> bytes:
    reason = {200: "OK", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}.get(status, "Status")
    return f"HTTP/1.1 {status} {reason}\r\n{''.join(line + chr(13) + chr(10) for line in lines)}\r\n".encode("latin-1")


def _answer(
    status: int, content_type: str, body: bytes, headers: Iterable[str] = (), *, bodiless: bool = False
) -> bytes:
    lines = [f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return _head(status, lines) + (b"" if bodiless else body)


async def _body(reader: asyncio.StreamReader, named: dict[str, str]) -> bytes:
    if "chunked" in named.get("transfer-encoding", "").lower():
        parts = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while (await reader.readline()).strip():
            pass
        return b"".join(parts)
    return await reader.readexactly(int(named.get("content-length", "0")))


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


EPILOG = """\
The URL is printed on the first line of output. Point a client at it:

  python -m docket.sim.upstream --port 8999 &
  OPENAI_BASE_URL=http://127.0.0.1:8999/v1 python agent.py
  ANTHROPIC_BASE_URL=http://127.0.0.1:8999 python agent.py
  docket run --upstream openai=http://127.0.0.1:8999/v1 -- python agent.py

A script is a JSON list of steps, used in order, the last one for ever:

  [{"text": "one two three", "output_tokens": 1200, "times": 2},
   {"status": 529, "headers": {"retry-after": "2"}},
   {"fault": "cut"},
   {"tool": "get_weather", "tool_arguments": {"city": "Berlin"}}]

Members: status, text, model, input_tokens, output_tokens, cache_read, cache_write_5m, cache_write_1h, tool,
tool_arguments, latency_ms, pace_ms (between the events of a stream), headers, body (sent as it stands), times, and
fault: reset and close (before the head), hang, cut (mid-body), error-event, no-terminator, no-usage.
A request may bring its own step in the header X-Sim-Step. GET /sim/requests shows what came in and the tokens stated.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Gives its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m docket.sim.upstream",
        description="A scripted provider on loopback, for trials without a real one.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument("--script", type=Path, help="JSON file with a list of steps")
    for member in ("text", "fault", "model"):
        parser.add_argument(f"--{member}", help=f"{member} of every answer, without a script")
    for member in ("input_tokens", "output_tokens", "latency_ms", "pace_ms", "status"):
        flag = "--" + member.replace("_", "-")
        parser.add_argument(flag, type=int, help=f"{member} of every answer, without a script")
    options = vars(parser.parse_args(arguments))
    path, port = options.pop("script"), options.pop("port")
    given = {name: value for name, value in options.items() if value is not None}
    try:
        steps = [step_of(step) for step in orjson.loads(path.read_bytes())] if path else [step_of(given | {"times": 0})]
    except (OSError, ValueError, TypeError) as error:
        parser.error(f"--script: {error}")
    if not steps:
        parser.error("--script: the list of steps is empty")
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(port, steps))
    return 0


async def _run(port: int, steps: Sequence[Step]) -> None:
    url = await ScriptedProvider(Script(steps)).start(port)
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
