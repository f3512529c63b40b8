"""The same generated requests, directly and through the boundary: both ends must see the same bytes."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import h11
import pytest

from kit.boundary import raw_upstream, run, stage

SEEDS = range(8)
CASES = 50
"""Requests for each seed."""
HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"}
TARGETS = [
    b"/v1/chat/completions", b"/v1/models", b"/v1/messages?beta=true", b"/", b"/a//b/./c/../d", b"/%2F%3a%27+x;y=1",
    b"/q?a=1&a=2&&=&%zz", b"/v1/files/f%20x", b"/\xc3\xa9?\xff", b"/?", b"/v1/responses", b"/" + b"long/" * 4000,
]  # fmt: skip
NAMES = [
    b"X-A",
    b"x-a",
    b"X-Dup",
    b"anthropic-beta",
    b"Accept-ENCODING",
    b"Cookie",
    b"x-stainless-retry-count",
    b"User-Agent",
]
VALUES = [b"", b"1", b"a, b", b"\xc3\xa9", b"\xff\x80", b'"q"; x=1', b"v" * 12000, b"a\tb  c"]
RESPONSE_NAMES = [b"Set-Cookie", b"X-Dup", b"x-dup", b"Content-Type", b"request-id", b"Server", b"Date"]
Pairs = list[tuple[bytes, bytes]]


@dataclass
class Case:
    """One request and the answer that the upstream gives to it."""

    method: bytes
    target: bytes
    minor: int
    headers: Pairs
    body: bytes
    chunks: list[bytes] | None
    trailers: Pairs
    status: int
    response_headers: Pairs
    framing: str
    response: list[bytes]
    response_trailers: Pairs
    informational: list[int] = field(default_factory=list)

    def request(self, prefix: bytes, host: bytes) -> bytes:
        lines = [b"%b %b%b HTTP/1.%d" % (self.method, prefix, self.target, self.minor), b"Host: " + host]
        lines += [name + b": " + value for name, value in self.headers]
        if self.chunks is not None:
            lines.append(b"Transfer-Encoding: chunked")
            body = b"".join(b"%X;ext=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in self.chunks)
            body += b"0\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in self.trailers) + b"\r\n"
        else:
            body = self.body
            if body or self.method == b"POST":
                lines.append(b"Content-Length: %d" % len(body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    def answer(self) -> bytes:
        out = b"".join(b"HTTP/1.1 %d Wait\r\nLink: </x>\r\n\r\n" % status for status in self.informational)
        lines = [b"HTTP/1.1 %d Some Reason" % self.status]
        lines += [name + b": " + value for name, value in self.response_headers]
        body = b"".join(self.response)
        bodiless = self.method == b"HEAD" or self.status in (204, 304)
        if self.framing == "sized":
            lines.append(b"Content-Length: %d" % len(body))
        elif self.framing == "chunked":
            lines.append(b"Transfer-Encoding: chunked")
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in self.response)
            body += (
                b"0\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in self.response_trailers) + b"\r\n"
            )
        else:
            lines.append(b"Connection: close")
        return out + b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if bodiless else body)


def generate(rng: random.Random) -> Case:
    method = rng.choice([b"GET", b"POST", b"POST", b"POST", b"HEAD", b"DELETE", b"OPTIONS", b"PUT", b"PATCH", b"QUERY"])
    size = rng.choice([0, 1, 40, 40, 5000, 300_000])
    body = rng.choice([b'{"model": "m", "stream": true}', rng.randbytes(size)]) if method in (b"POST", b"PUT") else b""
    minor = 1 if rng.random() < 0.9 else 0
    chunked = minor == 1 and method in (b"POST", b"PUT") and rng.random() < 0.3
    headers = [(rng.choice(NAMES), rng.choice(VALUES)) for _ in range(rng.randrange(5))]
    if rng.random() < 0.3:
        headers += [(b"Connection", b"x-hop"), (b"x-hop", b"1"), (b"TE", b"trailers"), (b"Keep-Alive", b"5")]
    if body and minor and rng.random() < 0.2:
        headers.append((b"Expect", b"100-Continue"))
    status = rng.choice([200, 200, 200, 204, 304, 301, 404, 429, 500, 529])
    framing = rng.choice(["sized", "chunked", "close"]) if status not in (204, 304) else rng.choice(["sized", "none"])
    parts = [rng.randbytes(rng.choice([1, 30, 3000, 70_000])) for _ in range(rng.randrange(4))]
    return Case(
        method=method,
        target=rng.choice(TARGETS),
        minor=minor,
        headers=headers,
        body=body,
        chunks=[body[i : i + 1000] for i in range(0, min(len(body), 5000), 1000)] if chunked else None,
        trailers=[(b"X-Sum", b"abc"), (b"x-sum", b"d")] if chunked and rng.random() < 0.5 else [],
        status=status,
        response_headers=[(rng.choice(RESPONSE_NAMES), rng.choice(VALUES)) for _ in range(rng.randrange(5))],
        framing=framing,
        response=parts,
        response_trailers=[(b"X-After", b"1")] if framing == "chunked" and rng.random() < 0.4 else [],
        informational=rng.choice([[], [], [], [103], [102, 103]]),
    )


class Echo:
    """An upstream that notes what it receives and gives the answer of the current case, cut anywhere."""

    def __init__(self, rng: random.Random) -> None:
        self.case: Case | None = None
        self.received: list[bytes] = []
        self._rng = rng

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            case = self.case
            assert case is not None
            body = await self._body(head, reader)
            self.received.append(head + body)
            raw = case.answer()
            at = 0
            while at < len(raw):
                step = self._rng.choice([1, 17, 200, 100_000])
                writer.write(raw[at : at + step])
                at += step
                if step < 1000 and at < 500:
                    await writer.drain()
                    await asyncio.sleep(0)
            await writer.drain()
            if case.framing == "close" and case.status not in (204, 304):
                return

    async def _body(self, head: bytes, reader: asyncio.StreamReader) -> bytes:
        lower = head.lower()
        if b"\r\ntransfer-encoding: chunked" in lower:
            body = b""
            while True:
                line = await reader.readuntil(b"\r\n")
                size = int(line.split(b";")[0], 16)
                if size == 0:
                    trailers = b""
                    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
                        trailers += line
                    return body + b"|" + trailers
                body += (await reader.readexactly(size + 2))[:-2]
        if b"\r\ncontent-length: " in lower:
            start = lower.index(b"\r\ncontent-length: ") + 18
            return await reader.readexactly(int(lower[start : lower.index(b"\r", start)]))
        return b""


@dataclass
class View:
    """What one end saw, hop-by-hop fields taken off."""

    first: bytes
    fields: Pairs
    body: bytes
    trailers: Pairs
    before: list[int]


def fields_of(section: bytes) -> Pairs:
    pairs = [line.partition(b": ") for line in section.split(b"\r\n") if line]
    named = {part.strip().lower() for k, _, v in pairs if k.lower() == b"connection" for part in v.split(b",")}
    return [(k, v) for k, _, v in pairs if k.lower() not in HOP | named]


def upstream_view(raw: bytes) -> View:
    head, _, body = raw.partition(b"\r\n\r\n")
    line, _, section = head.partition(b"\r\n")
    return View(line.rpartition(b" ")[0], fields_of(section), body, [], [])


def client_view(raw: bytes, method: bytes) -> View:
    before = []
    while True:
        head, _, raw = raw.partition(b"\r\n\r\n")
        line, _, section = head.partition(b"\r\n")
        status = int(line.split(b" ")[1])
        if status >= 200:
            break
        if status != 100:  # who answers 100 Continue is a matter of each hop
            before.append(status)
    body, trailers = raw, b""
    if b"transfer-encoding: chunked" in section.lower() and method != b"HEAD":
        body = b""
        while raw:
            size, _, raw = raw.partition(b"\r\n")
            count = int(size, 16)
            if count == 0:
                trailers = raw
                break
            body, raw = body + raw[:count], raw[count + 2 :]
    # HTTP/1.0 has no chunks: the body ends with the connection instead
    fields = [pair for pair in fields_of(section) if pair[0].lower() != b"transfer-encoding"]
    return View(line, fields, body, fields_of(trailers), before)


async def ask(port: int, raw: bytes) -> bytes:
    """Send one request and read its whole answer, as the peer that decides when it is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(raw)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return answer


def closing(raw: bytes) -> bytes:
    """The request asks for the end of the connection, so that a whole answer is what comes before it."""
    line, _, rest = raw.partition(b"\r\n")
    return line + b"\r\nConnection: close\r\n" + rest


def h11_view(raw: bytes, method: bytes) -> tuple[int, Pairs, bytes, Pairs]:
    """What h11, as a client, makes of an answer."""
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**22)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(raw)
    client.receive_data(b"")
    status, fields, body = 0, [], b""
    while True:
        event = client.next_event()
        if isinstance(event, h11.Response):
            status, fields = event.status_code, [(k, v) for k, v in event.headers.raw_items() if k.lower() not in HOP]
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return status, fields, body, [(k, v) for k, v in event.headers.raw_items()]
        elif not isinstance(event, h11.InformationalResponse):
            raise AssertionError(f"h11 sees {event!r}")


@pytest.mark.parametrize("seed", SEEDS)
def test_both_ends_see_the_same_bytes_as_without_the_boundary(seed: int) -> None:
    rng = random.Random(seed)

    async def play() -> None:
        echo = Echo(rng)
        async with raw_upstream(echo) as url, stage(url) as on:
            port = int(url.rpartition(":")[2])
            host = b"127.0.0.1:%d" % port
            for number in range(CASES):
                case = echo.case = generate(rng)
                where = f"seed {seed} case {number}: {case.method!r} {case.target[:60]!r} {case.framing} {case.status}"
                echo.received.clear()
                # the echo does not close by itself, so the direct answer is read up to its known length
                direct = await direct_answer(port, case.request(b"", host), case)
                through = await ask(on.boundary.port, closing(case.request(on.prefix + b"/up", b"boundary")))
                first, second = (upstream_view(raw) for raw in echo.received)
                assert second == first, where
                expected, seen = client_view(direct, case.method), client_view(through, case.method)
                if case.minor == 0:
                    expected.before, expected.trailers = [], []
                assert seen == expected, where
                if case.minor == 1:
                    theirs, ours = h11_view(direct, case.method), h11_view(through, case.method)
                    assert ours == theirs, where
            assert on.record.calls_ended_once()

    run(play())


async def direct_answer(port: int, raw: bytes, case: Case) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(raw)
    answer = await reader.readexactly(len(case.answer()))
    writer.close()
    return answer
