"""The Responses API over a WebSocket through the boundary; both ends are another library's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, web
from tests.kit.boundary import OpenAdmission, Record, Stage, run, stage

from docket.control.decision import Refused
from docket.ledger.events import CapExceeded, Forwarded, ModelDenied, ModelError, ModelResponse

PATH = "/v1/responses"
Answer = Callable[[web.WebSocketResponse, dict[str, Any]], Awaitable[None]]


def response(kind: str, number: int, status: str, usage: dict[str, int] | None) -> str:
    body = {
        "id": f"resp_{number}",
        "object": "response",
        "model": "gpt-5",
        "status": status,
        "output": [],
        "usage": usage,
    }
    return json.dumps({"type": kind, "response": body})  # noqa: TID251 - a provider's message


USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}


async def plain(ws: web.WebSocketResponse, asked: dict[str, Any]) -> None:
    """A response as the provider streams it; the warm-up is one without output."""
    usage = {"input_tokens": 7, "output_tokens": 0, "total_tokens": 7} if asked.get("generate") is False else USAGE
    await ws.send_str(response("response.created", 1, "in_progress", None))
    await ws.send_str('{"type": "response.output_text.delta", "delta": "Hi"}')
    await ws.send_str(response("response.completed", 1, "completed", usage))


@asynccontextmanager
async def provider(answer: Answer = plain) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A WebSocket server that answers each ``response.create``; its URL and what it was asked."""
    asked: list[dict[str, Any]] = []

    async def serve(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(max_msg_size=0)
        await ws.prepare(request)
        async for message in ws:
            if message.type is WSMsgType.TEXT:
                document = json.loads(message.data)
                asked.append(document)
                if document["type"] == "response.create":
                    await answer(ws, document)
            elif message.type is WSMsgType.BINARY:
                await ws.send_bytes(message.data)
        return ws

    app = web.Application()
    app.router.add_get(PATH, serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}", asked  # type: ignore[attr-defined]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(
    answer: Answer = plain, **staged: Any
) -> AsyncIterator[tuple[ClientWebSocketResponse, Stage, list[dict[str, Any]]]]:
    async with provider(answer) as (url, asked), stage(url, **staged) as on, ClientSession() as session:
        address = f"http://127.0.0.1:{on.boundary.port}/r/{on.boundary.token}/up{PATH}"
        async with session.ws_connect(address, max_msg_size=0, compress=15) as ws:
            yield ws, on, asked


async def create(ws: ClientWebSocketResponse, **members: Any) -> list[dict[str, Any]]:
    """Ask for a response and read to its last message."""
    await ws.send_json({"type": "response.create", "model": "gpt-5", "input": "hi", **members})
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["type"] not in ("response.completed", "response.failed", "response.incomplete", "error"):
        seen.append(await ws.receive_json(timeout=10))
    return seen


def test_each_create_is_a_call_with_its_own_usage_and_the_warm_up_by_what_it_says() -> None:
    async def main() -> Record:
        async with connected() as (ws, on, asked):
            await create(ws, generate=False)
            seen = await create(ws)
            assert [event["type"] for event in seen] == [
                "response.created",
                "response.output_text.delta",
                "response.completed",
            ]
            assert asked[1] == {"type": "response.create", "model": "gpt-5", "input": "hi"}
            return on.record

    record = run(main())
    ends = record.of(ModelResponse)
    assert [{item.kind: item.quantity for item in end.usage.items} for end in ends if end.usage] == [
        {"input": 7, "output": 0},
        {"input": 100, "output": 20},
    ]
    assert [request.call for request in record.requests()] == [1, 2]
    assert [request.protocol for request in record.requests()] == ["openai-responses"] * 2
    assert [event.status for event in record.of(Forwarded)] == [101]
    assert record.calls_ended_once()


def test_nothing_leaves_before_its_request_is_durable_nor_ends_before_its_end_is() -> None:
    class Slow(Record):
        """Makes events durable only when told to."""

        def __init__(self) -> None:
            super().__init__()
            self.waiting: list[asyncio.Future[object]] = []

        def submit(self, event: Any) -> asyncio.Future[object]:
            super().submit(event)
            done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            if isinstance(event, Forwarded):
                done.set_result(event)
            self.waiting.append(done)
            return done

        def settle(self) -> None:
            for done in self.waiting:
                if not done.done():
                    done.set_result(None)

    async def main() -> None:
        record = Slow()
        async with connected(record=record) as (ws, _, asked):
            await ws.send_json({"type": "response.create", "model": "gpt-5"})
            await record.until(lambda r: r.requests())
            await ws.ping()
            assert asked == [], "the request is not durable yet"
            record.settle()
            first = [await ws.receive_json(timeout=10) for _ in range(2)]
            assert [event["type"] for event in first] == ["response.created", "response.output_text.delta"]
            await record.until(lambda r: r.ends())
            with pytest.raises(TimeoutError):
                await ws.receive(timeout=0.05)
            record.settle()

    run(main())


def test_a_refusal_is_one_error_message_and_nothing_reaches_the_provider() -> None:
    refused = Refused(code="max_usd", message="cap max_usd reached: 5 of 5", limit="5", observed="5")

    async def main() -> Record:
        admission = OpenAdmission(lambda _call: refused)
        async with connected(admission=admission) as (ws, on, asked):
            (event,) = await create(ws)
            assert event["type"] == "error"
            assert event["status"] == 400
            assert event["headers"]["x-should-retry"] == "false"
            assert event["error"]["code"] == "max_usd"
            assert event["error"]["docket"]["limit"] == "5"
            assert "cap max_usd reached" in event["error"]["message"]
            assert asked == []
            return on.record

    record = run(main())
    assert [event.code for event in record.of(ModelDenied)] == ["max_usd"]
    assert record.requests() == []


def test_an_agent_that_leaves_ends_its_call_and_closes_the_provider() -> None:
    left = asyncio.Event()

    async def slow(ws: web.WebSocketResponse, asked: dict[str, Any]) -> None:
        await ws.send_str(response("response.created", 1, "in_progress", None))

    async def main() -> Record:
        async with provider(slow) as (url, _), stage(url) as on, ClientSession() as session:
            address = f"http://127.0.0.1:{on.boundary.port}/r/{on.boundary.token}/up{PATH}"
            ws = await session.ws_connect(address)
            await ws.send_json({"type": "response.create", "model": "gpt-5"})
            await ws.receive_json(timeout=10)
            assert ws._response.connection is not None
            ws._response.connection.transport.abort()  # type: ignore[union-attr]
            await on.record.until(lambda r: r.ends())
            left.set()
            return on.record

    record = run(main())
    assert [(event.reason, event.usage.source if event.usage else None) for event in record.of(ModelError)] == [
        ("client-gone", "none")
    ]
    assert record.calls_ended_once()


def test_a_provider_that_breaks_off_is_a_truncated_call() -> None:
    async def cut(ws: web.WebSocketResponse, asked: dict[str, Any]) -> None:
        await ws.send_str(response("response.created", 1, "in_progress", None))
        await ws.close()

    async def main() -> Record:
        async with connected(cut) as (ws, on, _):
            await ws.send_json({"type": "response.create", "model": "gpt-5"})
            assert (await ws.receive_json(timeout=10))["type"] == "response.created"
            assert (await ws.receive(timeout=10)).type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING)
            await on.record.until(lambda r: r.ends())
            return on.record

    record = run(main())
    assert [event.reason for event in record.of(ModelError)] in (["truncated"], ["client-gone"])
    assert record.calls_ended_once()


def test_a_failed_response_is_an_error_that_still_costs() -> None:
    async def failing(ws: web.WebSocketResponse, asked: dict[str, Any]) -> None:
        await ws.send_str(response("response.failed", 1, "failed", USAGE))

    async def main() -> Record:
        async with connected(failing) as (ws, on, _):
            await create(ws)
            return on.record

    (end,) = run(main()).of(ModelError)
    assert end.reason == "error-event"
    assert end.usage is not None
    assert end.usage.source == "reported"


def test_other_messages_and_large_ones_pass_unchanged() -> None:
    async def main() -> None:
        async with connected() as (ws, _, asked):
            await ws.send_str('{"type": "response.cancel"}')
            data = bytes(range(256)) * 8192
            await ws.send_bytes(data)
            assert await ws.receive_bytes(timeout=10) == data
            assert asked == [{"type": "response.cancel"}]
            await create(ws, input="x" * 300_000)
            assert len(asked[1]["input"]) == 300_000

    run(main())


def test_the_next_create_waits_for_the_one_under_way() -> None:
    async def main() -> Record:
        async with connected() as (ws, on, asked):
            for number in range(3):
                await ws.send_json({"type": "response.create", "model": "gpt-5", "input": str(number)})
            done = 0
            while done < 3:
                done += (await ws.receive_json(timeout=10))["type"] == "response.completed"
            assert [document["input"] for document in asked] == ["0", "1", "2"]
            return on.record

    record = run(main())
    assert len(record.of(ModelResponse)) == 3
    assert record.calls_ended_once()


def test_a_breach_is_acted_on_after_the_last_message_was_delivered() -> None:
    breach = CapExceeded(cap="max_model_calls", limit="1", observed="1")

    class Breaching(OpenAdmission):
        def settle(self, *given: Any) -> Any:

            return replace(super().settle(*given), breaches=(breach,))

    async def main() -> None:
        async with connected(admission=Breaching()) as (ws, on, _):
            seen = await create(ws)
            assert seen[-1]["type"] == "response.completed"
            await on.record.until(lambda r: r.of(CapExceeded))
            await ws.close()
        assert on.breaches == [breach]

    run(main())


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/chat/completions"])
def test_other_upgrades_are_turned_away_by_426(path: str) -> None:
    async def main() -> None:
        async with provider() as (url, _), stage(url) as on:
            answered = await on.call(
                path,
                method="GET",
                headers=(
                    ("Upgrade", "websocket"),
                    ("Sec-WebSocket-Key", "x" * 22 + "=="),
                    ("Sec-WebSocket-Version", "13"),
                ),
            )
            assert answered.status == 426

    run(main())


def test_a_response_under_way_can_be_cut() -> None:
    async def endless(ws: web.WebSocketResponse, asked: dict[str, Any]) -> None:
        await ws.send_str(response("response.created", 1, "in_progress", None))

    async def main() -> Record:
        async with connected(endless) as (ws, on, _):
            await ws.send_json({"type": "response.create", "model": "gpt-5"})
            await ws.receive_json(timeout=10)
            on.under_way.cut("cut by docket: a cap was reached")
            assert (await ws.receive(timeout=10)).type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)
            return on.record

    record = run(main())
    assert [event.reason for event in record.of(ModelError)] == ["truncated"]
    assert record.calls_ended_once()
