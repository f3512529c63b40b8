"""Addresses, recordable targets, sums of refusals, and the tee that never raises."""

from __future__ import annotations

import asyncio

import pytest

from docket.boundary.answers import coalesce
from docket.boundary.answers.coalesce import Coalescer
from docket.boundary.call.redact import target
from docket.boundary.call.tee import Tee
from docket.boundary.http1.wire import ResponseHead
from docket.boundary.routes import Address, address
from docket.ledger.events import ModelDenied, Unauthorized
from docket.ledger.usage import Counts
from docket.providers.call import Observation
from kit.boundary import Record, run


@pytest.mark.parametrize(
    ("raw", "name", "rest"),
    [
        (b"/r/T/up/v1/x?q", "up", b"/v1/x?q"),
        (b"/r/T/up", "up", b"/"),
        (b"/r/T/up/", "up", b"/"),
        (b"/r/T/up?x=1", "up", b"/?x=1"),
        (b"/r/T/up//a/../%2F", "up", b"//a/../%2F"),
        (b"http://127.0.0.1:1/r/T/up/v1", "up", b"/v1"),
        (b"HTTP://h/r/T/up", "up", b"/"),
        (b"/r/T/", "", b"/"),
        (b"/r/T", "", b"/"),
    ],
)
def test_what_a_target_names(raw: bytes, name: str, rest: bytes) -> None:
    assert address(raw, b"T") == Address(name=name, rest=rest)


@pytest.mark.parametrize("raw", [b"/", b"/r/", b"/r/TT/up", b"/r/t/up", b"/x/r/T/up", b"*", b"http://h", b"r/T/up"])
def test_what_carries_no_token(raw: bytes) -> None:
    assert address(raw, b"T") is None


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"/v1/x", "/v1/x"),
        (b"/v1/x?beta=true&alt=sse", "/v1/x?beta=true&alt=sse"),
        (b"/v1/x?key=SENTINEL", "/v1/x?key=[redacted]"),
        (b"/v1/x?API_KEY=SENTINEL&beta=1", "/v1/x?API_KEY=[redacted]&beta=1"),
        (b"/v1/x?SENTINEL", "/v1/x?[redacted]"),
        (b"/v1/x?a=&b", "/v1/x?a=&[redacted]"),
        (b"/v1/x?t=a=SENTINEL", "/v1/x?t=[redacted]"),
        (b"/\xff", "/\\xff"),
    ],
)
def test_only_harmless_values_of_a_query_are_recorded(raw: bytes, kept: str) -> None:
    assert target(raw) == kept


def test_repeats_are_summed_and_written_after_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalesce, "WINDOW_SECONDS", 0.05)

    async def play() -> None:
        record = Record()
        sums = Coalescer(record.submit)
        for _ in range(3):
            await sums.note("a", lambda count: (Unauthorized(count=count),))
        await sums.note("b", lambda count: (ModelDenied(code="x", final=True, count=count),))
        assert [event.count for event in record.of(Unauthorized)] == [1]
        await record.until(lambda record: len(record.of(Unauthorized)) == 2)
        assert [event.count for event in record.of(Unauthorized)] == [1, 2]
        await sums.note("a", lambda count: (Unauthorized(count=count),))
        await sums.note("a", lambda count: (Unauthorized(count=count),))
        await sums.close()
        assert [event.count for event in record.of(Unauthorized)] == [1, 2, 1, 1]
        assert [event.count for event in record.of(ModelDenied)] == [1]

    run(play())


def test_a_first_refusal_is_durable_before_it_is_answered() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        durable: asyncio.Future[object] = loop.create_future()
        sums = Coalescer(lambda _event: durable)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(sums.note("a", lambda count: (Unauthorized(count=count),)))
            await asyncio.sleep(0)
            assert not first.done()
            await sums.note("a", lambda count: (Unauthorized(count=count),))  # a repeat does not wait
            durable.set_result(None)
        await sums.close()

    run(play())


class Broken:
    saw_end = False

    def feed(self, data: bytes) -> None:
        raise RecursionError("too deep")

    def finish(self, *, clean: bool) -> Observation:
        raise ValueError("nothing to say")


def test_an_observer_that_fails_costs_the_usage_and_nothing_else() -> None:
    tee = Tee(lambda _status, _headers: Broken())
    tee.begin(ResponseHead(1, 200, b"OK", ()))
    tee.feed(b"data")
    seen = tee.finish(clean=True)
    assert seen is not None
    assert (seen.terminal, seen.counts.source, seen.unread) == ("complete", "none", "observer")
    assert tee.size == 4


def test_a_tee_that_cannot_make_an_observer_still_counts() -> None:
    def fails(_status: int, _headers: object) -> Broken:
        raise TypeError("no observer")

    tee = Tee(fails, record=3)
    tee.begin(ResponseHead(1, 200, b"OK", ()))
    tee.feed(b"data")
    assert (tee.finish(clean=True), tee.size, tee.recorded) == (None, 4, b"dat")


class Clean:
    saw_end = False

    def __init__(self) -> None:
        self.clean: bool | None = None

    def feed(self, data: bytes) -> None:
        pass

    def finish(self, *, clean: bool) -> Observation:
        self.clean = clean
        return Observation(terminal="complete", counts=Counts(source="partial"))


def test_a_body_that_breaks_in_its_coding_is_never_a_clean_one_to_the_observer() -> None:
    observer = Clean()
    tee = Tee(lambda _status, _headers: observer)
    tee.begin(ResponseHead(1, 200, b"OK", [b"Content-Encoding: gzip"]))
    tee.feed(b"no gzip at all")
    seen = tee.finish(clean=True)
    assert seen is not None
    assert (observer.clean, seen.terminal, seen.unread) == (False, "complete", "coding")
