"""Runs on a real disk: a run directory, a writer, some events."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path

from docket.clock import Clock, SystemClock
from docket.control.evidence import Guard
from docket.ledger.events import (
    CallNumber,
    Event,
    Hold,
    ModelRequest,
    ModelResponse,
    PolicyApplied,
    SessionEnd,
    SessionStart,
)
from docket.ledger.usage import Item, Usage
from docket.policy.document import digest, document
from docket.policy.model import Policy
from docket.primitives.canonical import JsonObject, decode_object
from docket.primitives.instant import timestamp
from docket.primitives.money import Usd
from docket.primitives.signature import SigningKey
from docket.receipt.model import Run
from docket.storage.durable import Disk
from docket.storage.keys import new_run_key
from docket.storage.paths import RECEIPT, RunDirectory, docket_number
from docket.storage.record import Position
from docket.storage.writer import LedgerWriter
from docket.supervisor.ledger_history import Session
from docket.supervisor.resumption import take_up
from docket.supervisor.seal import TOOL, Keys, seal
from docket.supervisor.seal import session_start as make_start

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
        upstream="openai",
        usage=usage,
        private={"response_sha256": "1" * 64},
    )


def some_events(calls: int, rng: random.Random | None = None, first: int = 1) -> list[Event]:
    """Requests and responses of ``calls`` calls from ``first`` on; with ``rng`` of random size, up to a few pages."""
    sizes = [rng.choice([0, rng.randint(0, 300), rng.randint(0, 9000)]) if rng else 0 for _ in range(calls)]
    return [event for call in range(calls) for event in (request(first + call, sizes[call]), response(first + call))]


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


POLICY = document(Policy(), lambda count: b"\x09" * count)
"""The document of the default policy, as a run records it."""
TABLE: JsonObject = {"digest": "1" * 64, "source": "test", "date": "2026-11-30"}


def policy_applied() -> PolicyApplied:
    """What a closed run's receipt is built from."""
    return PolicyApplied(policy=digest(POLICY), private={"document": POLICY, "prices": TABLE})


def first_start(number: str, key: SigningKey, operator: SigningKey | None = None) -> SessionStart:
    """A start as the supervisor makes it."""
    return make_start(
        docket=number,
        keys=Keys(run=key, operator=operator),
        policy=digest(POLICY),
        prices=str(TABLE["digest"]),
        private={"argv": ["agent"]},
    )


async def write_unsealed(run: RunDirectory, calls: int, *, operator: SigningKey | None = None) -> None:
    """A run whose supervisor dies after ``calls`` calls, the last one open; a checkpoint after every second event."""
    key = new_run_key()
    writer = LedgerWriter.create(run, key=key, clock=SystemClock())
    await writer.append_watched(first_start(run.name, key, operator))
    await writer.append(policy_applied())
    await writer.checkpoint()
    for number, event in enumerate(some_events(calls)[:-1]):
        await writer.append(event)
        if number % 2:
            await writer.checkpoint()
    await writer.close()


async def continue_run(
    path: Path, *, operator: SigningKey | None = None, calls: int = 1, clock: Clock | None = None
) -> JsonObject:
    """Resume the run at ``path``, make ``calls`` calls in the new session, and seal it; the receipt."""
    clock, keys = clock or SystemClock(), Keys(run=new_run_key(), operator=operator)
    taken = take_up(path, Policy(), operator, clock)
    continues, first = taken.continues, taken.past.rebooking.last_call + 1
    guard = Guard("continue", None, taken.past.before)
    writer = LedgerWriter.resume(taken.run, taken.lock, taken.past.read, key=keys.run, clock=clock, guard=guard)
    writer.observe(taken.past.totals.add)
    writer.observe(taken.past.findings.add)
    start = await writer.append_watched(
        make_start(
            docket=taken.run.name,
            keys=keys,
            policy=digest(POLICY),
            prices=str(TABLE["digest"]),
            private={},
            session=len(taken.past.sessions),
            continues=continues,
        )
    )
    assert start is not None
    taken.past.sessions.append(Session(start))
    await writer.append(policy_applied())
    if taken.torn is not None:
        await writer.append(taken.torn)
    await writer.checkpoint()
    for event in some_events(calls, first=first):
        await writer.append(event)
    receipt = Run(
        docket=taken.run.name,
        created_at=timestamp(clock.unix_us()),
        tool=TOOL,
        outcome="completed",
        exit={"code": 0},
        policy=POLICY,
        tables=(*taken.past.tables, TABLE),
    )
    past = taken.past
    await seal(
        taken.run, writer, past.totals, past.findings, lambda: receipt, keys, past.starts, os.urandom, elsewhere=()
    )
    await writer.close()
    taken.run.close()
    return decode_object((path / RECEIPT).read_bytes()[:-1])
