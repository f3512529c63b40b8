"""Answers that come later (``background: true``): one bill, by the answer's id, however often and by whom it is read;
and a hold against the cap until then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.pricing.toy import toy_document

from docket.boundary.call.admission import QueuedAdmission
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.control.rebooking import Rebooking
from docket.ledger.events import Forwarded, ModelDenied
from docket.policy.parse import parse
from docket.pricing.table import PriceTable
from kit.boundary import Stage, raw_upstream, read_request, run, stage

HERE = Path(__file__).parents[1] / "fixtures" / "background"
ASKED = {"model": "acme-chat-1", "input": "hi", "background": True, "store": True, "max_output_tokens": 4000}
POST = "/v1/responses"
GET = "/v1/responses/resp_bg1"
STREAM = f"{GET}?stream=true&starting_after=6"
CANCEL = "/v1/responses/resp_bg2/cancel"


def asked(**more: Any) -> bytes:
    return json.dumps(ASKED | more).encode()  # noqa: TID251 a client's own


class Provider:
    """Answers as ``answers`` says, by the start of the request line; the last one stays."""

    def __init__(self, answers: dict[str, list[bytes]]) -> None:
        self.answers = answers
        self.posts = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            line = head.split(b"\r\n")[0].decode()
            self.posts += line.startswith("POST /v1/responses HTTP")
            left = next(bodies for start, bodies in self.answers.items() if line.startswith(start))
            body = left.pop(0) if len(left) > 1 else left[0]
            body = body.replace(b"resp_bg%d", b"resp_%d" % self.posts)
            kind = b"text/event-stream" if body.startswith(b"event:") else b"application/json"
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, len(body)) + body
            )
            await writer.drain()


def body(name: str) -> bytes:
    return (HERE / name).read_bytes()


def answers(post: bytes | None = None) -> dict[str, list[bytes]]:
    return {
        "POST /v1/responses/resp_bg2/cancel": [body("cancelled.body.json")],
        "POST /v1/responses": [post or body("post.body.json")],
        "GET /v1/responses/resp_bg1?stream": [body("get_stream.sse")],
        "GET /v1/responses/resp_bg1": [body("poll_in_progress.body.json"), body("poll_completed.body.json")],
    }


def play(
    script: Callable[[Stage, Gate, Provider], Awaitable[None]],
    policy: str = "[caps]\nmax_usd = 1\nhold_wait_seconds = 0\n",
    post: bytes | None = None,
) -> Any:
    """The stage after ``script`` and the end of the run."""
    table = PriceTable.parse(toy_document().replace(b'"acme"', b'"openai"'), at="2026-11-30")
    gate = Gate(parse(policy, "docket.toml"), table)

    async def scene() -> Stage:
        provider = Provider(answers(post))
        admission: Any = QueuedAdmission(gate, SystemClock())
        async with raw_upstream(provider) as url, stage(url, admission=admission, usd_cap=True) as on:
            await script(on, gate, provider)
        return on

    return run(scene())


async def read(on: Stage, *targets: str) -> None:
    for target in targets:
        assert (await on.call(target, method="GET")).status == 200


ONCE = {"model": "acme-chat-1", "cost": "0.004", "source": "reported", "reason": "complete"}


def ended(on: Stage) -> dict[str, Any]:
    (end,) = on.record.ends()
    assert end.usage is not None
    cost = str(end.usage.cost_usd) if end.usage.cost_usd is not None else None
    return {"model": end.model, "cost": cost, "source": end.usage.source, "reason": end.reason}


@pytest.mark.parametrize("polls", [(GET, GET), (GET, GET, GET, STREAM), (STREAM,), (STREAM, GET, GET), (GET, STREAM)])
def test_an_answer_is_billed_once_however_often_it_is_read(polls: tuple[str, ...]) -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        assert (await on.call(POST, asked())).status == 200
        assert not on.record.ends(), "an answer that has not ended is no end of the call"
        await read(on, *polls)
        assert gate.inflight == 0
        assert str(gate.budget.booked_usd) == "0.004"

    on = play(script)
    assert ended(on) == ONCE
    assert len(on.record.requests()) == 1
    assert [event.endpoint_class for event in on.record.of(Forwarded)] == ["free"] * len(polls)
    (end,) = on.record.ends()
    assert {item.kind: item.quantity for item in end.usage.items} == {"input": 1000, "output": 200}


def test_two_readers_at_once_bill_it_once() -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await on.call(POST, asked())
        await asyncio.gather(*(on.call(STREAM, method="GET") for _ in range(8)))

    assert ended(play(script)) == ONCE


@pytest.mark.parametrize("polls", [(), (GET,)])
def test_an_answer_that_nobody_saw_end_is_unknown_and_booked_at_its_hold(polls: tuple[str, ...]) -> None:
    holds: list[int] = []

    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await on.call(POST, asked())
        await read(on, *polls)
        holds.append(gate.budget.usd.reserved)
        assert (gate.inflight, gate.budget.usd.booked) == (1, 0)

    on = play(script)
    assert ended(on) == {"model": "acme-chat-1", "cost": None, "source": "none", "reason": "background"}
    fold = Rebooking()
    for event in on.record.events:
        fold.add(SimpleNamespace(event=event))
    assert fold.booked.usd == holds[0] > 0, "a resumed run counts it at its hold too"


def test_a_cancelled_answer_is_believed_what_it_states() -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await on.call(POST, asked())
        assert (await on.call(CANCEL, b"")).status == 200

    on = play(script, post=body("post.body.json").replace(b"resp_bg1", b"resp_bg2"))
    assert ended(on) == ONCE | {"cost": "0.0028", "reason": "error-event"}


def test_an_answer_of_another_run_is_not_this_runs_money() -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await read(on, GET, GET, STREAM)

    on = play(script)
    assert not on.record.ends()
    assert len(on.record.of(Forwarded)) == 3


def test_the_cap_learns_of_the_bill() -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await on.call(POST, asked())
        await read(on, GET, GET)
        assert (await on.call(POST, asked())).status == 400

    on = play(script, "[caps]\nmax_usd = 0.003\nhold_wait_seconds = 0\n")
    assert [breach.cap for breach in on.breaches] == ["max_usd"]
    assert [event.code for event in on.record.of(ModelDenied)] == ["max_usd"]


def test_twenty_that_nobody_reads_do_not_pass_a_cap_that_holds_two() -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        statuses = [(await on.call(POST, asked())).status for _ in range(20)]
        assert statuses == [200] * 2 + [429] * 18
        assert provider.posts == 2

    post = body("post.body.json").replace(b"resp_bg1", b"resp_bg%d")
    play(script, '[caps]\nmax_usd = 0.085\nhold = "worst"\nhold_wait_seconds = 0\n', post)


def test_an_answer_without_an_id_or_with_a_known_one_is_booked_at_its_hold_at_once() -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await on.call(POST, asked())
        hold = gate.budget.usd.reserved
        await on.call(POST, asked())
        assert (gate.inflight, gate.budget.usd.booked) == (1, hold)

    assert len(play(script).record.ends()) == 2


def test_a_stream_in_the_background_that_is_whole_ends_at_once() -> None:
    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await on.call(POST, asked(stream=True))
        assert gate.inflight == 0

    assert ended(play(script, post=body("get_stream.sse"))) == ONCE


def test_a_stream_in_the_background_that_breaks_off_is_joined_by_who_resumes_it() -> None:
    cut = body("get_stream.sse").partition(b"event: response.output_text")[0]

    async def script(on: Stage, gate: Gate, provider: Provider) -> None:
        await on.call(POST, asked(stream=True))
        assert gate.inflight == 1
        await read(on, STREAM)
        assert gate.inflight == 0

    assert ended(play(script, post=cut)) == ONCE
