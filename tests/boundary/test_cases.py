"""Ways in which other boundaries were seen to break, each by its right outcome, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import socket
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from backports import zstd

from docket.boundary.http1 import body as bodies
from docket.boundary.http1.upstream import Limits
from docket.control.decision import Refused
from docket.ledger.events import CapExceeded, Forwarded, ModelDenied, Unauthorized
from docket.sim.answers import Step
from docket.sim.upstream import Script, ScriptedProvider
from kit.boundary import OpenAdmission, Record, Stage, parse, raw_upstream, read_request, run, stage

HTTP = Path(__file__).parents[1] / "fixtures" / "http"
CHAT = b'{"model": "m", "messages": []}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def post(on: Stage, body: bytes, *lines: str, path: str = "/v1/chat/completions") -> bytes:
    head = [f"POST /r/{on.boundary.token}/up{path} HTTP/1.1", "Host: x", *lines, f"Content-Length: {len(body)}"]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


class Keeper:
    """An upstream that keeps what it receives and always gives the same answer."""

    def __init__(self, answer: bytes = OK) -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            head, body = await read_request(reader)
            self.heads.append(head)
            self.bodies.append(body)
            writer.write(self.answer)
            await writer.drain()


def test_expect_100_continue() -> None:
    async def play() -> None:
        keeper = Keeper()
        head = (HTTP / "expect_head.raw").read_bytes()
        body = (HTTP / "expect_body.raw").read_bytes()
        async with raw_upstream(keeper) as url, stage(url) as on:
            line, _, rest = head.partition(b"\r\n")
            method, target, version = line.split(b" ")
            reader, writer = await on.connect()
            writer.write(b"%b %b/up%b %b\r\n%b" % (method, on.prefix, target, version, rest))
            async with asyncio.timeout(1):
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            final = await reader.readuntil(b"{}")
            assert final.startswith(b"HTTP/1.1 200 OK\r\n")
            assert final.count(b"HTTP/1.1") == 1
            assert keeper.bodies == [body]
            writer.close()

    run(play())


def test_a_refusal_may_come_without_reading_the_body() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            on.boundary.end_run()
            reader, writer = await on.connect()
            writer.write(post(on, b"", "Expect: 100-continue").replace(b"Length: 0", b"Length: 50"))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
            writer.close()

    run(play())


@pytest.mark.parametrize("coding", [b"gzip", b"zstd", b"gzip, deflate", b"unheard-of"])
def test_labels_and_bytes_stay_together(coding: bytes) -> None:
    async def play() -> None:
        body = gzip.compress(b'{"usage": {"prompt_tokens": 1, "completion_tokens": 2}}')
        answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (coding, len(body), body)
        async with raw_upstream(Keeper(answer)) as url, stage(url) as on:
            got = await on.call("/v1/chat/completions", CHAT, headers=[("Accept-Encoding", "gzip")])
            assert (got.body, got.header("content-encoding")) == (body, [coding.decode()])
            assert got.header("content-length") == [str(len(body))]

    run(play())


def test_long_heads_pass_both_ways() -> None:
    async def play() -> None:
        keeper = Keeper(b"HTTP/1.1 200 OK\r\nX-Long: %b\r\nContent-Length: 2\r\n\r\n{}" % (b"r" * 12000))
        async with raw_upstream(keeper) as url, stage(url) as on:
            long = [("anthropic-beta", "b" * 12000)]
            got = await on.call("/v1/chat/completions?q=" + "q" * 20000, CHAT, headers=long)
            assert got.header("x-long") == ["r" * 12000]
            assert b"b" * 12000 in keeper.heads[0]
            assert b"q" * 20000 in keeper.heads[0]

    run(play())


@pytest.mark.parametrize(
    ("target", "header", "status", "code"),
    [("x" * 70_000, "h", 414, "target_too_long"), ("x", "h" * 70_000, 431, "headers_too_long")],
)
def test_beyond_the_limit_is_a_json_error_and_an_event(target: str, header: str, status: int, code: str) -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            raw = f"GET /r/{on.boundary.token}/up/{target} HTTP/1.1\r\nHost: x\r\nX-Long: {header}\r\n\r\n"
            got = parse(await on.raw(raw.encode()))
            assert got.status == status
            assert json.loads(got.body)["error"]["docket"]["code"] == code
            assert [event.code for event in on.record.of(ModelDenied)] == [code]

    run(play())


def test_what_cannot_be_parsed_is_a_400_and_never_a_500() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            for raw in (
                b"\0\0\r\n\r\n",
                b"GET /\r\n\r\n",
                b"GET / HTTP/1.1\nHost: x\n\n",
                b"GET / HTTP/1.1\r\n: v\r\n\r\n",
            ):
                assert parse(await on.raw(raw)).status == 400
            assert on.record.of(Unauthorized)
            assert not on.record.of(ModelDenied)
            twice = f"GET /r/{on.boundary.token}/up/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"
            assert parse(await on.raw(twice.encode())).status == 400
            assert [event.code for event in on.record.of(ModelDenied)] == ["malformed_request"]
            chunked = post(on, b"zz\r\n", "Transfer-Encoding: chunked").replace(b"\r\nContent-Length: 4", b"")
            assert parse(await on.raw(chunked)).status == 400
            assert not on.fatal

    run(play())


def test_any_number_of_empty_lines_may_stand_before_a_request() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            asked = b"GET /r/%b/docket/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            answer = await on.raw(b"\r\n" * 50_000 + asked % on.boundary.token.encode())
            assert parse(answer).status == 404
            assert not on.fatal

    run(play())


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [5_000_000, 33_000_000])
def test_large_bodies_pass_byte_for_byte(size: int, chunked: bool) -> None:
    async def play() -> None:
        digests: list[str] = []

        async def digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            left, sha = size, hashlib.sha256()
            if b"chunked" in head:
                while count := int((await reader.readuntil(b"\r\n"))[:-2], 16):
                    sha.update((await reader.readexactly(count + 2))[:-2])
                await reader.readexactly(2)
            else:
                while left:
                    data = await reader.read(min(left, 1 << 20))
                    sha.update(data)
                    left -= len(data)
            digests.append(sha.hexdigest())
            writer.write(OK)
            await reader.read()

        body = b'{"model": "m", "x": "' + b"y" * (size - 23) + b'"}'
        async with raw_upstream(digest) as url, stage(url, family="anthropic") as on:
            raw = post(on, body, "Connection: close", path="/v1/messages")
            if chunked:
                head, _, _ = raw.partition(b"\r\nContent-Length")
                pieces = [body[i : i + 100_000] for i in range(0, size, 100_000)]
                coded = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
                raw = head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n\r\n"
            assert parse(await on.raw(raw)).status == 200
            assert digests == [hashlib.sha256(body).hexdigest()]
            (request,) = on.record.requests()
            assert (request.bytes, request.private["request_sha256"], request.model) == (size, digests[0], "m")

    run(play())


def test_over_the_bounds_are_413_and_429(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies.Shelf.__init__, "__defaults__", (300_000, 200_000))

    async def play() -> None:
        async with raw_upstream(Keeper()) as url, stage(url) as on:
            too_large = await on.call("/v1/chat/completions", b"x" * 200_001)
            assert (too_large.status, json.loads(too_large.body)["error"]["code"]) == (413, "body_too_large")
            for _ in range(4):  # what was held is given back
                assert (await on.call("/v1/chat/completions", b"x" * 150_000)).status == 200
            _, writer = await on.connect()
            writer.write(post(on, b"x" * 200_000)[:-1])  # never whole, so it is held
            while (busy := await on.call("/v1/chat/completions", b"x" * 150_000)).status == 200:
                pass
            assert (busy.status, busy.header("retry-after")) == (429, ["1"])
            writer.close()
            assert [event.final for event in on.record.of(ModelDenied)] == [True, False]

    run(play())


@pytest.mark.long
def test_64_mib_each_way_in_bounded_memory() -> None:
    """The answer and the request stream: what this process holds does not grow with them."""

    async def play() -> None:
        size = 64 * 1024 * 1024

        async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            left = size
            while left:
                left -= len(await reader.read(min(left, 1 << 18)))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size >> 18):
                writer.write(b"z" * (1 << 18))
                await writer.drain()
            await reader.read()

        async with raw_upstream(mirror) as url, stage(url) as on:
            reader, writer = await on.connect()
            tracemalloc.start()
            writer.write(post(on, b"", path="/v1/moderations").replace(b"Length: 0", b"Length: %d" % size))
            for _ in range(size >> 18):
                writer.write(b"y" * (1 << 18))
                await writer.drain()
            await reader.readuntil(b"\r\n\r\n")
            left = size
            while left:
                left -= len(await reader.read(1 << 18))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 16 * 1024 * 1024
            writer.close()

    run(play())


def test_a_stream_that_is_alive_outlives_every_limit_on_silence() -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(text="a b c d e f g h i j", pace_ms=60, times=0),)))
        url = await provider.start()
        async with stage(url, limits=Limits(silence=0.25)) as on:
            stream = b'{"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": []}'
            got = await on.call("/v1/chat/completions", stream)
            assert got.body.endswith(b"data: [DONE]\n\n")
            (end,) = on.record.ends()
            assert end.reason == "complete"
            assert end.duration_us is not None
            assert end.duration_us > 500_000
        await provider.close()

    run(play())


def test_silence_inside_a_stream_is_a_recorded_timeout() -> None:
    async def play() -> None:
        async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"9\r\ndata: {}\n\r\n")
            await reader.read()

        async with raw_upstream(stall) as url, stage(url, limits=Limits(silence=0.2)) as on:
            answer = await on.raw(post(on, CHAT))
            assert answer.endswith(b"9\r\ndata: {}\n\r\n")  # and no last chunk
            assert [end.reason for end in on.record.ends()] == ["timeout"]

    run(play())


def test_no_cookie_jar_and_no_lost_duplicates() -> None:
    async def play() -> None:
        lines = b"Set-Cookie: a=1\r\nX-Dup: 1\r\nSet-Cookie: b=2\r\nX-Dup: 2\r\n"
        keeper = Keeper(b"HTTP/1.1 200 OK\r\n%bContent-Length: 2\r\n\r\n{}" % lines)
        async with raw_upstream(keeper) as url, stage(url) as on:
            for _ in range(2):
                got = await on.call("/v1/chat/completions", CHAT)
                assert lines in got.head + b"\r\n"
            added = {line.split(b":")[0].lower() for line in keeper.heads[1].split(b"\r\n")[1:] if line}
            assert added == {b"host", b"content-length"}

    run(play())


def test_one_framing_and_no_hop_by_hop_fields() -> None:
    async def play() -> None:
        both = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\nProxy-Authenticate: x\r\n\r\n"
        keeper = Keeper(both + b"2\r\n{}\r\n0\r\nX-T: 1\r\n\r\n")
        async with raw_upstream(keeper) as url, stage(url) as on:
            hop = [
                ("Connection", "close, x-hop"),
                ("x-hop", "1"),
                ("TE", "trailers"),
                ("Trailer", "x"),
                ("Upgrade", "h2c"),
            ]
            got = await on.call(
                "/v1/chat/completions", CHAT, headers=[*hop, ("Proxy-Authorization", "x"), ("kept", "1")]
            )
            assert got.header("content-length") == []
            assert got.header("transfer-encoding") == ["chunked"]
            assert got.header("proxy-authenticate") == []
            sent = keeper.heads[0].lower()
            assert not any(
                b"\r\n%b:" % name in sent for name in (b"connection", b"x-hop", b"te", b"trailer", b"upgrade")
            )
            assert b"proxy-authorization" not in sent
            assert b"\r\nkept: 1\r\n" in sent

    run(play())


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body(status: int) -> None:
    async def play() -> None:
        keeper = Keeper(b"HTTP/1.1 %d X\r\nETag: 1\r\n\r\n" % status)
        async with raw_upstream(keeper) as url, stage(url) as on:
            reader, writer = await on.connect()
            for _ in range(2):  # the connection stays usable
                writer.write(f"GET /r/{on.boundary.token}/up/v1/models HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                assert head == b"HTTP/1.1 %d X\r\nETag: 1\r\n\r\n" % status
            writer.close()

    run(play())


def test_probes_and_side_endpoints() -> None:
    async def play() -> None:
        provider = ScriptedProvider()
        url = await provider.start()
        async with stage(url, family="anthropic") as on:
            rows = json.loads((HTTP / "probes.json").read_text())["rows"]
            for row in rows:
                before = len(on.record.requests())
                body = json.dumps(row["body"]).encode() if "body" in row else b""  # noqa: TID251 - a client's body
                headers = list(row.get("headers", {}).items())
                path = "" if row["path"] == "/" else row["path"]
                got = await on.call(path, body, row["method"], headers)
                assert got.status == 200, row
                assert (len(on.record.requests()) - before == 1) is row["counts_as_call"], row
                assert provider.seen[-1].target == row["path"]
                if row["method"] == "HEAD":
                    assert got.body == b""
            counted = next(seen for seen in provider.seen if "count_tokens" in seen.target)
            assert ("anthropic-beta", "token-counting-2024-11-01") in counted.headers
            assert len(on.record.of(Forwarded)) == sum(not row["counts_as_call"] for row in rows)
        await provider.close()

    run(play())


def test_compressed_requests_keep_bytes_and_label() -> None:
    async def play() -> None:
        document = json.loads((HTTP / "request_body.json").read_text())
        body = (HTTP / "request_body.zst").read_bytes()
        keeper = Keeper()
        label = [("content-encoding", "zstd"), ("content-type", "application/json")]
        async with raw_upstream(keeper) as url, stage(url) as on:
            assert (await on.call("/v1/responses", body, headers=label)).status == 200
            broken = body[:12] + bytes([body[12] ^ 0xFF]) + body[13:]
            assert (await on.call("/v1/responses", broken, headers=label)).status == 200
            bomb = zstd.compress(bytes(300 * 1024 * 1024))
            assert (await on.call("/v1/responses", bomb, headers=label)).status == 413
            models = [request.model for request in on.record.requests()]
            assert models == [document["expected"]["model_in_record"], "unknown"]
            assert keeper.bodies == [body, broken]
            assert b"content-encoding: zstd" in keeper.heads[0]

    run(play())


@pytest.mark.parametrize("depth", [900, 2_000, 20_000, 200_000])
def test_deep_nesting_passes_in_both_directions(depth: int) -> None:
    async def play() -> None:
        deep = b"[" * depth + b"]" * depth
        keeper = Keeper(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(deep), deep))
        async with raw_upstream(keeper) as url, stage(url) as on:
            got = await on.call("/v1/chat/completions", deep)
            assert (got.status, got.body, keeper.bodies) == (200, deep, [deep])
            (request,), (end,) = on.record.requests(), on.record.ends()
            assert request.private["request_sha256"] == hashlib.sha256(deep).hexdigest()
            assert (end.bytes, end.usage.source if end.usage else None) == (len(deep), "none")

    run(play())


def test_redirects_go_back_untouched_and_nothing_is_resent() -> None:
    async def play() -> None:
        keeper = Keeper(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/x\r\nContent-Length: 0\r\n\r\n"
        )
        async with raw_upstream(keeper) as url, stage(url) as on:
            got = await on.call("/v1/chat/completions", CHAT)
            assert (got.status, got.header("location")) == (307, ["http://127.0.0.1:9/x"])
            assert len(keeper.heads) == 1

    run(play())


def test_a_reused_connection_that_died_is_stale_and_the_post_is_not_resent() -> None:
    async def play() -> None:
        received: list[bytes] = []

        async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.append((await read_request(reader))[1])
            writer.write(OK)
            received.append((await read_request(reader))[1])
            writer.transport.abort()

        async with raw_upstream(once) as url, stage(url) as on:
            assert (await on.call("/v1/chat/completions", CHAT)).status == 200
            stale = await on.call("/v1/chat/completions", CHAT)
            assert (stale.status, json.loads(stale.body)["error"]["docket"]["code"]) == (502, "stale")
            assert received == [CHAT, CHAT]
            assert [end.reason for end in on.record.ends()] == ["complete", "stale"]

    run(play())


def test_connections_to_the_upstream_are_reused() -> None:
    async def play() -> None:
        keeper = Keeper()
        async with raw_upstream(keeper) as url, stage(url) as on:
            for _ in range(5):
                await on.call("/v1/chat/completions", CHAT)
            assert keeper.connections == 1

    run(play())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(text="first", latency_ms=50), Step(text="second", times=0))))
        url = await provider.start()
        async with stage(url) as on:
            answer = await on.raw(post(on, CHAT) + post(on, CHAT, "Connection: close"))
            assert answer.index(b"first") < answer.index(b"second")
            assert on.record.calls_ended_once()
        await provider.close()

    run(play())


def test_an_early_answer_to_a_body_still_being_sent() -> None:
    async def play() -> None:
        async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
            await reader.read()

        async with raw_upstream(early) as url, stage(url) as on:
            reader, writer = await on.connect()
            raw = post(on, b"first bytes", path="/v1/moderations")
            writer.write(raw.replace(b"Length: 11", b"Length: 5000000"))
            answer = await reader.readuntil(b"no")
            assert answer.startswith(b"HTTP/1.1 403 No\r\n")
            assert b"\r\nConnection: close\r\n" in answer
            writer.close()

    run(play())


def test_http_1_0_gets_no_chunks() -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(text="a b", times=0),)))
        url = await provider.start()
        async with stage(url) as on:
            stream = b'{"model": "m", "stream": true, "messages": []}'
            answer = await on.raw(post(on, stream).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head.lower()
            assert body.startswith(b"data: ")
            assert body.endswith(b"data: [DONE]\n\n")
        await provider.close()

    run(play())


def test_an_interim_answer_of_the_upstream_reaches_the_agent() -> None:
    async def play() -> None:
        keeper = Keeper(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK)
        async with raw_upstream(keeper) as url, stage(url) as on:
            answer = await on.raw(post(on, CHAT, "Connection: close"))
            assert answer.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n")

    run(play())


def test_an_answer_that_ends_with_its_connection_is_cut_by_a_reset() -> None:
    async def play() -> None:
        gone = asyncio.Event()

        async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
            await gone.wait()
            linger = struct.pack("ii", 1, 0)
            writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

        async with raw_upstream(breaks) as url, stage(url) as on:
            reader, writer = await on.connect()
            writer.write(post(on, CHAT))
            await reader.readuntil(b"{")
            gone.set()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
            assert [end.reason for end in on.record.ends()] == ["truncated"]

    run(play())


@pytest.mark.parametrize("answer", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"HTTP/1.1 2"])
def test_a_malformed_answer_is_a_502(answer: bytes) -> None:
    async def play() -> None:
        async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(answer)

        async with raw_upstream(broken) as url, stage(url) as on:
            assert (await on.call("/v1/chat/completions", CHAT)).status == 502
            await on.record.until(Record.ends)
            assert [end.reason for end in on.record.ends()] == ["truncated"]

    run(play())


def test_a_slow_reader_slows_the_upstream_and_costs_bounded_memory() -> None:
    async def play() -> None:
        sent = 0

        async def floods(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            for _ in range(1000):
                writer.write(b"z" * 100_000)
                await writer.drain()
                sent += 100_000

        async with raw_upstream(floods) as url, stage(url) as on:
            reader, writer = await asyncio.open_connection("127.0.0.1", on.boundary.port, limit=1000)
            writer.write(f"GET /r/{on.boundary.token}/up/v1/models HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            before = -1
            while sent != before:  # until everything on the way is full
                before = sent
                await asyncio.sleep(0.1)
            assert sent < 50_000_000
            got = 0
            while got < 100_000_000:
                got += len(await reader.read(1 << 20))
            assert sent == 100_000_000
            writer.close()

    run(play())


def test_content_and_a_clean_end_without_a_terminator_is_an_answer_with_finish_none() -> None:
    async def play() -> None:
        event = (
            b'data: {"model": "m", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": null}]}\n\n'
        )
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        keeper = Keeper(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event))
        async with raw_upstream(keeper) as url, stage(url) as on:
            got = await on.call("/v1/chat/completions", b'{"model": "m", "stream": true, "messages": []}')
            assert got.body == event
            (end,) = on.record.ends()
            assert (end.type, end.reason, end.finish) == ("model.response", "unterminated", "none")

    run(play())


def test_an_agent_that_leaves_after_the_end_event_frees_the_upstream() -> None:
    async def play() -> None:
        closed = asyncio.Event()

        async def never_ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n")
            with suppress(ConnectionResetError):
                await reader.read()
            closed.set()

        async with raw_upstream(never_ends) as url, stage(url) as on:
            reader, writer = await on.connect()
            writer.write(post(on, b'{"model": "m", "stream": true, "messages": []}'))
            await reader.readuntil(b"[DONE]\n\n")
            assert len(on.record.ends()) == 1  # recorded without waiting for the end of the body
            writer.close()
            await closed.wait()

    run(play())


def test_a_switch_of_protocols_that_nobody_asked_for_is_a_502() -> None:
    async def play() -> None:
        keeper = Keeper(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + OK)
        async with raw_upstream(keeper) as url, stage(url) as on:
            assert (await on.call("/v1/chat/completions", CHAT)).status == 502
            assert [end.reason for end in on.record.ends()] == ["truncated"]

    run(play())


def test_a_connection_with_bytes_that_nobody_asked_for_is_not_used_again() -> None:
    async def play() -> None:
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        for unasked in (chunked + OK, OK + OK):
            keeper = Keeper(unasked)
            async with raw_upstream(keeper) as url, stage(url) as on:
                for _ in range(3):
                    assert (await on.call("/v1/chat/completions", CHAT)).body == b"{}"
                assert keeper.connections == 3

    run(play())


def test_a_large_request_behind_a_slow_one_waits_and_passes() -> None:
    async def play() -> None:
        first_may_end = asyncio.Event()
        bodies: list[bytes] = []

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                bodies.append((await read_request(reader))[1])
                await first_may_end.wait()
                writer.write(OK)

        large = b"x" * 3_000_000
        async with raw_upstream(slow) as url, stage(url) as on:
            _, writer = await on.connect()
            writer.write(post(on, CHAT) + post(on, large))
            await on.record.until(Record.requests)
            first_may_end.set()
            await on.record.until(lambda record: len(record.ends()) == 2)
            assert bodies == [CHAT, large]
            writer.close()

    run(play())


def test_the_answer_to_a_body_that_is_too_large_survives_the_body() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            reader, writer = await on.connect()
            writer.write(post(on, b"").replace(b"Length: 0", b"Length: 999999999"))
            for _ in range(40):
                writer.write(b"x" * 100_000)
                await writer.drain()
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "body_too_large"
            writer.close()

    run(play())


def test_a_refusal_that_is_a_breach_is_recorded_and_acted_on_once_it_was_answered() -> None:
    async def play() -> None:
        breach = CapExceeded(cap="max_usd", limit="1", observed="1.2")
        refused = Refused(code="max_usd", message="no", breaches=(breach,))
        async with stage("http://127.0.0.1:9", admission=OpenAdmission(lambda _call: refused)) as on:
            assert (await on.call("/v1/chat/completions", CHAT)).status == 400
            assert on.breaches == [breach]
            assert on.record.of(CapExceeded) == [breach]

    run(play())
