"""One call as a transcript: what was durable, what left, what the agent saw, in this order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from docket.boundary.answers.refusals import Answer
from docket.boundary.call.desk import Desk
from docket.boundary.call.exchange import Exchange, Request
from docket.boundary.call.tee import Tee
from docket.boundary.http1.origin import Origin
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.wire import Framing, Header, RequestHead, ResponseHead
from docket.clock import SystemClock
from docket.control.decision import Refused
from docket.errors import ClientGoneError, UpstreamError
from docket.ledger.events import Event
from docket.providers import registry
from kit.boundary import DOCKET, OpenAdmission, run
from kit.calls import call_of

BODY = b'{"model": "m", "stream": true, "messages": []}'
FIRST = b'data: {"model": "m", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
LAST = b"data: [DONE]\n\n"


class Nothing:
    framing = Framing("sized", len(BODY))
    trailers: tuple[Header, ...] = ()

    def whole(self) -> bytes:
        return BODY


class Scene:
    """Four stand-ins and a list. ``steps`` is what the upstream does: bytes, or an error to raise."""

    def __init__(self, *steps: bytes | Exception, sized: bool = False, refuse: Refused | None = None) -> None:
        self.lines: list[str] = []
        self.admission = OpenAdmission(lambda _call: refuse)
        self.steps = list(steps)
        self.head = ResponseHead(1, 200, b"OK", [b"content-type: text/event-stream"])
        self.framing = (
            Framing("sized", sum(len(s) for s in steps if isinstance(s, bytes))) if sized else Framing("chunked")
        )
        self.gone_after: int | None = None
        self.writes = 0
        self.started = False
        self.ended = False
        self.trailers: tuple[Header, ...] = ()
        self.listener: Callable[[], None] | None = None
        self.broken: Refused | None = None
        self.loses: Refused | None = None

    # Recorder
    def refusal(self, *, lost: bool = False) -> Refused | None:
        return self.loses if lost else self.broken

    def submit(self, event: Event) -> asyncio.Future[object]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        reason = getattr(event, "reason", "")
        self.lines.append(f"submitted {event.type} {reason}".strip())

        def durable() -> None:
            if self.loses is not None and event.type == "model.request":
                self.lines.append(f"lost {event.type}")
                done.set_result(None)
            elif not done.done():
                self.lines.append(f"durable {event.type}")
                done.set_result(event)

        loop.call_soon(lambda: loop.call_soon(durable))  # the disk takes two turns of the loop
        return done

    # Upstream and its answer
    async def open(self, request: Outgoing, informed: object) -> Scene:
        self.lines.append("sent upstream")
        if self.steps and isinstance(self.steps[0], Exception):
            raise self.steps.pop(0)
        self.ended = not self.steps
        return self

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        step = self.steps.pop(0) if self.steps else b""
        if isinstance(step, Exception):
            raise step
        if not step or (self.framing.kind == "sized" and not self.steps):
            self.ended = True
        return step

    def read_ready(self) -> bytes:
        return b""

    def close(self) -> None:
        self.lines.append("upstream closed")

    # Client
    def on_gone(self, listener: Callable[[], None] | None) -> None:
        self.listener = listener

    async def informational(self, head: ResponseHead) -> None:
        self.lines.append(f"agent sees {head.status}")

    def start(self, head: ResponseHead, framing: Framing) -> None:
        self.started = True

    async def flush(self) -> None:
        pass

    async def write(self, data: bytes) -> None:
        self.writes += 1
        if self.gone_after is not None and self.writes > self.gone_after:
            raise ClientGoneError("gone")
        self.lines.append(f"agent sees {data[:12]!r}")

    async def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> None:
        self.lines.append(f"agent sees {last[:12]!r} and the end")

    async def refuse(self, answer: Answer) -> None:
        self.lines.append(f"agent sees {answer.status}")

    def cut(self) -> None:
        self.lines.append("agent sees a cut")

    async def play(self) -> list[str]:
        desk = Desk.of(
            number=DOCKET,
            admission=self.admission,
            recorder=self,
            clock=SystemClock(),
            on_breach=lambda _breach: self.lines.append("breach"),
        )
        exchange = Exchange(desk, self)
        endpoint = registry.recognise("openai", "POST", "/v1/chat/completions")
        call = call_of(endpoint, BODY, "/v1/chat/completions")
        outgoing = Outgoing(
            origin=Origin("http", "h", 80), head=RequestHead(b"POST", b"/", 1, ()), target=b"/", body=Nothing()
        )
        tee = Tee(lambda status, media_type: registry.observer_of(call, status=status, media_type=media_type))
        try:
            await exchange.handle(Request(call=call, outgoing=outgoing, private={}), self, tee)
        except ClientGoneError:
            self.lines.append("agent is gone")
        return self.lines


REQUEST = ["submitted model.request", "durable model.request", "sent upstream"]


def test_a_stream_is_recorded_before_it_leaves_and_before_it_ends() -> None:
    assert run(Scene(FIRST, LAST, b"").play()) == [
        *REQUEST,
        f"agent sees {FIRST[:12]!r}",
        "submitted model.response complete",
        "durable model.response",
        f"agent sees {LAST[:12]!r}",
        "upstream closed",
        "agent sees b'' and the end",
    ]


def test_the_last_bytes_of_a_sized_answer_wait_for_its_record() -> None:
    lines = run(Scene(FIRST, LAST, sized=True).play())
    assert lines[-3:] == ["durable model.response", "upstream closed", f"agent sees {LAST[:12]!r} and the end"]


def test_a_terminal_event_is_released_without_waiting_for_the_end_of_the_body() -> None:
    lines = run(Scene(FIRST, LAST, b": more\n\n", b"").play())
    at = lines.index("durable model.response")
    assert lines[at + 1 : at + 3] == [f"agent sees {LAST[:12]!r}", "agent sees b': more\\n\\n'"]


def test_no_call_is_admitted_while_the_record_is_broken() -> None:
    scene = Scene(FIRST, LAST, b"")
    scene.broken = Refused(code="evidence_broken", message="no space", retry_after=1)
    assert run(scene.play()) == ["submitted model.denied", "durable model.denied", "agent sees 429"]
    assert scene.admission.number == 0


def test_a_call_whose_request_is_lost_is_not_sent_and_gives_its_reservation_back() -> None:
    scene = Scene(FIRST, LAST, b"")
    scene.loses = Refused(code="evidence_broken", message="a sync failed")
    lines = ["submitted model.request", "lost model.request", "submitted model.denied", "durable model.denied"]
    assert run(scene.play()) == [*lines, "agent sees 400"]
    assert not scene.admission.open
    assert not scene.admission.ended


def test_an_upstream_that_cannot_be_reached_is_a_recorded_502() -> None:
    lines = run(Scene(UpstreamError("refused", reason="connect")).play())
    assert lines == [*REQUEST, "submitted model.error connect", "durable model.error", "agent sees 502"]


def test_silence_before_the_head_is_a_504() -> None:
    assert run(Scene(UpstreamError("silent", reason="timeout")).play())[-1] == "agent sees 504"


def test_an_answer_cut_in_the_middle_reaches_the_agent_as_a_cut() -> None:
    lines = run(Scene(FIRST, UpstreamError("cut", reason="truncated")).play())
    assert lines[-3:] == ["submitted model.error truncated", "durable model.error", "agent sees a cut"]


def test_a_failure_after_the_terminal_event_does_not_unsay_the_recorded_answer() -> None:
    lines = run(Scene(FIRST, LAST, UpstreamError("cut", reason="truncated")).play())
    assert [line for line in lines if line.startswith("submitted")] == [
        "submitted model.request",
        "submitted model.response complete",
    ]


def test_an_agent_that_leaves_closes_the_upstream_and_its_call_is_booked() -> None:
    scene = Scene(FIRST, FIRST, LAST, b"")
    scene.gone_after = 1
    lines = run(scene.play())
    assert lines[-4:] == [
        "upstream closed",
        "submitted model.error client-gone",
        "durable model.error",
        "agent sees a cut",
    ]
    assert not scene.admission.open


def test_a_refusal_is_recorded_and_nothing_leaves() -> None:
    lines = run(Scene(refuse=Refused(code="max_usd", message="cap reached")).play())
    assert lines == ["submitted model.denied", "durable model.denied", "agent sees 400"]


def test_a_temporary_refusal_is_a_429() -> None:
    refused = Refused(code="breaker_open", message="open", retry_after=3)
    assert run(Scene(refuse=refused).play())[-1] == "agent sees 429"


STEPS = {
    "whole": (FIRST, FIRST, LAST, b""),
    "no terminator": (FIRST, b""),
    "cut": (FIRST, UpstreamError("cut", reason="truncated")),
    "no head": (UpstreamError("refused", reason="connect"),),
}


@pytest.mark.parametrize("turns", range(24))
@pytest.mark.parametrize("steps", STEPS)
def test_a_task_cancelled_anywhere_leaves_exactly_one_end_event(steps: str, turns: int) -> None:
    scene = Scene(*STEPS[steps])

    async def play() -> None:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(scene.play())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()

    run(play())
    requests = [line for line in scene.lines if line == "submitted model.request"]
    ends = [line for line in scene.lines if line.startswith(("submitted model.response", "submitted model.error"))]
    assert len(requests) == len(ends) == (1 if turns else 0)
    assert not scene.admission.open


@pytest.mark.parametrize("turns", range(24))
@pytest.mark.parametrize("steps", STEPS)
def test_an_agent_that_leaves_anywhere_leaves_exactly_one_end_event(steps: str, turns: int) -> None:
    scene = Scene(*STEPS[steps])

    async def play() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scene.play())
            for _ in range(turns):
                await asyncio.sleep(0)
            if scene.listener is not None:
                scene.listener()

    run(play())
    assert scene.lines.count("submitted model.request") == 1
    ends = [line for line in scene.lines if line.startswith(("submitted model.response", "submitted model.error"))]
    assert len(ends) == 1
    assert not scene.admission.open
