"""A store of shared budgets: what runs take before they spend, and give back when they have ended.

Invariants: what is leased of a budget and of each of its parents never passes its limit, in any period; every operation
counts once, however often it is asked for (a lease has an id of the run's own, a settlement the run's total); what a
run took is charged in full until somebody who has its ledger settles it. A run that was not heard of for five minutes,
on the store's clock, is not expected to give anything back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docket.control.budget import Amounts
from docket.errors import UsageError
from docket.fleet import statements as sql
from docket.fleet.database import Database, Row, Transaction
from docket.fleet.model import (
    DIMENSIONS,
    MAX_PICO,
    Budget,
    Exhausted,
    Holder,
    Lease,
    LeaseRow,
    Limits,
    Settled,
    State,
    StoreError,
)
from docket.fleet.periods import SECOND, Period

MAX_DEPTH = 16
"""Budgets from one to the top of its tree."""
EXPIRES_US = 5 * 60 * SECOND
"""After so long a silence a run is not expected to give anything back; runs say more often that they live."""
SHARE = 4
"""A lease is at most this part of what is left, so that other runs find something too, or what the run needs."""
TOP = 5
"""Runs that an exhausted budget names."""


class Store:
    """Budgets in a database."""

    def __init__(self, database: Database) -> None:
        """``database`` is given back by ``close``."""
        self._database = database
        self.kind = database.kind

    def close(self) -> None:
        """Give the connection back."""
        self._database.close()

    # ── the schema ──

    def version(self) -> int:
        """The version of the schema. Raises StoreError where there is none."""
        with self._database.transaction() as tx:
            return self._version(tx)

    def init(self) -> None:
        """Make the tables of an empty store. Raises StoreError where there are some."""
        try:
            version = self.version()
        except StoreError as error:
            if type(error) is not StoreError:
                raise
        else:
            raise StoreError(
                f"this is a store already, of schema {version}", hint="docket store upgrade, if it is older"
            )
        with self._database.transaction() as tx:
            for statement in sql.SCHEMA:
                tx.run(statement)
            tx.run(sql.SET_VERSION, sql.VERSION)

    def check(self) -> None:
        """Raise StoreError where the schema is not the one that this docket knows."""
        version = self.version()
        if version != sql.VERSION:
            hint = "docket store upgrade" if version < sql.VERSION else "a newer docket made it: update this one"
            raise StoreError(f"the store has schema {version}, and this docket knows {sql.VERSION}", hint=hint)

    # ── budgets ──

    def create(self, name: str, limits: Limits, period: Period, parent: str | None = None) -> Budget:
        """Make a budget. Raises UsageError where one of that name exists, StoreError where there is no such parent."""
        _check(name, limits)
        with self._database.transaction() as tx:
            if tx.rows(sql.BUDGET_BY_NAME, name):
                raise UsageError(f"there is a budget {name} already", hint="docket budget set changes its limits")
            above = None if parent is None else self._open_budget(tx, parent)
            if above is not None and len(self._chain(tx, [above])) >= MAX_DEPTH:
                raise UsageError(f"{parent} stands {MAX_DEPTH} budgets deep already")
            ((number,),) = tx.rows(sql.NEXT_NUMBER)
            under = None if above is None else above.number
            tx.run(sql.CREATE_BUDGET, number, name, under, period.text, period.zone.key, *limits, tx.now())
        return Budget(number=number, name=name, limits=limits, period=period, parent=under)

    def set_limits(self, name: str, limits: Limits) -> None:
        """Change what a budget allows from now on; leases that are out stay. Raises StoreError."""
        _check(name, limits)
        with self._database.transaction() as tx:
            tx.run(sql.SET_LIMITS, *limits, self._open_budget(tx, name).number)

    def close_budget(self, name: str) -> None:
        """Let no run take from a budget any more; what is out can still be settled. Raises StoreError."""
        with self._database.transaction() as tx:
            tx.run(sql.CLOSE_BUDGET, tx.now(), self._open_budget(tx, name).number)

    def state(self, name: str) -> State:
        """A budget now. Raises StoreError where there is none."""
        with self._database.transaction() as tx:
            return self._state(tx, self._budget(tx, name))

    def states(self) -> list[State]:
        """All budgets by name."""
        with self._database.transaction() as tx:
            return [self._state(tx, _budget(row)) for row in tx.rows(sql.BUDGETS)]

    def history(self, name: str, most: int) -> list[LeaseRow]:
        """The last leases of a budget, newest first. Raises StoreError."""
        with self._database.transaction() as tx:
            rows = tx.rows(sql.HISTORY, self._budget(tx, name).number, most)
        return [
            LeaseRow(
                run=run,
                machine=machine,
                label=label,
                taken=taken,
                granted=_amounts(figures[:3]),
                used=_amounts(figures[3:6]),
                settled=figures[6] is not None,
            )
            for run, machine, label, taken, *figures in rows
        ]

    def unsettled(self) -> list[tuple[str, str, int]]:
        """Runs that hold leases: number, machine, and when they were last heard of."""
        with self._database.transaction() as tx:
            return [(str(run), str(machine), int(seen)) for run, machine, seen in tx.rows(sql.UNSETTLED)]

    # ── what runs do ──

    def charged(self, names: Sequence[str]) -> list[State]:
        """The budgets ``names`` and all their parents, which a run under them is charged to. Raises StoreError."""
        with self._database.transaction() as tx:
            return [self._state(tx, each) for each in self._chain(tx, [self._open_budget(tx, name) for name in names])]

    def take(
        self, holder: Holder, names: Sequence[str], want: Amounts, least: Amounts, spent: Amounts, lease: str
    ) -> Lease | Exhausted:
        """Take up to ``want``, and at least ``least``, from the budgets ``names`` and all their parents, or nothing.

        ``spent`` is what the run has spent of its open leases so far, for others to see. ``lease`` is a new id of the
        caller's: the same one again gives what it gave. Raises StoreError, StoreAwayError.
        """
        with self._database.transaction() as tx:
            now = tx.now()
            tx.run(sql.SEE_RUN, holder.run, holder.session, holder.machine, holder.label, now, *spent)
            for row in tx.rows(sql.LEASE, lease):
                return Lease(id=lease, granted=Limits(*row))
            chain = self._chain(tx, [self._open_budget(tx, name) for name in names])
            granted: list[int | None] = [None, None, None]
            for budget in chain:
                used = self._used(tx, budget, now)
                for at, limit in enumerate(budget.limits):
                    if limit is None:
                        continue
                    left = limit - used[at]
                    if left < least[at]:
                        return self._exhausted(tx, budget, at, used, least[at], holder.run, now)
                    so_far = granted[at]
                    share = max(least[at], left // SHARE)
                    granted[at] = min(want[at] if so_far is None else so_far, share)
            tx.run(sql.TAKE_LEASE, lease, holder.run, now, *granted)
            for budget in chain:
                slot = budget.period.slot(now)
                tx.run(sql.LEASE_SLOT, lease, budget.number, slot)
                tx.run(sql.CHARGE, budget.number, slot, *(amount or 0 for amount in granted))
            return Lease(id=lease, granted=Limits(*granted))

    def live(self, holder: Holder, spent: Amounts) -> None:
        """Say that a run lives, and what it has spent of its open leases so far. Raises StoreError, StoreAwayError."""
        with self._database.transaction() as tx:
            tx.run(sql.SEE_RUN, holder.run, holder.session, holder.machine, holder.label, tx.now(), *spent)

    def settle(self, run: str, spent: Amounts) -> Settled:
        """Close all leases of a run that came to ``spent`` in all its sessions, and give the rest back.

        A run that spent more than it had leased is charged for it all the same. Raises StoreError, StoreAwayError.
        """
        with self._database.transaction() as tx:
            (before,) = tx.rows(sql.SETTLED_BEFORE, run)
            rest = [max(0, total - int(settled)) for total, settled in zip(spent, before, strict=True)]
            leases = tx.rows(sql.OPEN_LEASES, run)
            leased, charged, now = [0, 0, 0], list(rest) if leases else [0, 0, 0], tx.now()
            for number, (lease, *granted) in enumerate(leases, 1):
                last, used = number == len(leases), [0, 0, 0]
                for at, amount in enumerate(granted):
                    used[at] = rest[at] if last or amount is None else min(rest[at], int(amount))
                    rest[at] -= used[at]
                    leased[at] += int(amount or 0)
                change = [use - int(amount or 0) for use, amount in zip(used, granted, strict=True)]
                tx.run(sql.SETTLE_LEASE, *used, now, lease)
                for budget, slot in tx.rows(sql.SLOTS_OF_LEASE, lease):
                    tx.run(sql.CHARGE, budget, slot, *change)
            return Settled(leased=_amounts(leased), spent=_amounts(charged))

    # ── inside a transaction ──

    def _version(self, tx: Transaction) -> int:
        rows = tx.rows(sql.READ_VERSION)
        if len(rows) != 1:
            raise StoreError("the store does not say which schema it has")
        return int(rows[0][0])

    def _budget(self, tx: Transaction, name: str) -> Budget:
        for row in tx.rows(sql.BUDGET_BY_NAME, name):
            return _budget(row)
        known = ", ".join(str(row[1]) for row in tx.rows(sql.BUDGETS)[:8]) or "there are none"
        raise StoreError(f"there is no budget {name}", hint=f"known: {known}; docket budget create makes one")

    def _open_budget(self, tx: Transaction, name: str) -> Budget:
        budget = self._budget(tx, name)
        if budget.closed:
            raise StoreError(f"the budget {name} is closed", hint="docket budget ls shows those that are open")
        return budget

    def _chain(self, tx: Transaction, budgets: Iterable[Budget]) -> list[Budget]:
        """The ``budgets`` and all their parents, each once. Raises StoreError where one of them is closed."""
        chain: dict[int, Budget] = {}
        for each in budgets:
            budget = each
            while budget.number not in chain:
                chain[budget.number] = budget
                if budget.parent is None:
                    break
                (row,) = tx.rows(sql.BUDGET_BY_NUMBER, budget.parent)
                budget = self._open_budget(tx, str(row[1]))
        return [chain[number] for number in sorted(chain)]

    def _used(self, tx: Transaction, budget: Budget, now: int) -> Amounts:
        (row,) = tx.rows(sql.USED, budget.number, budget.period.since(now))
        return _amounts(row)

    def _held(self, tx: Transaction, budget: Budget, now: int) -> dict[str, Amounts]:
        """What each run that lives may still give back of ``budget``, as far as it said."""
        held = {}
        for run, *figures in tx.rows(sql.HELD, budget.number, budget.period.since(now), now - EXPIRES_US):
            leased, spent = _amounts(figures[:3]), _amounts(figures[3:])
            held[str(run)] = Amounts(*(max(0, each - used) for each, used in zip(leased, spent, strict=True)))
        return held

    def _state(self, tx: Transaction, budget: Budget) -> State:
        now = tx.now()
        held = self._held(tx, budget, now)
        parent = None if budget.parent is None else str(tx.rows(sql.BUDGET_BY_NUMBER, budget.parent)[0][1])
        return State(
            budget=budget,
            parent=parent,
            used=self._used(tx, budget, now),
            held=Amounts(*(sum(each[at] for each in held.values()) for at in range(3))),
            runs=len(held),
            ends=budget.period.ends(now),
        )

    def _exhausted(
        self, tx: Transaction, budget: Budget, at: int, used: Amounts, least: int, run: str, now: int
    ) -> Exhausted:
        limit = budget.limits[at]
        assert limit is not None
        others = sum(held[at] for other, held in self._held(tx, budget, now).items() if other != run)
        spent_by = [
            (str(row[0]), int(row[at + 1])) for row in tx.rows(sql.BY_RUN, budget.number, budget.period.since(now))
        ]
        return Exhausted(
            budget=budget.name,
            dimension=DIMENSIONS[at],
            limit=limit,
            used=used[at],
            needed=least,
            final=limit - used[at] + others < least,
            ends=budget.period.ends(now),
            top=tuple(sorted(spent_by, key=lambda pair: (-pair[1], pair[0]))[:TOP]),
        )


def _check(name: str, limits: Limits) -> None:
    if not (0 < len(name) <= 64 and name.isascii() and all(char.isalnum() or char in "-_./" for char in name)):
        raise UsageError(f"{name!r} is no name of a budget", hint="1 to 64 letters, digits, dashes, dots or slashes")
    if all(limit is None for limit in limits):
        raise UsageError(f"the budget {name} limits nothing", hint="give --max-usd, --max-tokens or --max-calls")
    if limits.usd is not None and limits.usd > MAX_PICO:
        raise UsageError(f"a budget holds at most {MAX_PICO // 10**12} US dollars")


def _budget(row: Row) -> Budget:
    number, name, parent, period, zone, usd, tokens, calls, closed = row
    limits = Limits(*(None if limit is None else int(limit) for limit in (usd, tokens, calls)))
    return Budget(
        number=int(number),
        name=str(name),
        limits=limits,
        period=Period.parse(period, zone),
        parent=None if parent is None else int(parent),
        closed=closed is not None,
    )


def _amounts(figures: Sequence[object]) -> Amounts:
    return Amounts(*(int(str(figure)) for figure in figures))
