"""A user in base_url: sent as Basic authorization in place of the agent's own, and shown nowhere."""

from __future__ import annotations

import asyncio
from base64 import b64decode

import pytest

from docket.boundary.http1.origin import parse_base_url
from docket.errors import UsageError
from kit.boundary import raw_upstream, read_request, run, stage


def test_a_user_becomes_basic_authorization_and_stands_in_no_text() -> None:
    origin, path = parse_base_url("https://us%40er:SENTINEL%3A@host.example/v1/")
    assert (origin.host, origin.port, path) == ("host.example", 443, "/v1")
    assert origin.authorization is not None
    assert b64decode(origin.authorization.removeprefix(b"Basic ")) == b"us@er:SENTINEL:"
    assert "SENTINEL" not in repr(origin)
    assert b"SENTINEL" not in origin.authority


@pytest.mark.parametrize("url", ["https://h/v1?key=SENTINEL", "https://h/#SENTINEL", "ftp://u:SENTINEL@h", "https://"])
def test_what_is_no_base_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_base_url(url)
    assert "SENTINEL" not in f"{caught.value} {caught.value.hint}"


def test_the_upstream_gets_the_operators_credential_instead_of_the_agents() -> None:
    heads: list[bytes] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_request(reader)
        heads.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()

    async def play() -> None:
        async with raw_upstream(upstream) as url, stage(url.replace("//", "//user:pass@") + "/v1") as on:
            await on.call("/v1/chat/completions", b"{}", headers=[("authorization", "Bearer agent")])

    run(play())
    fields = [line for line in heads[0].split(b"\r\n") if line.lower().startswith(b"authorization:")]
    assert fields == [b"Authorization: Basic dXNlcjpwYXNz"]
