"""The Python clients against a real server: drops, restarts, a cold start, refusals; waits are injected."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

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


BEGINNINGS = {
    "the start": Follower(), "a future cursor": Follower("999999"), "a negative one": Follower("-7"),
    "another run's": Follower("0", "f" * 64), "no number": Follower("abc"),
}  # fmt: skip


# A connection that is accepted in the moment in which the server's event loop ends is closed by its collection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "second",
    [pytest.param(each, marks=[] if each == "the start" else [pytest.mark.long]) for each in BEGINNINGS],
)
def test_two_watchers_of_a_growing_run_that_are_dropped_fifty_times_each_get_every_event_once(
    tmp_path: Path, second: str
) -> None:
    """200 events, one a millisecond; each connection is cut after some bytes, and the server is away in the middle."""
    events, drops = (60, 8) if second == "the start" else (200, 50)  # a sample in make test, the whole in make long
    run, rng = GrowingRun(tmp_path), random.Random(60)
    begun, grown, pause = threading.Barrier(3), threading.Event(), threading.Event()
    addresses: list[str] = []

    def grow() -> None:
        begun.wait()
        for _ in range(events):
            run.grow(1)
            pause.wait(0.001)
        grown.set()

    def watch(follower: Follower, cuts: list[int], seen: list[int], resets: list[str]) -> None:
        begun.wait()
        while len(cuts) or not grown.is_set() or int(follower.cursor) < run.chain.size - 1:
            most = cuts.pop() if cuts else 1 << 30
            query = urlencode({**follower.query(), "run": run.directory.name})
            request = Request(f"{addresses[0]}/docket/events?{query}", headers={"Authorization": f"Bearer {TOKEN}"})
            parser = sse.Parser()
            with suppress(OSError, HTTPException), urlopen(request, timeout=20) as answer:
                assert answer.headers["X-Accel-Buffering"] == "no"
                while most > 0 and not (
                    most > 1 << 20 and grown.is_set() and int(follower.cursor) == run.chain.size - 1
                ):
                    data = answer.read1(min(most, 700))
                    if not data:
                        break
                    most -= len(data)
                    for message in parser.feed(data):
                        if not follower.take(message):
                            continue
                        if message.event == "stream.reset":
                            seen.clear()
                            resets.append(message.json()["reason"])
                        else:
                            seen.append(message.json()["seq"])

    watchers = [
        (Follower(each.cursor, each.head), [rng.randint(1, 2500) for _ in range(drops)], [], [])
        for each in (Follower(), BEGINNINGS[second])
    ]  # type: list[tuple[Follower, list[int], list[int], list[str]]]
    with served(tmp_path) as address:
        addresses.append(address)
        threads = [threading.Thread(target=grow), *(threading.Thread(target=watch, args=each) for each in watchers)]
        for thread in threads:
            thread.start()
        threads[0].join()
    port = int(address.rpartition(":")[2])
    with served(tmp_path, port):
        for thread in threads:
            thread.join(60)
    for _, cuts, seen, _ in watchers:
        assert (seen, cuts) == (list(range(events + 1)), [])
    assert bool(watchers[1][3]) == (second != "the start"), "what is no place in this run is said to be none"
    run.release()
    gc.collect()  # a connection of that kind is collected here, and not in the middle of another test
