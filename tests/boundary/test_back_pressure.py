"""One side does not read: the other waits, nothing is heaped up, other calls go on; a pause is nobody's silence."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docket.boundary.http1.upstream import Limits
from docket.ledger.events import Forwarded
from docket.primitives.frames import TEXT, MessageReader, encode_message
from kit.boundary import Record, Stage, raw_upstream, read_request, run, stage
from kit.processes import until

INPUTS = Path(__file__).parents[1] / "fixtures/back_pressure"
SIZE = 48 * 1024 * 1024
"""Far more than every buffer on the way takes: the kernel's for two connections, and docket's."""
ON_THE_WAY = SIZE // 2
SILENCE = 0.3
LIMITS = Limits(silence=SILENCE)
STREAM = b'{"model":"gpt-4o","stream":true,"messages":[]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"c1","model":"gpt-4o","choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % (b"x" * 65_000)
LAST = b'data: {"id":"c1","model":"gpt-4o","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":500000}}\n\n'
END = LAST + b"data: [DONE]\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Hose:
    """An upstream that sends ``SIZE`` bytes of an event stream as fast as they are taken; other calls it answers."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, body = await read_request(reader)
        if body != STREAM:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            return
        writer.write(HEAD)
        while self.sent < SIZE:
            writer.write(chunk(EVENT))
            await writer.drain()
            self.sent += len(EVENT)
        writer.write(chunk(END) + b"0\r\n\r\n")
        await writer.drain()


async def ordinary_calls_until_still(on: Stage, count: Callable[[], int], pause: float = 3 * SILENCE) -> None:
    """Make ordinary calls, one behind the other, until ``count`` has stood still for ``pause`` seconds."""
    clock = asyncio.get_running_loop()
    last, since = -1, 0.0
    while last != count() or clock.time() - since < pause:
        if last != count():
            last, since = count(), clock.time()
        async with asyncio.timeout(1):
            assert (await on.call("/v1/chat/completions", b'{"model":"m","messages":[]}')).status == 200


def connection(on: Stage) -> socket.socket:
    """A connection to the boundary that the kernel reads little ahead of."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    one.connect(("127.0.0.1", on.boundary.port))
    one.setblocking(False)
    return one


def request(on: Stage, path: str, body: bytes) -> bytes:
    head = f"POST {on.prefix.decode()}/up{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def memory() -> int:
    return resident_of(os.getpid())


def digest_of(chunked: bytes) -> str:
    """SHA-256 of a body in chunks."""
    digest, at = hashlib.sha256(), 0
    while at < len(chunked):
        start = chunked.index(b"\r\n", at) + 2
        end = start + int(chunked[at:start], 16)
        digest.update(memoryview(chunked)[start:end])
        at = end + 2
    return digest.hexdigest()


def test_an_agent_that_does_not_read_or_a_byte_at_a_time_holds_back_its_own_answer_alone() -> None:
    async def play() -> tuple[Record, bytes]:
        hose = Hose()
        async with raw_upstream(hose) as url, stage(url, limits=LIMITS) as on:
            loop = asyncio.get_running_loop()
            with connection(on) as agent:
                before = memory()
                await loop.sock_sendall(agent, request(on, "/v1/chat/completions", STREAM))
                got = bytearray(await loop.sock_recv(agent, 1))
                await ordinary_calls_until_still(on, lambda: hose.sent)
                for _ in range(20):
                    got += await loop.sock_recv(agent, 1)
                    await ordinary_calls_until_still(on, lambda: hose.sent, pause=0.02)
                assert hose.sent < ON_THE_WAY
                assert memory() - before < 16 * 1024 * 1024
                assert on.admission.open
                while not got.endswith(b"\r\n0\r\n\r\n"):
                    got += await loop.sock_recv(agent, 1 << 20)
            await on.record.until(Record.calls_ended_once)
        return on.record, bytes(got).partition(b"\r\n\r\n")[2]

    record, body = run(play())
    (end,) = [end for end in record.ends() if end.model == "gpt-4o"]
    assert end.reason == "complete"
    assert end.usage is not None
    assert [(item.kind, item.quantity) for item in end.usage.items] == [("input", 10), ("output", 500_000)]
    whole = EVENT * -(-SIZE // len(EVENT)) + END
    assert digest_of(body) == hashlib.sha256(whole).hexdigest() == end.private["response_sha256"]


def test_an_agent_that_leaves_without_having_read_frees_the_upstream_as_one_call_client_gone() -> None:
    async def play() -> Record:
        hose, closed = Hose(), asyncio.Event()

        async def watched(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await hose(reader, writer)
            finally:
                if hose.sent:
                    closed.set()

        async with raw_upstream(watched) as url, stage(url, limits=LIMITS) as on:
            loop = asyncio.get_running_loop()
            with connection(on) as agent:
                await loop.sock_sendall(agent, request(on, "/v1/chat/completions", STREAM))
                await loop.sock_recv(agent, 1)
                await ordinary_calls_until_still(on, lambda: hose.sent)
            async with asyncio.timeout(2):
                await closed.wait()
            assert hose.sent < ON_THE_WAY
            await on.record.until(Record.calls_ended_once)
        return on.record

    record = run(play())
    assert [end.reason for end in record.ends() if end.reason != "complete"] == ["client-gone"]


def test_an_agent_that_does_not_read_its_websocket_holds_back_its_own_answer_alone() -> None:
    delta = encode_message(TEXT, b'{"type":"response.output_text.delta","delta":"%s"}' % (b"x" * 65_000))
    usage = {"input_tokens": 10, "output_tokens": 500_000, "total_tokens": 500_010}
    completed = {"id": "resp_1", "model": "gpt-4o", "status": "completed", "output": [], "usage": usage}
    last = encode_message(TEXT, json.dumps({"type": "response.completed", "response": completed}).encode())  # noqa: TID251
    sent = 0

    async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        head, _ = await read_request(reader)
        if not head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            return
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        await reader.read(1)
        while sent < SIZE:
            writer.write(delta)
            await writer.drain()
            sent += len(delta)
        writer.write(last)
        await reader.read()

    async def play() -> tuple[Record, str]:
        async with raw_upstream(provider) as url, stage(url, limits=LIMITS) as on:
            loop = asyncio.get_running_loop()
            with connection(on) as agent:
                upgrade = f"GET {on.prefix.decode()}/up/v1/responses HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                upgrade += "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n\r\n"
                create = b'{"type":"response.create","model":"gpt-4o","input":"hi"}'
                await loop.sock_sendall(agent, upgrade.encode() + encode_message(TEXT, create, b"\1\2\3\4"))
                before = memory()
                got = await loop.sock_recv(agent, 1)
                await ordinary_calls_until_still(on, lambda: sent)
                assert sent < ON_THE_WAY
                assert memory() - before < 16 * 1024 * 1024
                while b"\r\n\r\n" not in got:
                    got += await loop.sock_recv(agent, 1)
                reader, digest = MessageReader(1 << 20), hashlib.sha256()
                last_seen = b""
                while b"response.completed" not in last_seen[:100]:
                    data = await loop.sock_recv(agent, 1 << 20)
                    assert data, on.record.ends()
                    for message in reader.feed(data):
                        digest.update(message.payload)
                        last_seen = message.payload
            await on.record.until(Record.calls_ended_once)
        return on.record, digest.hexdigest()

    record, digest = run(play())
    (end,) = [end for end in record.ends() if end.model == "gpt-4o"]
    assert end.reason == "complete"
    assert end.usage is not None
    assert [(item.kind, item.quantity) for item in end.usage.items] == [("input", 10), ("output", 500_000)]
    assert end.private["response_sha256"] == digest


@pytest.mark.parametrize("path", ["/v1/moderations", "/v1/files"])
def test_an_upload_that_the_upstream_does_not_read_holds_back_nobody_else(path: str) -> None:
    """One goes on as it comes; the other may be billed, so it is read whole, into a file, before it goes on."""
    go_on = asyncio.Event()
    taken = hashlib.sha256()

    async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST /v1/chat"):
            await reader.readexactly(len(b'{"model":"m","messages":[]}'))
        else:
            await go_on.wait()
            left = SIZE
            while left:
                data = await reader.read(1 << 20)
                taken.update(data)
                left -= len(data)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    async def play() -> None:
        async with raw_upstream(provider) as url, stage(url) as on:  # one that takes nothing for long is silent
            loop, sent, piece = asyncio.get_running_loop(), 0, bytes(range(256)) * 256
            with connection(on) as agent:
                before = memory()
                head = f"POST {on.prefix.decode()}/up{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {SIZE}\r\n\r\n"
                await loop.sock_sendall(agent, head.encode())

                async def upload() -> None:
                    nonlocal sent
                    while sent < SIZE:
                        await loop.sock_sendall(agent, piece)
                        sent += len(piece)

                async with asyncio.TaskGroup() as uploading:
                    uploading.create_task(upload())
                    await ordinary_calls_until_still(on, lambda: sent)
                    assert (sent == SIZE) == (path == "/v1/files")
                    assert memory() - before < 16 * 1024 * 1024
                    go_on.set()
                assert (await loop.sock_recv(agent, 1 << 16)).startswith(b"HTTP/1.1 200 ")
        assert taken.hexdigest() == hashlib.sha256(piece * (SIZE // len(piece))).hexdigest()

    run(play())


def test_an_agent_that_pauses_in_its_upload_is_no_silence_of_the_upstream() -> None:
    async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    async def play() -> Record:
        async with raw_upstream(provider) as url, stage(url, limits=LIMITS) as on:
            reader, writer = await on.connect()
            head = f"POST {on.prefix.decode()}/up/v1/moderations HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
            writer.write(head.encode() + b"{")
            await ordinary_calls_until_still(on, lambda: 0)
            writer.write(b"}")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.close()
            await on.record.until(lambda record: record.of(Forwarded))
        return on.record

    (forwarded,) = run(play()).of(Forwarded)
    assert (forwarded.status, forwarded.reason) == (200, None)


@pytest.mark.long
def test_three_hundred_megabytes_wait_for_an_agent_that_reads_nothing_for_twenty_seconds(tmp_path: Path) -> None:
    """The case as it was handed in, with real processes: firehose, docket, lazy client."""
    (tmp_path / "docket.toml").write_text("[resilience]\nupstream_timeout = 5\n")
    env = {**os.environ, "LAZY": "20"}
    firehose = [sys.executable, str(INPUTS / "firehose.py"), "300"]
    with subprocess.Popen(firehose, stdout=subprocess.PIPE, text=True) as hose:
        assert hose.stdout is not None
        port, sent = hose.stdout.readline().split()[1], [0]
        lines = threading.Thread(target=lambda: sent.extend(int(line.split()[1]) for line in hose.stdout or ()))
        lines.start()
        command = [sys.executable, "-m", "docket", "run", "--upstream", f"openai=http://127.0.0.1:{port}/v1", "--"]
        agent = [sys.executable, str(INPUTS / "lazy_client.py")]
        with subprocess.Popen([*command, *agent], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as docket:
            assert docket.stdout is not None
            assert docket.stdout.readline().startswith("head at ")
            resident = [resident_of(docket.pid)]
            while until(lambda: len(sent) > len(resident), patience=5) and docket.poll() is None:
                resident.append(resident_of(docket.pid))
            printed = docket.stdout.read()
            assert docket.wait(60) == 0
        hose.terminate()
        lines.join()
    assert max(resident) - resident[0] < 64 * 1024 * 1024
    assert sent[5] == sent[15] < 32 * 1024 * 1024
    (line,) = [line for line in events(tmp_path) if line["type"] == "model.response"]
    data, digest = line["data"], line["private"]["response_sha256"]["value"]
    assert printed.split()[:4] == ["bytes", str(data["bytes"]), "sha256", digest]
    assert data["reason"] == "complete"
    assert [(item["kind"], item["quantity"]) for item in data["usage"]["items"]] == [("input", 10), ("output", 500_000)]


def resident_of(pid: int) -> int:
    """Resident bytes of a process; 0 once it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def events(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / ".docket/latest/ledger.jsonl").read_text().splitlines()]
