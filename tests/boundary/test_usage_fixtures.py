"""The usage fixtures over real sockets: whole, cut, byte by byte, compressed, and with the agent leaving anywhere."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Callable, Sequence

import brotli
import pytest
from backports import zstd

from kit.boundary import Record, Stage, parse, raw_upstream, read_request, run, stage
from providers.fixtures import Fixture, cut, load

FIXTURES = load()
REASONS = {
    "complete": "complete",
    "incomplete": "incomplete",
    "error": "error-event",
    "truncated": "truncated",
    "unterminated": "unterminated",
}
SOURCES = {"provider": "reported", "partial": "partial", "none": "none"}
BIG = 100_000
"""Bodies above this are not sent byte by byte."""


class Provider:
    """Sends the given pieces, then ends as the fixture says; or waits for the agent to leave."""

    def __init__(self) -> None:
        self.head = b""
        self.pieces: Sequence[bytes] = ()
        self.end = "close"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(self.head)
            for piece in self.pieces:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
            if self.end == "reset":
                writer.transport.abort()
                return
            if self.end == "wait":
                await reader.read()
                return
            writer.write(b"0\r\n\r\n")


def head(fixture: Fixture, coding: str = "") -> bytes:
    fields = [(k, v) for k, v in fixture.headers if not coding or k.lower() != b"content-encoding"]
    fields += [(b"Transfer-Encoding", b"chunked"), *([(b"Content-Encoding", coding.encode())] if coding else [])]
    status = fixture.document["response"]["status"]
    return b"HTTP/1.1 %d OK\r\n" % status + b"".join(k + b": " + v + b"\r\n" for k, v in fields) + b"\r\n"


def request(on: Stage, fixture: Fixture) -> bytes:
    asked = fixture.document["request"]
    body = json.dumps(asked["body"]).encode()  # noqa: TID251 - a client's body, not a canonical document
    line = f"{asked['method']} /r/{on.boundary.token}/up{asked['path']} HTTP/1.1\r\nHost: x\r\n"
    return line.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def fetch(on: Stage, fixture: Fixture, *, clean: bool) -> bytes:
    """The whole body that the agent gets; of an answer that is cut, what came before."""
    reader, writer = await on.connect()
    writer.write(request(on, fixture))
    raw = b""
    try:
        while not (clean and raw.endswith(b"0\r\n\r\n")):
            data = await reader.read(65536)
            if not data:
                break
            raw += data
    except ConnectionResetError:
        pass
    writer.close()
    if not clean:
        raw += b"0\r\n\r\n"
    return parse(raw).body


def check(record: Record, fixture: Fixture) -> None:
    (end,) = record.ends()
    expected = fixture.expected
    assert end.reason == REASONS[expected["terminal"]]
    assert end.usage is not None
    assert end.usage.source == SOURCES[expected["usage_source"]]
    if end.usage.source == "none":
        assert end.usage.items == ()
        return
    found: dict[str, int] = {}
    for item in end.usage.items:
        kind = item.kind.removesuffix("_audio")
        found[kind] = found.get(kind, 0) + item.quantity
    kinds = ("cache_read", "cache_write_5m", "cache_write_1h", "output")
    assert [found.get(kind, 0) for kind in kinds] == [expected[f"{kind}_tokens"] for kind in kinds]
    assert found.get("input", 0) == expected["input_uncached_tokens"]
    assert found.get("web_search", 0) == expected["web_search_requests"]


def play(
    fixtures: Sequence[Fixture], pieces: Callable[[Fixture], Sequence[bytes]], coding: str = "", *, ending: bool = True
) -> None:
    async def scene() -> None:
        provider = Provider()
        async with raw_upstream(provider) as url:
            for family in sorted({fixture.family for fixture in fixtures}):
                async with stage(url, family=family) as on:
                    for fixture in (fixture for fixture in fixtures if fixture.family == family):
                        on.record.events.clear()
                        clean = fixture.clean
                        provider.head, provider.pieces = head(fixture, coding), pieces(fixture)
                        provider.end = "close" if clean else "reset"
                        got = await fetch(on, fixture, clean=clean)
                        await on.record.until(Record.ends)
                        whole = b"".join(provider.pieces)
                        assert got == whole if clean else whole.startswith(got), fixture.name
                        check(on.record, fixture)

    run(scene())


def test_whole() -> None:
    play(FIXTURES, lambda fixture: [fixture.sent])


def test_at_their_cuts() -> None:
    play(FIXTURES, lambda fixture: cut(fixture.sent, [at for at in fixture.cuts if 0 < at < len(fixture.sent)]))


def test_byte_by_byte() -> None:
    small = [fixture for fixture in FIXTURES if len(fixture.sent) < BIG]
    play(small, lambda fixture: [fixture.sent[i : i + 1] for i in range(len(fixture.sent))])


def deflated(body: bytes) -> bytes:
    return zlib.compress(body)


def raw_deflated(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(body) + compressor.flush()


def gzipped(body: bytes) -> bytes:
    return b"".join(zlib.compress(half, wbits=31) for half in (body[: len(body) // 2], body[len(body) // 2 :]))


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzipped),
    "deflate": ("deflate", deflated),
    "raw deflate": ("deflate", raw_deflated),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "gzip, br": ("gzip, br", lambda body: brotli.compress(gzipped(body))),
}


@pytest.mark.parametrize("name", CODINGS)
def test_compressed(name: str) -> None:
    coding, compress = CODINGS[name]
    whole = [fixture for fixture in FIXTURES if fixture.clean]

    def pieces(fixture: Fixture) -> list[bytes]:
        coded = compress(fixture.body)
        return [coded[i : i + 50] for i in range(0, len(coded), 50)] if len(coded) < BIG else [coded]

    play(whole, pieces, coding)


def test_an_unknown_coding_passes_and_its_usage_is_unknown() -> None:
    async def scene() -> None:
        provider, fixture = Provider(), FIXTURES[0]
        async with raw_upstream(provider) as url, stage(url, family=fixture.family) as on:
            for coding in ("rot13", "gzip, rot13"):
                on.record.events.clear()
                provider.head, provider.pieces = head(fixture, coding), [fixture.sent]
                assert await fetch(on, fixture, clean=True) == fixture.sent
                (end,) = on.record.ends()
                assert end.reason == "complete"
                assert end.usage is not None
                assert end.usage.source == "none"

    run(scene())


EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
STREAMED = [f for f in FIXTURES if f.clean and not f.name.startswith(("a12", "u18")) and EVENT_END.search(f.body)]


def test_the_agent_leaves_at_every_event() -> None:
    async def scene() -> None:
        provider = Provider()
        provider.end = "wait"
        async with raw_upstream(provider) as url:
            for family in sorted({fixture.family for fixture in STREAMED}):
                async with stage(url, family=family) as on:
                    for fixture in (fixture for fixture in STREAMED if fixture.family == family):
                        for match in EVENT_END.finditer(fixture.body):
                            await leave_after(on, provider, fixture, fixture.body[: match.end()])
                    assert not on.admission.open

    run(scene())


async def leave_after(on: Stage, provider: Provider, fixture: Fixture, seen: bytes) -> None:
    on.record.events.clear()
    provider.head, provider.pieces = head(fixture), [seen]
    reader, writer = await on.connect()
    writer.write(request(on, fixture))
    wire = b"%x\r\n%b\r\n" % (len(seen), seen)
    raw = b""
    while wire not in raw:
        raw += await reader.read(65536)
    writer.close()
    await on.record.until(Record.ends)
    (end,) = on.record.ends()
    assert end.reason in ("client-gone", "complete", "incomplete", "error-event")
    assert end.usage is not None
    expected = fixture.expected
    for item in end.usage.items:
        if item.kind == "output" and expected["output_tokens"] is not None:
            assert item.quantity <= expected["output_tokens"]
    if end.reason != "client-gone":
        assert REASONS[expected["terminal"]] == end.reason
