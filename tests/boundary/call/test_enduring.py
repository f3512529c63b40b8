"""Calls tried again over real sockets: one answer for the agent, a record and a bill for every attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from docket.boundary.call import enduring
from docket.control.decision import Refused
from docket.ledger.events import ModelDenied, ModelError, ModelRequest, ModelResponse, RetryScheduled
from docket.policy.endurance import Endurance
from docket.primitives.instant import Duration
from docket.providers.call import Call
from kit.boundary import OpenAdmission, Stage, raw_upstream, read_request, run, stage

BODY = b'{"model": "m", "messages": []}'
GOOD = b'{"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}'
SSE = (
    b'data: {"model":"m","choices":[{"delta":{"content":"a"}}]}\n\n'
    b'data: {"model":"m","choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def answer(status: int, body: bytes = b'{"error":{}}', *fields: str) -> bytes:
    head = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def scene(
    answers: list[bytes | None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    attempts: int = 3,
    outage: int | None = None,
    admission: OpenAdmission | None = None,
) -> AsyncIterator[tuple[Stage, list[bytes], list[float]]]:
    """A boundary before a provider that gives ``answers`` in order (None cuts), the requests it got, the waits."""
    requests: list[bytes] = []
    waits: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, body = await read_request(reader)
            requests.append(body)
            said = answers.pop(0) if answers else answer(200, GOOD)
            if said is None:
                writer.transport.abort()
                return
            writer.write(said)

    async def pass_by(seconds: float) -> None:
        waits.append(seconds)

    init = enduring.EnduringExchange.__init__
    monkeypatch.setattr(
        enduring.EnduringExchange,
        "__init__",
        lambda self, *rest: init(self, *rest, sleep=pass_by, chance=lambda: 0.0),
    )
    policy = Endurance(attempts=attempts, outage_seconds=None if outage is None else Duration(outage * 1_000_000))
    async with raw_upstream(serve) as url, stage(url, admission=admission, endurance=policy) as on:
        yield on, requests, waits


def test_a_call_that_was_refused_for_a_passing_reason_succeeds_in_the_end(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        refusals = [answer(503), answer(429, b'{"error":{}}', "Retry-After: 7")]
        async with scene(list(refusals), monkeypatch) as (on, requests, waits):
            got = await on.call("/v1/chat/completions", BODY)
            assert (got.status, got.body) == (200, GOOD)
            assert requests == [BODY] * 3
            assert waits == [1, 7]
            calls = on.record.of(ModelRequest)
            assert [(call.call, call.of) for call in calls] == [(1, None), (2, 1), (3, 1)]
            assert [(error.call, error.status) for error in on.record.of(ModelError)] == [(1, 503), (2, 429)]
            assert [each.call for each in on.record.of(ModelResponse)] == [3]
            assert on.record.calls_ended_once()
            assert on.admission.open == set()
            scheduled = [(e.call, e.attempt, e.reason, e.status, e.wait_us) for e in on.record.of(RetryScheduled)]
            assert scheduled == [(1, 2, "status", 503, 1_000_000), (2, 3, "status", 429, 7_000_000)]
            kinds = [type(event) for event in on.record.events]
            assert kinds.index(RetryScheduled) > kinds.index(ModelError)  # ended before it is tried again

    run(play())


def test_the_last_refusal_reaches_the_agent_as_it_came(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        last = answer(503, b'{"error":{"message":"third"}}', "X-Own: 3")
        async with scene([answer(500), answer(529), last], monkeypatch) as (on, requests, _):
            got = await on.call("/v1/chat/completions", BODY)
            assert (got.status, got.body, got.header("x-own")) == (503, b'{"error":{"message":"third"}}', ["3"])
            assert len(requests) == 3

    run(play())


@pytest.mark.parametrize("status", [400, 401, 404, 409, 504])
def test_what_does_not_pass_or_may_have_been_done_is_not_sent_again(status: int, monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        async with scene([answer(status)], monkeypatch) as (on, requests, _):
            assert (await on.call("/v1/chat/completions", BODY)).status == status
            assert len(requests) == 1
            assert on.record.of(RetryScheduled) == []

    run(play())


def test_an_answer_that_was_cut_is_not_sent_again(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        started = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
        async with scene([started, None], monkeypatch) as (on, requests, _):
            reader, writer = await on.connect()
            head = b"POST %b/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (on.prefix, len(BODY)) + BODY)
            await reader.readuntil(b"{")
            writer.transport.abort()
            await on.record.until(lambda record: record.ends())
            assert len(requests) == 1

    run(play())


def test_a_request_that_was_sent_whole_and_got_no_answer_is_not_sent_again(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        async with scene([None], monkeypatch) as (on, requests, _):
            assert (await on.call("/v1/chat/completions", BODY)).status == 502
            assert len(requests) == 1

    run(play())


def test_nobody_at_the_address_is_tried_again_and_then_told(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        nobody = Endurance(attempts=3)
        async with scene([], monkeypatch) as (on, _, waits), stage("http://127.0.0.1:9", endurance=nobody) as off:
            got = await off.call("/v1/chat/completions", BODY)
            assert got.status == 502
            assert [error.reason for error in off.record.of(ModelError)] == ["connect"] * 3
            assert waits == [1, 2]
            assert on.record.events == []

    run(play())


def test_a_stream_after_a_refusal_is_the_stream(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(SSE) + SSE
        async with scene([answer(503), stream], monkeypatch) as (on, _, __):
            got = await on.call("/v1/chat/completions", b'{"model": "m", "messages": [], "stream": true}')
            assert (got.status, got.body) == (200, SSE)

    run(play())


def test_a_refusal_that_is_too_long_to_hold_is_passed_on_at_once(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        long = b"x" * (enduring.MAX_HELD * 2)
        async with scene([answer(503, long)], monkeypatch) as (on, requests, _):
            got = await on.call("/v1/chat/completions", BODY)
            assert (got.status, got.body) == (503, long)
            assert len(requests) == 1

    run(play())


class Resting(OpenAdmission):
    """Refuses the first calls, as an open breaker does."""

    def __init__(self, times: int) -> None:
        super().__init__(self._refuse)
        self._times = times

    def _refuse(self, _: Call) -> Refused | None:
        self._times -= 1
        return Refused(code="breaker_open", message="rests", retry_after=30) if self._times >= 0 else None


def test_an_open_breaker_fails_fast_unless_an_outage_is_ridden_out(monkeypatch: pytest.MonkeyPatch):
    async def fast() -> None:
        async with scene([], monkeypatch, admission=Resting(1)) as (on, requests, waits):
            assert (await on.call("/v1/chat/completions", BODY)).status == 429
            assert (requests, waits) == ([], [])

    async def patient() -> None:
        async with scene([], monkeypatch, outage=3600, admission=Resting(3)) as (on, requests, waits):
            assert (await on.call("/v1/chat/completions", BODY)).status == 200
            assert (requests, waits) == ([BODY], [30, 30, 30])
            assert [e.reason for e in on.record.of(RetryScheduled)] == ["breaker_open"] * 3
            assert on.record.of(ModelDenied) == []

    run(fast())
    monkeypatch.undo()
    run(patient())


def test_an_agent_that_leaves_while_it_waits_leaves_a_trace(monkeypatch: pytest.MonkeyPatch):
    async def play() -> None:
        waiting = asyncio.Event()

        async def wait(_: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        init = enduring.EnduringExchange.__init__
        monkeypatch.setattr(enduring.EnduringExchange, "__init__", lambda self, *rest: init(self, *rest, sleep=wait))
        async with stage("http://127.0.0.1:9", endurance=Endurance(attempts=3)) as on:
            _, writer = await on.connect()
            head = b"POST %b/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (on.prefix, len(BODY)) + BODY)
            await waiting.wait()
            writer.transport.abort()
            await on.record.until(lambda record: record.of(ModelDenied))
            assert [denied.code for denied in on.record.of(ModelDenied)] == ["client_gone"]
            assert len(on.record.of(ModelRequest)) == 1

    run(play())
