"""The way upstream: TLS that is always verified, the operator's own proxy, and curl's view of both sides."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from docket.boundary.http1.egress_proxy import ProxyRule
from docket.boundary.http1.origin import Origin, parse_base_url
from docket.clock import SystemClock
from docket.errors import UsageError
from docket.sim.answers import Step
from docket.sim.upstream import Script, ScriptedProvider
from kit.boundary import raw_upstream, read_request, run, stage

CHAT = b'{"model": "m", "messages": []}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def certificate(directory: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate for ``name`` that vouches for itself, and the context of a server that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.fromtimestamp(SystemClock().unix_us() / 1e6, UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = directory / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(built.public_bytes(serialization.Encoding.PEM) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return pem, context


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await read_request(reader)
        writer.write(OK)


@pytest.mark.parametrize(
    ("name", "trusted", "status"), [("localhost", True, 200), ("localhost", False, 502), ("other.test", True, 502)]
)
def test_tls_is_verified_against_ssl_cert_file(
    name: str, trusted: bool, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, context = certificate(tmp_path, name)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))

    async def play() -> None:
        async with raw_upstream(answers, context) as url, stage(f"https://localhost:{port_of(url)}") as on:
            for _ in range(2):
                got = await on.call("/v1/chat/completions", CHAT)
                assert got.status == status
            if status == 502:
                error = json.loads(got.body)["error"]
                assert (error["docket"]["code"], "TLS" in error["message"]) == ("connect", True)
                assert [end.reason for end in on.record.ends()] == ["connect"] * 2

    run(play())


class Proxy:
    """A forward proxy: CONNECT to wherever ``port`` says, or plain HTTP in absolute form."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if not head.startswith(b"CONNECT "):
            writer.write(OK)
            await reader.read()
            return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(pump(reader, inner_writer))
            pumps.create_task(pump(inner_reader, writer))


def test_https_goes_through_the_operators_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem, context = certificate(tmp_path, "provider.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))

    async def play() -> None:
        async with raw_upstream(answers, context) as origin:
            proxy = Proxy(port_of(origin))
            async with raw_upstream(proxy) as url:
                environment = {"HTTPS_PROXY": url.replace("http://", "http://user:pa%20ss@")}
                async with stage("https://provider.test", environment=environment) as on:
                    assert (await on.call("/v1/chat/completions", CHAT)).status == 200
                assert proxy.heads[0].startswith(b"CONNECT provider.test:443 HTTP/1.1\r\nHost: provider.test:443\r\n")
                assert b"Proxy-Authorization: Basic dXNlcjpwYSBzcw==" in proxy.heads[0]

    run(play())


def test_plain_http_goes_to_a_proxy_in_absolute_form() -> None:
    async def play() -> None:
        proxy = Proxy()
        async with (
            raw_upstream(proxy) as url,
            stage("http://provider.test:8080/v1", environment={"http_proxy": url.replace("//", "//u:p@")}) as on,
        ):
            assert (await on.call("/v1/models?limit=1", method="GET")).status == 200
            assert proxy.heads[0].startswith(b"GET http://provider.test:8080/v1/models?limit=1 HTTP/1.1\r\n")
            assert b"\r\nProxy-Authorization: Basic dTpw\r\n" in proxy.heads[0]

    run(play())


def test_a_proxy_that_refuses_is_a_502() -> None:
    async def play() -> None:
        async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

        async with (
            raw_upstream(refuses) as url,
            stage("https://provider.test", environment={"HTTPS_PROXY": url}) as on,
        ):
            got = await on.call("/v1/chat/completions", CHAT)
            assert (got.status, "407" in json.loads(got.body)["error"]["message"]) == (502, True)

    run(play())


@pytest.mark.parametrize(
    ("no_proxy", "host", "port", "direct"),
    [
        ("", "api.example.com", 443, False),
        ("example.com", "api.example.com", 443, True),
        (".example.com", "api.example.com", 443, True),
        ("*.example.com", "api.example.com", 443, True),
        ("example.com", "badexample.com", 443, False),
        ("other.test, EXAMPLE.com ", "api.example.com", 443, True),
        ("*", "api.example.com", 443, True),
        ("api.example.com:8443", "api.example.com", 443, False),
        ("api.example.com:443", "api.example.com", 443, True),
        ("", "127.0.0.1", 443, True),
        ("", "localhost", 443, True),
        ("", "::1", 443, True),
        ("[2001:db8::1]", "2001:db8::1", 443, True),
    ],
)
def test_which_upstreams_are_reached_directly(no_proxy: str, host: str, port: int, direct: bool) -> None:
    rule = ProxyRule({"HTTPS_PROXY": "http://proxy.test:3128", "NO_PROXY": no_proxy})
    assert (rule.address(Origin("https", host, port)) is None) is direct


@pytest.mark.parametrize("address", ["socks5://proxy.test:1080", "http://", "http://proxy.test:x"])
def test_a_proxy_that_cannot_be_used_is_said_so(address: str) -> None:
    with pytest.raises(UsageError, match="HTTPS_PROXY"):
        ProxyRule({"https_proxy": address})


@pytest.mark.parametrize("url", ["ftp://x", "https://", "https://x:y", "https://x/?q=1", "https://x/#f", "x"])
def test_a_base_url_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        parse_base_url(url)


CURL = [
    ["-X", "GET"],
    ["-I"],
    ["-d", "x=1"],
    ["--data-binary", "x" * 2_000_000],
    ["-H", "Transfer-Encoding: chunked", "-d", "abc"],
    ["--http1.0"],
    ["-H", "Expect: 100-continue", "-d", "abc"],
    ["--compressed"],
]


SCENES = [(row, False) for row in CURL] + [(row, True) for row in CURL if "--http1.0" not in row]
"""The scripted provider sends chunks whatever version it is asked in, so that row has no direct counterpart."""


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize(
    ("arguments", "stream"), SCENES, ids=lambda a: " ".join(a)[:30] if isinstance(a, list) else None
)
def test_curl_sees_the_same_with_and_without_the_boundary(arguments: list[str], stream: bool, tmp_path: Path) -> None:
    async def ask(url: str) -> tuple[str, bytes]:
        data = arguments
        if "--data-binary" in data:
            (tmp_path / "body").write_text(data[1])
            data = ["--data-binary", f"@{tmp_path / 'body'}"]
        step = json.dumps({"text": "a b c", "input_tokens": 5})  # noqa: TID251 - a script's own
        path = "/v1/messages" if stream else "/v1/models"
        command = ["curl", "-sS", "--max-time", "20", "-D", str(tmp_path / "head"), "-H", f"X-Sim-Step: {step}", *data]
        process = await asyncio.create_subprocess_exec(*command, url + path, stdout=asyncio.subprocess.PIPE)
        body, _ = await process.communicate()
        assert process.returncode == 0
        return (tmp_path / "head").read_text(), body

    async def play() -> None:
        provider = ScriptedProvider(Script((Step(times=0),)))
        url = await provider.start()
        async with stage(url, family="anthropic") as on:
            direct = await ask(url)
            provider.count = 0  # answers are numbered
            through = await ask(on.boundary.base_url("up"))
            gone = {"connection: close", "connection: keep-alive"}
            heads = [[line for line in head.splitlines() if line.lower() not in gone] for head, _ in (direct, through)]
            assert heads[0] == heads[1]
            assert direct[1] == through[1]
        await provider.close()

    run(play())
