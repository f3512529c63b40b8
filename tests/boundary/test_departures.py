"""A client that leaves while its call waits for money: nothing is sent, and ledger, metric and receipt say so."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from tests.pricing.toy import toy_document

from docket.boundary.call.admission import QueuedAdmission
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import Event, ModelDenied
from docket.policy.parse import parse
from docket.pricing.table import PriceTable
from docket.providers.call import Call
from docket.receipt.activity import Activity
from docket.telemetry.metrics import Fold
from kit.boundary import Stage, raw_upstream, read_request, run, stage

POLICY = '[caps]\nmax_usd = 0.015\nhold = "worst"\nhold_wait_seconds = 60\n'
BODY = b'{"model":"acme-chat-1","max_tokens":1000,"messages":[]}'


class WatchedAdmission(QueuedAdmission):
    """Tells when a call waits."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate, SystemClock())
        self.waits: asyncio.Queue[Call] = asyncio.Queue()

    async def wait(self, call: Call, wait: Wait) -> Admitted | Refused:
        self.waits.put_nowait(call)
        return await super().wait(call, wait)


class Silent:
    """Takes requests and never answers; the test ends with it."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.put_nowait((await read_request(reader))[1])
        await reader.read()


async def ask(on: Stage) -> asyncio.StreamWriter:
    _, writer = await on.connect()
    head = f"POST /r/{on.boundary.token}/up/v1/chat/completions HTTP/1.1\r\nHost: b\r\nContent-Length: {len(BODY)}"
    writer.write(head.encode() + b"\r\n\r\n" + BODY)
    return writer


def counted(events: list[Event]) -> tuple[dict[str, int], dict[tuple[str, ...], int]]:
    """What the receipt and the metric count of refusals."""
    chain, metric, activity = Chain(), Fold(), Activity()
    for event in events:
        entry, _, _ = chain.extend(draft(event), ts="2026-11-30T10:00:00.000000Z", elapsed_us=0, entropy=os.urandom)
        metric.add(entry)
        activity.add(entry, entry.event)
    return activity.denied_by_code, dict(metric.denied)


@pytest.mark.parametrize("leaves", [1, 3])
@pytest.mark.parametrize("how", ["client leaves", "run ends"])
def test_a_call_that_waited_for_money_and_whose_client_left_is_counted(how: str, leaves: int) -> None:
    async def scene() -> Stage:
        table = PriceTable.parse(toy_document().replace(b'"acme"', b'"openai"'), at="2026-11-30")
        gate = Gate(parse(POLICY, "docket.toml"), table)
        provider, admission = Silent(), WatchedAdmission(gate)
        watched: Any = admission
        async with raw_upstream(provider) as url, stage(url, admission=watched, usd_cap=True) as on:
            first = await ask(on)
            await provider.requests.get()
            waiting = [await ask(on) for _ in range(leaves)]
            for _ in waiting:
                await admission.waits.get()
            if how == "client leaves":
                for writer in waiting:
                    writer.transport.abort()
                await on.record.until(lambda record: record.of(ModelDenied))
            else:
                await on.boundary.close()
            for writer in (first, *waiting):
                writer.transport.abort()
        assert provider.requests.empty(), "a call that was not admitted was sent"
        assert gate.inflight == 0
        return on

    on = run(scene())
    receipt, metric = counted(on.record.events)
    assert receipt == {"client_gone": leaves}
    assert metric == {("client_gone",): leaves}
    assert len(on.record.requests()) == len(on.record.ends()) == 1
    assert {(event.upstream, event.model) for event in on.record.of(ModelDenied)} == {("up", "acme-chat-1")}
