"""An open call: its two events say what their names say, and it is settled or released once, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from docket.boundary.call.desk import Desk
from docket.boundary.call.open_call import Arrived, OpenCall, end_event, request_event
from docket.clock import SystemClock
from docket.control.breaker import Ended
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused, Settlement
from docket.errors import ClientGoneError, LedgerWriteError
from docket.ledger.codec import to_data
from docket.ledger.events import CallNumber, CapExceeded, Event, Hold
from docket.ledger.usage import Counts, Item, Usage
from docket.primitives.money import Usd
from docket.providers.call import Call, Endpoint, EndpointClass, Observation
from kit.boundary import run

CALL = Call(
    upstream="an-upstream",
    provider="a-provider",
    endpoint=Endpoint(name="/an/endpoint", kind=EndpointClass.METERED, protocol="a-protocol", family="a-family"),
    model="asked",
    stream=True,
    max_output=1,
    body_bytes=8,
    retry_count=2,
)
ADMITTED = Admitted(call=CallNumber(3), hold=Hold(tokens=4, usd=Usd(5)), waited_us=6)
COUNTS = Counts(source="reported", items=(("input", 7),))


def test_the_first_event_says_what_the_call_asks() -> None:
    event = request_event(CALL, ADMITTED, {"target": "/t"}, amended=True)
    assert (event.by, event.private) == ("boundary", {"target": "/t"})
    assert to_data(event) == {
        "call": 3,
        "upstream": "an-upstream",
        "provider": "a-provider",
        "protocol": "a-protocol",
        "endpoint": "/an/endpoint",
        "model": "asked",
        "stream": True,
        "bytes": 8,
        "hold": {"tokens": 4, "usd": "0.000000000005"},
        "waited_us": 6,
        "max_output": 1,
        "amended": True,
        "retry_count": 2,
    }


@pytest.mark.parametrize(("reason", "kind"), [("complete", "model.response"), ("timeout", "model.error")])
def test_the_last_event_says_what_became_of_it(reason: str, kind: str) -> None:
    usage = Usage(source="reported", items=(Item("input", 7, Usd(10**12), 1),), cost_usd=Usd(7 * 10**12))
    arrived = Arrived(
        ended=Ended(reason=reason, status=201),
        seen=Observation(terminal="complete", counts=COUNTS, finish="stop"),
        size=9,
        first_byte_at=110,
        private={"detail": "d"},
        request_id="req",
    )
    event = end_event(
        CALL, ADMITTED, arrived, Settlement(usage=usage, model="served", tier="a-tier"), since=100, now=111
    )
    assert (event.type, event.by, event.private) == (kind, "boundary", {"detail": "d"})
    assert to_data(event) == {
        "call": 3,
        "status": 201,
        "reason": reason,
        "provider": "a-provider",
        "model": "served",
        "tier": "a-tier",
        "upstream": "an-upstream",
        "finish": "stop",
        "provider_request_id": "req",
        "bytes": 9,
        "first_byte_us": 10,
        "duration_us": 11,
        "usage": {
            "source": "reported",
            "items": [{"kind": "input", "quantity": 7, "unit_usd": "1", "per": 1}],
            "cost_usd": "7",
        },
    }


# ── one call, whatever happens to it ──

REFUSED = Refused(code="max_usd", message="no")
BREACH = CapExceeded(cap="max_model_calls", limit="1", observed="1")
ANSWER = Arrived(Ended("complete", 200), None, 1, 0, {})


class Stand:
    """Admission, recorder, carrier and peer of one call, and the list of what they were asked to do."""

    def __init__(self, *, admits: str = "at once", recorder: str = "well", leaves: bool = False) -> None:
        self.admits = admits
        self.recorder = recorder
        self.leaves = leaves
        self.did: list[str] = []
        self.gone: Callable[[], None] | None = None
        self.queue = asyncio.Event()

    def admit(self, call: Call) -> Admitted | Refused | Wait:
        if self.admits == "at once":
            return self._admitted()
        return Wait("max_usd") if self.admits == "in turn" else REFUSED

    async def wait(self, call: Call, wait: Wait) -> Admitted | Refused:
        if self.leaves:
            assert self.gone is not None
            self.gone()
        await self.queue.wait()
        return self._admitted()

    def _admitted(self) -> Admitted:
        self.did.append("admitted")
        return ADMITTED

    def settle(self, admitted: Admitted, call: Call, ended: Ended, seen: Observation | None) -> Settlement:
        self.did.append(f"settled {ended.reason}")
        return Settlement(usage=None, model="m", tier="t", breaches=(BREACH,))

    def release(self, admitted: Admitted) -> None:
        self.did.append("released")

    def refusal(self, *, lost: bool = False) -> Refused | None:
        return REFUSED if lost else None

    def submit(self, event: Event) -> asyncio.Future[object]:
        self.did.append(event.type)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        if self.recorder == "dead":
            raise LedgerWriteError("dead")
        if self.recorder == "loses requests" and event.type == "model.request":
            done.set_result(None)
        else:
            loop.call_soon(lambda: done.done() or done.set_result(event))
        return done

    def arrived(self) -> Arrived:
        self.did.append("asked what arrived")
        return ANSWER

    def on_gone(self, listener: Callable[[], None] | None) -> None:
        self.gone = listener

    def open(self) -> OpenCall:
        desk = Desk.of(
            number="DKT-20261201-AAAAAAAAAA",
            admission=self,
            recorder=self,
            clock=SystemClock(),
            on_breach=lambda _breach: self.did.append("breach told"),
        )
        return OpenCall(desk, CALL, {}, self, self)


REQUEST = ["admitted", "model.request"]
END = ["asked what arrived", "settled complete", "model.response", "cap.exceeded"]


async def use(stand: Stand, *, ends: bool = True, fails: BaseException | None = None) -> None:
    async with stand.open() as begun:
        if isinstance(begun, Refused):
            stand.did.append(f"refused {begun.code}")
            return
        stand.did.append("carried")
        if ends:
            await begun.end()
            stand.did.append("delivered")
        if fails is not None:
            raise fails


def test_a_breach_is_told_after_the_answer_was_delivered() -> None:
    stand = Stand()
    run(use(stand))
    assert stand.did == [*REQUEST, "carried", *END, "delivered", "breach told"]


def test_what_nobody_ended_is_settled_by_what_arrived_where_its_context_is_left() -> None:
    stand = Stand()
    run(use(stand, ends=False))
    assert stand.did == [*REQUEST, "carried", *END, "breach told"]


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    "error", [ValueError(), ClientGoneError("gone"), LedgerWriteError("dead"), KeyboardInterrupt()]
)
def test_a_call_is_settled_once_whatever_is_raised_in_it(error: BaseException, ends: bool) -> None:
    stand = Stand()
    with pytest.raises(type(error)):
        asyncio.run(use(stand, ends=ends, fails=error))
    assert [line for line in stand.did if line.startswith("settled")] == ["settled complete"]
    assert stand.did[-1] == "breach told"


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("admits", ["at once", "in turn"])
def test_a_call_that_is_cancelled_anywhere_is_settled_once_if_it_was_admitted(admits: str, turns: int) -> None:
    stand = Stand(admits=admits)

    async def play() -> None:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(use(stand))
            for turn in range(turns):
                await asyncio.sleep(0)
                if turn == 2:
                    stand.queue.set()
            task.cancel()

    run(play())
    for once in ("model.request", "settled complete", "model.response", "breach told"):
        assert stand.did.count(once) == stand.did.count("admitted")


def test_a_request_that_could_not_be_recorded_is_released_and_refused() -> None:
    stand = Stand(recorder="loses requests")
    run(use(stand))
    assert stand.did == [*REQUEST, "released", "refused max_usd"]


def test_a_call_is_settled_also_where_the_ledger_takes_nothing_more() -> None:
    stand = Stand(recorder="dead")
    with pytest.raises(LedgerWriteError):
        run(use(stand))
    assert [line for line in stand.did if line.startswith(("admitted", "settled", "released", "breach"))] == [
        "admitted",
        "settled complete",
        "breach told",
    ]


def test_a_refusal_leaves_nothing_behind() -> None:
    stand = Stand(admits="never")
    run(use(stand))
    assert stand.did == ["refused max_usd"]


def test_an_agent_that_leaves_while_its_call_waits_is_recorded_and_sends_nothing() -> None:
    stand = Stand(admits="in turn", leaves=True)
    with pytest.raises(ClientGoneError):
        run(use(stand))
    assert stand.did == ["model.denied"]


def test_a_call_ends_once() -> None:
    stand = Stand()

    async def twice() -> None:
        async with stand.open() as begun:
            assert isinstance(begun, OpenCall)
            await begun.end()
            with pytest.raises(AssertionError):
                begun.end()

    run(twice())
    assert stand.did.count("settled complete") == 1
