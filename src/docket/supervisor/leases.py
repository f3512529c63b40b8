"""Shared budgets of a run: leases are taken before they are needed, recorded before they are spent, settled at the end.

Invariants: a lease counts once it is on the record; the store is asked in a thread, by one request at a time; what it
refuses is an event with its reason; an outage ends nothing, and is told once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from docket.boundary.call.admission import QueuedAdmission
from docket.clock import Clock
from docket.control.budget import Amounts, Budget
from docket.control.decision import Refused
from docket.control.shared import SharedBudget
from docket.errors import LedgerError
from docket.fleet.model import Exhausted, Holder, Lease, Settled, StoreAwayError, StoreError
from docket.ledger.chain import Entry
from docket.ledger.events import BudgetLeased, BudgetRefused, BudgetReturned, CapExceeded, CapName, Event
from docket.primitives.canonical import Json
from docket.primitives.money import Usd

RENEWAL_US = 30_000_000
"""A lease should last about so long at the present rate, so that the store is asked a few times a minute."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds between two tries while the store is away, doubled each time."""
LIVE_SECONDS = 60.0
"""Between two words to the store that this run lives."""
BUSY_RETRY = 2
"""Seconds after which a call comes back that other runs' leases left no room for."""
SETTLE_TRIES = 4
_CAP: CapName = "shared_budget"
UNLIMITED = 10**12
"""Of what an allowance in dollars does not limit: the most that any cap may be."""


class Leasing(Protocol):
    """The store, as a run uses it (``fleet.store.Store``)."""

    kind: str

    def take(
        self, holder: Holder, names: Sequence[str], want: Amounts, least: Amounts, spent: Amounts, lease: str
    ) -> Lease | Exhausted: ...

    def live(self, holder: Holder, spent: Amounts) -> None: ...

    def settle(self, run: str, spent: Amounts) -> Settled: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Under which budgets a run goes, and what holds while the store is away."""

    store: Leasing
    holder: Holder
    names: tuple[str, ...]
    limits: frozenset[str]
    allowance: Usd | None = None


class Leases:
    """Keeps one run supplied."""

    def __init__(
        self,
        terms: Terms,
        budget: Budget,
        admission: QueuedAdmission,
        *,
        base: Amounts,
        record: Callable[[Event], asyncio.Future[Entry | None]],
        on_breach: Callable[[CapExceeded], None],
        tell: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """``base`` is what earlier sessions booked; ``tell`` says aloud what a person should know."""
        self._terms = terms
        self._base = base
        self._budget = budget
        self._admission = admission
        self._record = record
        self._on_breach = on_breach
        self._tell = tell
        self._clock = clock
        self._asked = asyncio.Event()
        self._lease = secrets.token_hex(16)
        self._pause = FIRST_PAUSE
        self._away = False
        self._allowed = False
        self._told: tuple[str, bool, str] | None = None
        """The last refusal that was recorded: the same one again is not."""
        self._seen_us, self._seen = clock.monotonic_us(), Amounts()
        limited = Amounts(*(int(name in terms.limits) for name in ("usd", "tokens", "calls")))
        self._shared = SharedBudget(limited, base, self._asked.set)
        budget.shared = self._shared

    async def keep(self) -> None:
        """Ask the store whenever a call needs more or soon will, until cancelled."""
        with suppress(LedgerError):  # the record is broken, and with it the run
            if any(self._base):
                await self._settle_earlier()
            while True:
                try:
                    async with asyncio.timeout(LIVE_SECONDS):
                        await self._asked.wait()
                except TimeoutError:
                    await self._live()
                    continue
                self._asked.clear()
                await self._renew()

    async def settle(self) -> None:
        """Give back what is left, once no call is under way; say so where that cannot be."""
        total, detail = Amounts(*(meter.booked for meter in self._budget.meters)), ""
        settled: Settled | None = None
        for attempt in range(SETTLE_TRIES):
            try:
                settled = await asyncio.to_thread(self._terms.store.settle, self._terms.holder.run, total)
                break
            except StoreError as error:
                detail = str(error)
                if not isinstance(error, StoreAwayError) or attempt == SETTLE_TRIES - 1:
                    break
                await asyncio.sleep(FIRST_PAUSE)
        self._terms.store.close()
        back = Amounts() if settled is None else settled.returned
        returned = BudgetReturned(
            settled=settled is not None,
            usd=Usd(back.usd),
            tokens=back.tokens,
            calls=back.calls,
            private={"detail": detail} if settled is None else {},
        )
        with suppress(LedgerError):
            await self._record(returned)
        if settled is None:
            run = self._terms.holder.run
            self._tell(f"what {run} leased could not be given back ({detail}): docket budget settle {run}")

    async def _settle_earlier(self) -> None:
        """Give back what an earlier session of the run had leased and did not come to settle."""
        with suppress(StoreError):  # then it is settled with the rest
            await asyncio.to_thread(self._terms.store.settle, self._terms.holder.run, self._base)

    async def _live(self) -> None:
        with suppress(StoreError):  # a store that is away is told when something is needed of it
            terms, spent = self._terms, self._shared.spent(self._budget.meters)
            await asyncio.to_thread(terms.store.live, terms.holder, spent)

    async def _renew(self) -> None:
        shared, meters = self._shared, self._budget.meters
        spent = shared.spent(meters)
        want = shared.want(self._rate(spent))
        try:
            answer = await asyncio.to_thread(
                self._terms.store.take, self._terms.holder, self._terms.names, want, shared.least(), spent, self._lease
            )
        except StoreError as error:
            await self._failed(error)
            return
        self._pause = FIRST_PAUSE
        if self._away:
            self._away = False
            self._tell("the store of shared budgets answers again")
        if isinstance(answer, Lease):
            self._lease = secrets.token_hex(16)
            await self._granted(answer)
        else:
            await self._used_up(answer)
        self._admission.wake()

    def _rate(self, spent: Amounts) -> Amounts:
        """What would be spent until the next renewal if it went on as since the last one."""
        now = self._clock.monotonic_us()
        elapsed, before = max(1, now - self._seen_us), self._seen
        self._seen_us, self._seen = now, spent
        return Amounts(*((new - old) * RENEWAL_US // elapsed for new, old in zip(spent, before, strict=True)))

    async def _granted(self, lease: Lease) -> None:
        usd, tokens, calls = lease.granted
        event = BudgetLeased(
            budgets=list(self._terms.names),
            source="store",
            usd=None if usd is None else Usd(usd),
            tokens=tokens,
            calls=calls,
            private={"lease": lease.id},
        )
        if await self._record(event) is not None:  # what is not on the record is not spent
            self._shared.grant(lease.granted)

    async def _used_up(self, answer: Exhausted) -> None:
        self._shared.ahead = False
        short = any(self._shared.missing)
        if not short:
            return
        if self._budget.breach_event is not None:
            return
        if self._budget.in_flight:
            return  # what they hold and do not need comes back, and whoever waits asks again
        limit, used = self._show(answer, answer.limit), self._show(answer, answer.used)
        told = (answer.budget, answer.final, used)
        top: list[Json] = [{"run": run, answer.dimension: self._show(answer, amount)} for run, amount in answer.top]
        if told != self._told:
            self._told = told
            refused = BudgetRefused(
                away=False, final=answer.final, budget=answer.budget, limit=limit, used=used, private={"top": top}
            )
            await self._record(refused)
        if answer.final:
            most = ", ".join(f"{run} {self._show(answer, amount)}" for run, amount in answer.top)
            needed = self._show(answer, answer.needed)
            taken = f"{used} of {limit} {answer.dimension} are used{f' ({most})' if most else ''}"
            self._tell(f"the shared budget {answer.budget} cannot cover the next call of up to {needed}: {taken}")
            breach = CapExceeded(cap=_CAP, limit=limit, observed=used)
            self._admission.breach(breach)
            await self._record(breach)
            self._on_breach(breach)
            return
        message = f"other runs hold what is left of the budget {answer.budget}: {used} of {limit} are taken"
        self._shared.refuse(
            Refused(code=_CAP, message=message, retry_after=BUSY_RETRY, limit=limit, observed=used, estimated=True)
        )

    async def _failed(self, error: StoreError) -> None:
        """The store is away, or refuses: what is leased may be spent, and then what the policy says."""
        self._shared.ahead = False
        if not self._away:
            self._away = True
            self._tell(f"{error}; what this run has leased may still be spent")
            await self._record(BudgetRefused(away=True, private={"detail": str(error)}))
        allowance = self._terms.allowance
        if allowance is not None and not self._allowed and any(self._shared.missing):
            self._allowed = True
            event = BudgetLeased(budgets=list(self._terms.names), source="allowance", usd=allowance)
            if await self._record(event) is not None:
                self._tell(f"up to {allowance} USD may be spent while it is away")
                self._shared.grant((allowance.pico, UNLIMITED, UNLIMITED))
                self._shared.ahead = False
        elif any(self._shared.missing):
            seconds = max(1, round(self._pause))
            message = "the store of shared budgets gives nothing now, and what this run has leased is spent or reserved"
            self._shared.refuse(Refused(code="store_away", message=message, retry_after=seconds))
        self._admission.wake()
        await asyncio.sleep(self._pause)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)

    def _show(self, answer: Exhausted, amount: int) -> str:
        return str(Usd(amount)) if answer.dimension == "usd" else str(amount)
