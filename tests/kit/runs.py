"""Runs on a real disk: a run directory, a writer, some events."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path

from docket.clock import SystemClock
from docket.ledger.events import (
    CallNumber,
    Event,
    Hold,
    ModelRequest,
    ModelResponse,
    SessionEnd,
    SessionStart,
)
from docket.ledger.usage import Item, Usage
from docket.primitives.money import Usd
from docket.primitives.signature import SigningKey
from docket.storage.durable import Disk
from docket.storage.paths import RunDirectory, docket_number
from docket.storage.record import Position
from docket.storage.writer import LedgerWriter

NUMBER = "DKT-20261130-0123456789"
KEY = SigningKey(b"\x01" * 32)


def new_run(root: Path, disk: Disk | None = None, number: str | None = None) -> RunDirectory:
    """A new run directory under ``root``."""
    return RunDirectory.create(
        root / ".docket", number or docket_number(SystemClock().unix_us(), os.urandom), disk=disk
    )


def session_start(number: str, key: SigningKey = KEY) -> SessionStart:
    return SessionStart(
        docket=number,
        session=0,
        run_key=key.public.hex(),
        policy="0" * 64,
        prices="1" * 64,
        tool={"name": "docket"},
        platform={"system": "Linux"},
        private={"argv": ["agent"]},
    )


def session_end() -> SessionEnd:
    return SessionEnd(outcome="completed", exit={"code": 0}, totals={}, usage_tree={}, ops={})


def request(call: int, size: int = 0) -> ModelRequest:
    """The request of call ``call``, with ``size`` more characters in a private member."""
    return ModelRequest(
        call=CallNumber(call),
        upstream="openai",
        provider="openai",
        protocol="openai-chat",
        endpoint="/v1/chat/completions",
        model="gpt-test",
        stream=True,
        bytes=300,
        hold=Hold(tokens=100, usd=Usd(10**9)),
        waited_us=0,
        private={"target": "/v1/chat/completions", "request_sha256": "0" * 64, **({"pad": "x" * size} if size else {})},
    )


def response(call: int) -> ModelResponse:
    usage = Usage(
        source="reported",
        items=(Item(kind="input", quantity=7, unit_usd=Usd.parse("1.5"), per=1_000_000),),
        cost_usd=Usd.parse("0.0000105"),
    )
    return ModelResponse(
        call=CallNumber(call),
        status=200,
        reason="complete",
        provider="openai",
        model="gpt-test",
        tier="standard",
        usage=usage,
        private={"response_sha256": "1" * 64},
    )


def some_events(calls: int, rng: random.Random | None = None) -> list[Event]:
    """Requests and responses of ``calls`` calls; with ``rng`` of random size, up to a few pages."""
    sizes = [rng.choice([0, rng.randint(0, 300), rng.randint(0, 9000)]) if rng else 0 for _ in range(calls)]
    return [event for call in range(1, calls + 1) for event in (request(call, sizes[call - 1]), response(call))]


async def write_run(run: RunDirectory, events: Iterable[Event], *, end: bool = True) -> Position:
    """Write a whole run: start, ``events``, end, checkpoint; then close."""
    writer = LedgerWriter.create(run, key=KEY, clock=SystemClock())
    await writer.append_watched(session_start(run.name))
    await writer.checkpoint()
    for event in events:
        await writer.append(event)
    if end:
        await writer.append_watched(session_end())
    position = await writer.checkpoint()
    await writer.close()
    return position
