"""The Python clients against a real server: drops, restarts, a cold start, refusals; waits are injected."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from docket.client import sse
from docket.client.follow import follow, follow_async
from docket.client.sse import Follower, StreamError
from docket.clock import SystemClock
from docket.watch.server import WatchServer
from kit.growing import GrowingRun

TOKEN = "a-token-of-this-test"


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(sse, "MOST_SECONDS", 0.05)


@contextmanager
def served(root: Path, port: int = 0) -> Iterator[str]:
    """A server in a thread of its own; its address."""
    listener = socket.create_server(("127.0.0.1", port), reuse_port=True)
    ready, stop = threading.Event(), threading.Event()

    async def main() -> None:
        server = WatchServer(root / ".docket", TOKEN, SystemClock(), root / "cache")
        await server.start(listener)
        ready.set()
        await asyncio.to_thread(stop.wait)
        await server.close()

    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    try:
        yield address
    finally:
        stop.set()
        thread.join()


def test_every_event_comes_once_through_restarts_of_the_server_and_of_the_client(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    state = tmp_path / "cursor.json"
    seen: list[int] = []
    with served(tmp_path) as address:
        run.grow(4)
        stream = follow(f"{address}/docket/events", token=TOKEN, state=state)
        for message in stream:
            seen.append(message.json()["seq"])
            if len(seen) == 3:
                break  # the third is not handled: it comes again
    port = int(address.rpartition(":")[2])
    run.grow(3)
    stop = threading.Event()
    again = follow(f"{address}/docket/events", token=TOKEN, state=state, stop=stop, on_lost=lambda _: lost.append(1))
    lost: list[int] = []
    taken: list[int] = []
    thread = threading.Thread(target=lambda: _take(again, taken, 6, stop))
    thread.start()
    while not lost:  # the server is away: the client waits and tries again
        thread.join(0.01)
    with served(tmp_path, port):
        thread.join()
    assert (seen, taken) == ([0, 1, 2], [2, 3, 4, 5, 6, 7])


def _take(stream: Iterator[sse.Message], taken: list[int], most: int, stop: threading.Event) -> None:
    for message in stream:
        taken.append(message.json()["seq"])
        if len(taken) == most:
            stop.set()
            return


def test_the_asynchronous_client_gets_the_same(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    run.grow(4)

    async def main(address: str) -> list[int]:
        seen: list[int] = []
        async for message in follow_async(f"{address}/docket/events", token=TOKEN):
            seen.append(message.json()["seq"])
            if len(seen) == 5:
                run.grow(2)
            if len(seen) == 7:
                break
        return seen

    with served(tmp_path) as address:
        assert asyncio.run(main(address)) == list(range(7))


def test_a_cursor_of_another_run_is_reset_and_everything_comes(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    run.grow(2)
    state = tmp_path / "cursor.json"
    state.write_text(Follower("1", "0" * 64).to_json())
    with served(tmp_path) as address:
        stream = follow(f"{address}/docket/events", token=TOKEN, state=state)
        told = [next(stream) for _ in range(4)]
    assert [message.event for message in told] == ["stream.reset", "ledger", "ledger", "ledger"]


def test_a_refusal_for_good_is_an_error_with_its_status(tmp_path: Path) -> None:
    GrowingRun(tmp_path)
    with served(tmp_path) as address, pytest.raises(StreamError, match="refused") as caught:
        next(follow(f"{address}/docket/events", token="wrong"))
    assert caught.value.status == 401


def test_what_is_no_event_stream_is_an_error_and_not_silence(tmp_path: Path) -> None:
    GrowingRun(tmp_path)
    with served(tmp_path) as address, pytest.raises(StreamError, match="not an event stream"):
        next(follow(f"{address}/docket/view", token=TOKEN))
