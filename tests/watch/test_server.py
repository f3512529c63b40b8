"""The watching server over real sockets: who may read, streams by cursor, and how it ends."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from docket.client.sse import Parser
from docket.clock import SystemClock
from docket.watch import server as module
from docket.watch.server import WatchServer
from kit.growing import GrowingRun

TOKEN = "a-token-of-this-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def serving(root: Path, main: Callable[[str, WatchServer], Coroutine[Any, Any, Any]]) -> Any:
    """Run ``main`` with the address of a server over the runs of ``root``."""

    async def whole() -> Any:
        listener = socket.create_server(("127.0.0.1", 0))
        watching = WatchServer(root / ".docket", TOKEN, SystemClock(), root / "cache")
        port = await watching.start(listener)
        try:
            return await main(f"http://127.0.0.1:{port}", watching)
        finally:
            await watching.close()

    return asyncio.run(whole())


def get(root: Path, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    async def main(base: str, _: WatchServer) -> tuple[int, dict[str, str], bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(base + path, headers=headers, allow_redirects=False) as answer,
        ):
            return answer.status, dict(answer.headers), await answer.read()

    return serving(root, main)


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path)
    run.grow(5)
    return run


PATHS = ["/", "/docket/runs", "/docket/view", "/docket/events", "/docket/documents/ledger.jsonl"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("offered", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "docket-watch=wrong"}])
def test_nothing_of_a_run_is_read_without_the_token(
    run: GrowingRun, tmp_path: Path, path: str, offered: dict[str, str]
) -> None:
    status, headers, body = get(tmp_path, path, offered)
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert run.directory.name.encode() not in body


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_name_that_was_rebound_to_loopback_reads_nothing(
    run: GrowingRun, tmp_path: Path, path: str, host: str
) -> None:
    assert get(tmp_path, path, BEARER | {"Host": host})[0] == 421


def test_another_sites_page_reads_nothing_even_with_the_cookie(run: GrowingRun, tmp_path: Path) -> None:
    headers = {"Cookie": f"docket-watch={TOKEN}", "Sec-Fetch-Site": "cross-site"}
    assert get(tmp_path, "/docket/view", headers)[0] == 403


def test_the_token_leaves_the_address_for_a_cookie_that_scripts_cannot_read(run: GrowingRun, tmp_path: Path) -> None:
    status, headers, _ = get(tmp_path, f"/?token={TOKEN}")
    assert (status, headers["Location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(headers["Set-Cookie"].split("; "))
    assert get(tmp_path, f"/docket/view?token={TOKEN}")[0] == 401, "only the page takes it from the address"


def test_every_answer_forbids_scripts_of_others_and_storing(run: GrowingRun, tmp_path: Path) -> None:
    for path, headers in [("/", BEARER), ("/", {}), ("/static/page.js", {}), ("/nothing", BEARER)]:
        answered = get(tmp_path, path, headers)[1]
        assert "default-src 'none'" in answered["Content-Security-Policy"], path
        assert "unsafe" not in answered["Content-Security-Policy"]
        assert answered["Cache-Control"] == "no-store"


@pytest.mark.parametrize("name", ["../server.py", "..%2fserver.py", "vendor/../../server.py", "page.html", "x", ""])
def test_only_the_pages_own_files_are_served(run: GrowingRun, tmp_path: Path, name: str) -> None:
    assert get(tmp_path, f"/static/{name}")[0] in (404, 421, 401)


@pytest.mark.parametrize("name", ["latest%2f..%2f..", "../../etc", "DKT-20261130-ZZZZZZZZZZ", "x"])
def test_a_run_is_named_by_its_number_alone(run: GrowingRun, tmp_path: Path, name: str) -> None:
    assert get(tmp_path, f"/docket/view?run={name}", BEARER)[0] == 404


def test_a_document_is_served_as_it_stands(run: GrowingRun, tmp_path: Path) -> None:
    status, _, body = get(tmp_path, "/docket/documents/ledger.jsonl", BEARER)
    assert (status, body) == (200, (run.path / "ledger.jsonl").read_bytes())
    assert get(tmp_path, "/docket/documents/receipt.json", BEARER)[0] == 404
    assert get(tmp_path, "/docket/documents/lock", BEARER)[0] == 404


async def read(answer: aiohttp.ClientResponse, parser: Parser, events: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < events:
        data = await answer.content.readany()
        assert data, "the stream ended"
        found += [message for message in parser.feed(data) if message.event == "ledger"]
    return found


def test_a_stream_goes_on_with_the_run_and_is_taken_up_at_its_cursor(run: GrowingRun, tmp_path: Path) -> None:
    async def main(base: str, _: WatchServer) -> list[str]:
        seen: list[str] = []
        async with aiohttp.ClientSession(headers=BEARER) as session:
            async with session.get(f"{base}/docket/events") as answer:
                parser = Parser()
                seen += [message.id for message in await read(answer, parser, 6)]
                run.grow(3)
                seen += [message.id for message in await read(answer, parser, 3)]
            run.grow(2)
            async with session.get(f"{base}/docket/events", headers={"Last-Event-ID": "8"}) as answer:
                seen += [message.id for message in await read(answer, Parser(), 2)]
        return seen

    assert serving(tmp_path, main) == [str(seq) for seq in range(11)]


def test_the_end_of_the_server_ends_streams_with_when_to_come_back(run: GrowingRun, tmp_path: Path) -> None:
    async def main(base: str, watching: WatchServer) -> bytes:
        async with (
            aiohttp.ClientSession(headers=BEARER) as session,
            session.get(f"{base}/docket/events") as answer,
        ):
            await read(answer, Parser(), 6)
            closing = asyncio.ensure_future(watching.close())
            rest = await answer.content.read()
            await closing
            return rest

    assert serving(tmp_path, main).endswith(b"retry: 2000\n\n")


def test_a_reader_that_does_not_read_is_let_go_and_others_go_on(
    run: GrowingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.2)
    run.append(run.note("z" * 900_000) for _ in range(40))
    run.attest()

    async def main(base: str, watching: WatchServer) -> int:
        host, port = base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(
            f"GET /docket/events HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        await reader.readline()
        async with (
            aiohttp.ClientSession(headers=BEARER) as session,
            session.get(f"{base}/docket/events?since=latest") as answer,
        ):
            run.grow(1)
            await read(answer, Parser(), 1)
            while watching.streams > 1:
                run.grow(1)
                await read(answer, Parser(), 1)
        writer.close()
        return watching.streams

    assert serving(tmp_path, main) <= 1


def test_the_view_is_folded_and_says_whether_the_run_goes_on(run: GrowingRun, tmp_path: Path) -> None:
    view = json.loads(get(tmp_path, "/docket/view", BEARER)[2])
    assert (view["cursor"], view["live"], view["docket"]) == (5, True, run.directory.name)


def test_more_streams_than_the_limit_are_refused_for_a_while(
    run: GrowingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 0)
    status, headers, _ = get(tmp_path, "/docket/events", BEARER)
    assert (status, headers["Retry-After"]) == (503, "2")
