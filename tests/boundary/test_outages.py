"""Every way in which an upstream fails, over real sockets: what the agent sees, and what the breaker makes of it."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from docket.boundary.http1.upstream import Limits
from docket.control.breaker import Verdict, judge
from kit.boundary import raw_upstream, read_request, run, stage

CHAT = json.dumps({"model": "m", "messages": []}).encode()  # noqa: TID251 (a client's own)
STREAM = json.dumps({"model": "m", "stream": True, "messages": []}).encode()  # noqa: TID251 (a client's own)
LIMITS = Limits(connect=0.5, silence=0.3)
DELTA = b'data: {"model": "m", "choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answering(*pieces: bytes, then: str = "close") -> Serve:
    """An upstream that reads one request, sends ``pieces``, and then closes, resets or stays silent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
        await writer.drain()
        if then == "silence":
            await reader.read()
        elif then == "reset":
            writer.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
            )
            writer.transport.abort()

    return serve


def status(code: int, body: bytes = b"{}", extra: bytes = b"") -> Serve:
    head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n" % (code, extra, len(body))
    return answering(head + body)


OVERLOADED = b'{"error": {"type": "overloaded_error", "message": "busy"}}'
BROKEN = b'data: {"error": {"type": "server_error", "message": "oops"}}\n\n'
OUTAGES: dict[str, tuple[Serve, int, str, Verdict]] = {
    "reset before the head": (answering(then="reset"), 502, "truncated", Verdict.BLIND),
    "closed before the head": (answering(), 502, "truncated", Verdict.BLIND),
    "no HTTP": (answering(b"SSH-2.0-OpenSSH\r\n\r\n"), 502, "truncated", Verdict.BLIND),
    "silence before the head": (answering(then="silence"), 504, "timeout", Verdict.BLIND),
    "silence in a stream": (answering(STREAM_HEAD, chunk(DELTA), then="silence"), 200, "timeout", Verdict.BLIND),
    "cut in a stream": (answering(STREAM_HEAD, chunk(DELTA)), 200, "truncated", Verdict.BLIND),
    "reset in a stream": (answering(STREAM_HEAD, chunk(DELTA), then="reset"), 200, "truncated", Verdict.BLIND),
    "broken framing": (answering(STREAM_HEAD, chunk(DELTA), b"zz\r\n"), 200, "truncated", Verdict.BLIND),
    "500": (status(500), 500, "status", Verdict.BLIND),
    "503 alone": (status(503), 503, "status", Verdict.BLIND),
    "503 with a hint": (status(503, extra=b"Retry-After: 2\r\n"), 503, "status", Verdict.INFORMED),
    "503 overloaded": (status(503, OVERLOADED), 503, "status", Verdict.INFORMED),
    "529": (status(529, OVERLOADED), 529, "status", Verdict.INFORMED),
    "429": (status(429), 429, "status", Verdict.INFORMED),
    "401": (status(401), 401, "status", Verdict.INFORMED),
    "error event in a 200 stream": (
        answering(STREAM_HEAD, chunk(BROKEN), b"0\r\n\r\n"),
        200,
        "error-event",
        Verdict.BLIND,
    ),
    "clean end without terminator": (
        answering(STREAM_HEAD, chunk(DELTA), b"0\r\n\r\n"),
        200,
        "unterminated",
        Verdict.NEUTRAL,
    ),
}


@pytest.mark.parametrize("name", OUTAGES)
def test_outage(name: str) -> None:
    serve, seen, reason, verdict = OUTAGES[name]

    async def play() -> None:
        async with raw_upstream(serve) as url, stage(url + "/v1", limits=LIMITS) as on:
            raw = await on.call("/v1/chat/completions", STREAM)
            assert raw.status in (seen, 0), (
                "0: the head was still held back when the answer broke, and nothing went out"
            )
            (end,) = on.record.ends()
            assert end.reason == reason
            (ended, _) = on.admission.ended[0]
            assert judge(ended) is verdict

    run(play())


def test_refused_connection_and_unknown_host() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refusing = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"

        async def play(url: str) -> None:
            async with stage(url, limits=LIMITS) as on:
                answer = await on.call("/v1/chat/completions", CHAT)
                assert answer.status == 502
                assert json.loads(answer.body)["error"]["docket"]["code"] == "connect"
                assert judge(on.admission.ended[0][0]) is Verdict.BLIND

        run(play(refusing))
        run(play("http://no-such-host.invalid/v1"))


@asynccontextmanager
async def tls_upstream(tmp_path: Path) -> AsyncIterator[str]:
    """An upstream whose certificate nobody vouches for."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(begin + timedelta(days=3650))
    certificate = builder.sign(key, hashes.SHA256())
    (tmp_path / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    kinds = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *kinds))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def test_a_certificate_that_nobody_vouches_for_is_a_failed_connection(tmp_path: Path) -> None:
    async def play() -> None:
        async with tls_upstream(tmp_path) as url, stage(url) as on:
            assert (await on.call("/v1/chat/completions", CHAT)).status == 502
            (end,) = on.record.ends()
            assert end.reason == "connect"
            assert "TLS" in str(end.private["detail"])

    run(play())


def test_a_host_that_never_answers_the_handshake_ends_at_the_connect_timeout() -> None:
    """A listener whose backlog is full drops further handshakes, as a black hole does."""

    async def play() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            address = full.getsockname()
            fillers = []
            for _ in range(8):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(address)
                fillers.append(filler)
            async with stage(f"http://127.0.0.1:{address[1]}/v1", limits=LIMITS) as on:
                answer = await on.call("/v1/chat/completions", CHAT)
                assert answer.status == 502
                assert "0.5 s" in str(on.record.ends()[0].private["detail"])
            for filler in fillers:
                filler.close()

    run(play())


def test_a_stream_that_lives_by_pings_is_never_cut_and_silence_closes_the_upstream() -> None:
    closed = asyncio.Event()

    async def pinging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD)
        for _ in range(8):
            await asyncio.sleep(0.1)
            writer.write(chunk(b": ping\n\n"))
        writer.write(chunk(DELTA) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        assert await reader.read() == b""
        closed.set()

    async def play() -> None:
        async with raw_upstream(pinging) as url, stage(url + "/v1", limits=LIMITS) as on:
            await on.call("/v1/chat/completions", STREAM)
            assert on.record.ends()[0].reason == "complete"
        async with raw_upstream(silent) as url, stage(url + "/v1", limits=LIMITS) as on:
            await on.call("/v1/chat/completions", STREAM)
            await closed.wait()

    run(play())


def test_a_client_that_leaves_says_nothing_about_the_upstream() -> None:
    arrived = asyncio.Event()

    async def waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        arrived.set()
        await reader.read()

    async def play() -> None:
        async with raw_upstream(waiting) as url, stage(url + "/v1") as on:
            _, writer = await on.connect()
            head = b"POST %s/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (on.prefix, len(CHAT)) + CHAT)
            await arrived.wait()
            writer.close()
            await on.record.until(lambda record: record.ends())
            assert on.record.ends()[0].reason == "client-gone"
            assert judge(on.admission.ended[0][0]) is Verdict.NEUTRAL

    run(play())


def test_a_reused_connection_that_the_upstream_had_closed_says_nothing_about_it() -> None:
    """The second request goes out on a connection that dies before any byte of an answer: never resent, neutral."""
    ok = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    served = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ok)
        await writer.drain()
        await read_request(reader)
        served.append(1)

    async def play() -> None:
        async with raw_upstream(once) as url, stage(url + "/v1") as on:
            assert (await on.call("/v1/chat/completions", CHAT)).status == 200
            assert (await on.call("/v1/chat/completions", CHAT)).status == 502
            assert [end.reason for end in on.record.ends()] == ["complete", "stale"]
            assert judge(on.admission.ended[1][0]) is Verdict.NEUTRAL
            assert served == [1], "not sent twice"

    run(play())
