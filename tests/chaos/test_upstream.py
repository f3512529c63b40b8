"""Every fault of the vocabulary as the agent feels it, over real sockets, and its event in the record."""

from __future__ import annotations

import asyncio
import json

import pytest

from docket.boundary.call.ports import Recorder, Upstream
from docket.chaos.upstream import DrillUpstream
from docket.ledger.events import FaultInjected, ModelError, ModelRequest, ModelResponse
from docket.sim.answers import Step
from docket.sim.faults import Plan, parse
from docket.sim.upstream import Script, ScriptedProvider
from kit.boundary import Answered, Stage, run, stage

CHAT = json.dumps({"model": "m", "messages": []}).encode()  # noqa: TID251 (a client's own)
STREAM = json.dumps({"model": "m", "stream": True, "messages": []}).encode()  # noqa: TID251 (a client's own)


class Drill:
    """Plays requests through a drill; its sleeps are a list."""

    def __init__(self, faults: str, seed: int = 1) -> None:
        self.plan = Plan(parse(faults), seed)
        self.slept: list[float] = []
        self.record: list[object] = []
        self.requests = 0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))

    def around(self, inner: Upstream, recorder: Recorder) -> Upstream:
        async def record(event: FaultInjected) -> None:
            await recorder.submit(event)

        return DrillUpstream(inner, self.plan, record, self.sleep)

    def play(self, *bodies: bytes) -> list[Answered]:
        async def play() -> list[Answered]:
            provider = ScriptedProvider(Script((Step(text="some words " * 20, times=0),)))
            async with stage(await provider.start() + "/v1", around=self.around) as on:
                answers = [await on.call("/v1/chat/completions", body) for body in bodies]
                self._keep(on)
            self.requests = provider.count
            await provider.close()
            return answers

        return run(play())

    def _keep(self, on: Stage) -> None:
        self.record = list(on.record.events)
        self.ends = [end.reason for end in on.record.ends()]

    def faults(self) -> list[FaultInjected]:
        return [event for event in self.record if isinstance(event, FaultInjected)]


PLAIN = Drill("jitter@0").play(CHAT, STREAM)


@pytest.mark.parametrize(
    ("fault", "slept"),
    [("latency=200ms", [0.2]), ("slow_close=300ms", [0.3]), ("slicer=9", []), ("jitter=100ms", None)],
)
@pytest.mark.parametrize("which", [0, 1], ids=["json", "stream"])
def test_slow_networks_change_no_byte(fault: str, slept: list[float] | None, which: int) -> None:
    drill = Drill(fault)
    (answer,) = drill.play((CHAT, STREAM)[which])
    assert (answer.status, drill.ends) == (200, ["complete"])
    assert len(answer.body) == len(PLAIN[which].body)
    if slept is not None:
        assert drill.slept == slept
    else:
        assert 0 <= drill.slept[0] < 0.1


def test_a_narrow_line_takes_the_time_that_its_bytes_need() -> None:
    drill = Drill("bandwidth=1KB")
    (answer,) = drill.play(STREAM)
    assert abs(sum(drill.slept) - len(answer.body) / 1000) < 0.001


@pytest.mark.parametrize(
    ("fault", "body", "status", "reason"),
    [
        ("timeout=5s", CHAT, 504, "timeout"),
        ("reset_peer", CHAT, 502, "truncated"),
        ("drop", CHAT, 502, "truncated"),
        ("status=503", CHAT, 503, "status"),
        ("status=429", STREAM, 429, "status"),
        ("error_event", STREAM, 200, "error-event"),
        ("error_event", CHAT, 200, "error-event"),
        ("limit_data=40", STREAM, 200, "truncated"),
    ],
)
def test_failures_are_errors_of_the_call(fault: str, body: bytes, status: int, reason: str) -> None:
    drill = Drill(fault)
    (answer,) = drill.play(body)
    assert (answer.status, drill.ends) == (status, [reason])


def test_a_changed_byte_and_a_doubled_piece_reach_the_agent_and_the_digest_alike() -> None:
    for fault in ("corrupt", "duplicate"):
        drill = Drill(fault)
        (answer,) = drill.play(CHAT)
        assert answer.status == 200
        if fault == "duplicate":
            assert len(answer.body) == 2 * len(PLAIN[0].body)
        else:
            assert answer.body not in (PLAIN[0].body,)


def test_every_injection_is_recorded_before_it_is_felt_and_never_without_a_request() -> None:
    drill = Drill("status=500@0.5,latency=1ms@0.3", seed=4)
    answers = drill.play(*[CHAT] * 30)
    hit = {fault.detail["request"] for fault in drill.faults() if fault.detail and fault.fault == "status"}
    assert [n for n, answer in enumerate(answers, 1) if answer.status == 500] == sorted(hit)
    assert drill.requests == 30 - len(hit), "a drill's answer never reached the provider"
    order = [type(event) for event in drill.record]
    for place, kind in enumerate(order):
        if kind is FaultInjected:
            assert order[place - 1] in (ModelRequest, FaultInjected)
        if kind in (ModelResponse, ModelError):
            assert order[place - 1] in (ModelRequest, FaultInjected)


def test_the_same_seed_gives_the_same_story() -> None:
    def story(seed: int) -> list[tuple[str, object]]:
        drill = Drill("status=500@0.4,drop@0.2,jitter=1ms", seed=seed)
        drill.play(*[CHAT] * 12)
        return [(fault.fault, fault.detail) for fault in drill.faults()] + list(enumerate(drill.slept))

    assert story(9) == story(9)
    assert story(9) != story(10)


def test_a_drill_that_the_agent_leaves_ends_its_call() -> None:
    async def play() -> None:
        drill = Drill("timeout=3600s")
        entered = asyncio.Event()

        async def forever(seconds: float) -> None:
            entered.set()
            await asyncio.Event().wait()

        drill.sleep = forever  # type: ignore[method-assign]
        async with stage("http://127.0.0.1:9/v1", around=drill.around) as on:
            _, writer = await on.connect()
            head = b"POST %s/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (on.prefix, len(CHAT)) + CHAT)
            await entered.wait()
            writer.close()
            await on.record.until(lambda record: record.ends())
            assert on.record.ends()[0].reason == "client-gone"

    run(play())
