"""Leases of a run against a store that grants, is used up, goes away and comes back; the record says each of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from tests.control.kit import COMPLETE, answer, call, gate

from docket.boundary.call.admission import QueuedAdmission
from docket.clock import SystemClock
from docket.control.budget import Amounts, Wait
from docket.control.decision import Admitted, Refused
from docket.fleet.model import Exhausted, Holder, Lease, Limits, Settled, StoreAwayError, StoreError
from docket.ledger.events import BudgetLeased, BudgetRefused, BudgetReturned, CapExceeded
from docket.primitives.money import Usd
from docket.supervisor import leases as module
from docket.supervisor.leases import Leases, Terms
from kit.boundary import Record

Answer = Callable[[str, Amounts, Amounts], Lease | Exhausted]


def on_a_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        async def limited() -> None:
            async with asyncio.timeout(30):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0)


class Shop:
    """A store whose answers the test gives, in order; the last one goes on."""

    kind = "sqlite"

    def __init__(self, *answers: Answer | StoreError) -> None:
        self.answers = list(answers)
        self.ids: list[str] = []
        self.lived: list[Amounts] = []
        self.settled: list[tuple[str, Amounts]] = []
        self.away_at_the_end = False

    def take(
        self, holder: Holder, names: Sequence[str], want: Amounts, least: Amounts, spent: Amounts, lease: str
    ) -> Lease | Exhausted:
        self.ids.append(lease)
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, StoreError):
            raise said
        return said(lease, want, least)

    def live(self, holder: Holder, spent: Amounts) -> None:
        self.lived.append(spent)

    def settle(self, run: str, spent: Amounts) -> Settled:
        if self.away_at_the_end:
            raise StoreAwayError("no route to the store")
        self.settled.append((run, spent))
        return Settled(leased=Amounts(calls=10), spent=spent)

    def close(self) -> None:
        pass


def calls(count: int) -> Answer:
    return lambda lease, want, least: Lease(id=lease, granted=Limits(calls=count))


def used_up(*, final: bool) -> Answer:
    return lambda lease, want, least: Exhausted(
        budget="team",
        dimension="calls",
        limit=10,
        used=10,
        needed=least.calls,
        final=final,
        ends=None,
        top=(("DKT-other", 9),),
    )


class Run:
    """A gate under a shared budget of calls."""

    def __init__(self, shop: Shop, *, allowance: Usd | None = None, earlier: int = 0) -> None:
        self.gate = gate("[caps]\nhold_wait_seconds = 20\n")
        self.gate.budget.calls.booked = earlier
        self.admission = QueuedAdmission(self.gate, SystemClock())
        self.record = Record()
        self.breaches: list[CapExceeded] = []
        self.told: list[str] = []
        terms = Terms(
            store=shop,
            holder=Holder(run="DKT-1", session=0, machine="m"),
            names=("team",),
            limits=frozenset({"calls", "usd"} if allowance else {"calls"}),
            allowance=allowance,
        )
        self.leases = Leases(
            terms,
            self.gate.budget,
            self.admission,
            base=Amounts(calls=earlier),
            record=self.record.submit,  # type: ignore[arg-type]
            on_breach=self.breaches.append,
            tell=self.told.append,
            clock=SystemClock(),
        )

    async def __aenter__(self) -> Run:
        self.task = asyncio.ensure_future(self.leases.keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()

    async def ask(self) -> Admitted | Refused:
        decision = self.admission.admit(call())
        return await self.admission.wait(call(), decision) if isinstance(decision, Wait) else decision

    async def spend(self) -> Admitted | Refused:
        admitted = await self.ask()
        if isinstance(admitted, Admitted):
            self.admission.settle(admitted, call(), COMPLETE, answer())
        return admitted

    async def spend_in_the_end(self) -> None:
        """Come back as often as it takes, as an agent does."""
        while not isinstance(await self.spend(), Admitted):
            await asyncio.to_thread(lambda: None)

    def kinds(self) -> list[Any]:
        return [type(event) for event in self.record.events]


@on_a_loop
async def test_a_call_waits_for_its_lease_which_is_on_the_record_first():
    async with Run(Shop(calls(2))) as run:
        assert isinstance(await run.spend(), Admitted)
        (leased,) = run.record.of(BudgetLeased)
        assert (leased.budgets, leased.source, leased.calls, leased.usd) == (["team"], "store", 2, None)
        assert run.gate.budget.calls.booked == 1


@on_a_loop
async def test_many_calls_take_few_leases_each_with_an_id_of_its_own():
    shop = Shop(calls(50))
    async with Run(shop) as run:
        for _ in range(200):
            assert isinstance(await run.spend(), Admitted)
        assert len(set(shop.ids)) == len(shop.ids) <= 6


@on_a_loop
async def test_a_used_up_budget_is_a_breach_that_names_it_and_who_spent_it():
    async with Run(Shop(calls(1), used_up(final=True))) as run:
        assert isinstance(await run.spend(), Admitted)
        refused = await run.spend()
        assert isinstance(refused, Refused)
        assert (refused.code, refused.final) == ("shared_budget", True)
        (event,) = run.record.of(BudgetRefused)
        assert (event.budget, event.final, event.limit, event.used) == ("team", True, "10", "10")
        assert event.private["top"] == [{"run": "DKT-other", "calls": "9"}]
        while not run.breaches:
            await asyncio.to_thread(lambda: None)
        assert run.breaches == run.record.of(CapExceeded)
        assert run.breaches == [CapExceeded(cap="shared_budget", limit="10", observed="10")]
        assert "DKT-other 9" in run.told[-1]
        assert isinstance(await run.spend(), Refused)  # and stays so, without another event
        assert run.kinds().count(BudgetRefused) == 1


@on_a_loop
async def test_where_other_runs_hold_the_rest_a_call_is_refused_for_now_and_said_once():
    async with Run(Shop(calls(1), used_up(final=False), used_up(final=False), calls(1))) as run:
        await run.spend()
        for _ in range(2):
            refused = await run.spend()
            assert isinstance(refused, Refused)
            assert (refused.code, refused.final) == ("shared_budget", False)
        assert run.kinds().count(BudgetRefused) == 1
        assert run.breaches == []
        await run.spend_in_the_end()
        assert len(run.record.of(BudgetLeased)) == 2


@on_a_loop
async def test_calls_under_way_may_give_back_what_another_needs():
    async with Run(Shop(calls(2), used_up(final=True))) as run:
        first, second = await run.ask(), await run.ask()
        assert isinstance(first, Admitted)
        assert isinstance(second, Admitted)
        waiting = asyncio.ensure_future(run.ask())
        run.admission.release(first)
        assert isinstance(await waiting, Admitted)
        assert run.breaches == []


@on_a_loop
async def test_a_store_that_is_away_refuses_for_now_is_told_once_and_comes_back_under_the_same_id():
    away = StoreAwayError("connection refused")
    shop = Shop(calls(1), away, away, away, calls(5))
    async with Run(shop) as run:
        await run.spend()
        refused = await run.spend()
        assert isinstance(refused, Refused)
        assert (refused.code, refused.final) == ("store_away", False)
        await run.spend_in_the_end()
        assert run.kinds().count(BudgetRefused) == 1
        assert run.record.of(BudgetRefused)[0].away
        assert run.told == [
            "connection refused; what this run has leased may still be spent",
            "the store of shared budgets answers again",
        ]
        assert len(set(shop.ids[1:5])) == 1  # whether a lost answer had granted it is unknown: never taken twice


@on_a_loop
async def test_an_allowance_is_spent_once_and_on_the_record():
    async with Run(Shop(StoreAwayError("down")), allowance=Usd.parse("0.02")) as run:
        spent = 0
        while isinstance(await run.spend(), Admitted):
            spent += 1
        (leased,) = run.record.of(BudgetLeased)
        assert (leased.source, str(leased.usd)) == ("allowance", "0.02")
        assert spent >= 1
        assert run.gate.budget.booked_usd <= Usd.parse("0.02")


@on_a_loop
async def test_the_end_gives_back_what_is_left_and_says_so():
    shop = Shop(calls(10))
    async with Run(shop) as run:
        await run.spend()
        await run.leases.settle()
        assert [(name, spent.calls) for name, spent in shop.settled] == [("DKT-1", 1)]
        (returned,) = run.record.of(BudgetReturned)
        assert (returned.settled, returned.calls) == (True, 9)


@on_a_loop
async def test_an_end_without_the_store_says_how_to_settle_it():
    shop = Shop(calls(10))
    shop.away_at_the_end = True
    async with Run(shop) as run:
        await run.spend()
        await run.leases.settle()
        (returned,) = run.record.of(BudgetReturned)
        assert (returned.settled, returned.private["detail"]) == (False, "no route to the store")
        assert "docket budget settle DKT-1" in run.told[-1]


@on_a_loop
async def test_a_resumed_run_settles_what_the_earlier_session_left_before_it_takes_more():
    shop = Shop(calls(3))
    async with Run(shop, earlier=7) as run:
        await run.spend()
        assert shop.settled == [("DKT-1", Amounts(calls=7))]


@on_a_loop
async def test_a_quiet_run_says_that_it_lives(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LIVE_SECONDS", 0.01)
    shop = Shop(calls(3))
    async with Run(shop) as run:
        await run.spend()
        while len(shop.lived) < 2:
            await asyncio.to_thread(lambda: None)
        assert shop.lived[-1].calls == 1
        assert isinstance(await run.spend(), Admitted)
