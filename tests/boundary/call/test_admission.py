"""The queue of calls that wait for money: in order, within a bound, and leaving no trace when they go away."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine

import pytest
from tests.control.kit import COMPLETE, answer, call, gate

from docket.boundary.call.admission import QueuedAdmission
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.control.breaker import Ended
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused
from docket.ledger.events import CapExceeded
from docket.providers.call import Call

Test = Callable[..., Coroutine[None, None, None]]


def on_a_loop(test: Test) -> Callable[..., None]:
    """Run an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


ONE_AT_A_TIME = "[caps]\nmax_usd = 0.011\nhold_wait_seconds = {}\n"


async def admitted_by(queue: QueuedAdmission, asked: Call) -> Admitted | Refused:
    """What a call hears in the end: at once, or after its turn in the queue."""
    decision = queue.admit(asked)
    return await queue.wait(asked, decision) if isinstance(decision, Wait) else decision


async def admitted(queue: QueuedAdmission, asked: Call) -> Admitted:
    decision = await admitted_by(queue, asked)
    assert isinstance(decision, Admitted), decision
    return decision


def queue_over(gate: Gate) -> QueuedAdmission:
    return QueuedAdmission(gate, SystemClock())


@on_a_loop
async def test_calls_that_wait_are_served_in_the_order_in_which_they_came() -> None:
    queue = queue_over(gate(ONE_AT_A_TIME.format(30)))
    served: list[int] = []

    async def one(number: int) -> None:
        mine = await admitted(queue, call())
        served.append(number)
        await asyncio.sleep(0)
        queue.settle(mine, call(), COMPLETE, answer(1, 1))

    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(one(number))
    assert served == list(range(20))


@on_a_loop
async def test_who_waits_too_long_is_refused_for_now() -> None:
    queue = queue_over(gate(ONE_AT_A_TIME.format("0.05")))
    first = await admitted(queue, call())
    decision = await admitted_by(queue, call())
    assert isinstance(decision, Refused)
    assert (decision.code, decision.retry_after, decision.estimated) == ("max_usd", 1, True)
    queue.settle(first, call(), COMPLETE, answer())
    await admitted(queue, call())


@on_a_loop
async def test_without_waiting_the_refusal_comes_at_once() -> None:
    queue = queue_over(gate(ONE_AT_A_TIME.format(0)))
    await admitted(queue, call())
    decision = await admitted_by(queue, call())
    assert isinstance(decision, Refused)
    assert not decision.final


@on_a_loop
async def test_a_waiting_call_that_is_cancelled_leaves_its_turn_to_the_next() -> None:
    queue = queue_over(gate(ONE_AT_A_TIME.format(30)))
    first = await admitted(queue, call())
    async with asyncio.TaskGroup() as tasks:
        gone = tasks.create_task(admitted_by(queue, call()))
        stays = tasks.create_task(admitted_by(queue, call()))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        queue.settle(first, call(), COMPLETE, answer(1, 1))
    last = stays.result()
    assert isinstance(last, Admitted)
    assert last.waited_us > 0
    assert last.call == 2


@on_a_loop
async def test_a_cap_that_others_watch_refuses_at_once_whoever_waits() -> None:
    queue = queue_over(gate(ONE_AT_A_TIME.format(30)))
    await admitted(queue, call())
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(admitted_by(queue, call())) for _ in range(3)]
        await asyncio.sleep(0)
        queue.breach(CapExceeded(cap="max_wall_seconds", limit="5", observed="5"))
    for refused in (task.result() for task in waiting):
        assert isinstance(refused, Refused)
        assert (refused.code, refused.final) == ("max_wall_seconds", True)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("mode", ["expected", "worst"])
@on_a_loop
async def test_two_hundred_callers_at_once_keep_the_cap_and_can_use_it(mode: str, seed: int) -> None:
    """Calls that cost 0.01 to 0.05 dollars under a cap of one dollar."""
    rng = random.Random(seed)
    g = gate(f'[caps]\nmax_usd = 1\nhold = "{mode}"\nhold_wait_seconds = 60\n')
    queue = queue_over(g)
    asked = call(max_output=5000, body_bytes=500)
    refusals: list[Refused] = []

    async def caller() -> None:
        while True:
            decision = await admitted_by(queue, asked)
            if isinstance(decision, Refused):
                refusals.append(decision)
                if decision.final:
                    return
                continue
            for _ in range(rng.randrange(1, 5)):
                await asyncio.sleep(0)
            queue.settle(decision, asked, COMPLETE, answer(0, rng.randrange(1000, 5001)))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(200):
            tasks.create_task(caller())
    booked = g.budget.usd.booked
    assert booked <= (1_050_000_000_000 if mode == "expected" else 1_000_000_000_000)
    assert booked >= 900_000_000_000
    assert (g.budget.usd.reserved, g.inflight) == (0, 0)
    assert {refused.code for refused in refusals} == {"max_usd"}


@on_a_loop
async def test_a_call_that_waits_for_money_asks_the_breaker_again_when_it_wakes() -> None:
    queue = queue_over(gate(ONE_AT_A_TIME.format(30) + "[resilience]\nbreaker_threshold = 1\n"))
    first = await admitted(queue, call())
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(admitted_by(queue, call()))
        await asyncio.sleep(0)
        settlement = queue.settle(first, call(), Ended(reason="connect"), None)
    assert [event.type for event in settlement.events] == ["x-docket.breaker-open"]
    refused = waiting.result()
    assert isinstance(refused, Refused)
    assert (refused.code, refused.retry_after) == ("breaker_open", 30)
