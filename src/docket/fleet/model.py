"""What a store of shared budgets holds and answers: values only.

Dollars are picodollars, times are microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from docket.control.budget import Amounts
from docket.errors import DocketError
from docket.fleet.periods import Period

Dimension: TypeAlias = Literal["usd", "tokens", "calls"]
DIMENSIONS: tuple[Dimension, ...] = ("usd", "tokens", "calls")
MAX_PICO = 9_000_000 * 10**12
"""Nine million dollars: the sums of a period stand in 64-bit integers."""


class StoreError(DocketError):
    """The store cannot be used as it is: no such budget, an older schema, a file that is none."""

    code = "store"


class StoreAwayError(StoreError):
    """Nobody answers at the store now; trying again may help."""

    code = "store-away"


class Limits(NamedTuple):
    """What a budget allows in a period; None limits nothing."""

    usd: int | None = None
    tokens: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A budget as it was created."""

    number: int
    name: str
    limits: Limits
    period: Period
    parent: int | None = None
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A budget now: ``used`` is what is spent or leased in the present period, ``held`` what of it is only leased."""

    budget: Budget
    parent: str | None
    used: Amounts
    held: Amounts
    runs: int
    """Runs that hold a lease."""
    ends: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One run of a store, for whom an operation is done."""

    run: str
    """Its docket number."""
    session: int
    machine: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A slice of one or more budgets that a run may spend; a dimension that none of them limits is None."""

    id: str
    granted: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """Why there is no lease: what a budget allows is used up."""

    budget: str
    dimension: Dimension
    limit: int
    used: int
    needed: int
    """What the run asked for at least."""
    final: bool
    """Whether what other runs hold and may give back would not be enough either."""
    ends: int | None
    top: tuple[tuple[str, int], ...]
    """The runs that used most of it, with how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the settlement of a run came to."""

    leased: Amounts
    spent: Amounts

    @property
    def returned(self) -> Amounts:
        """What was given back."""
        return Amounts(*(max(0, leased - spent) for leased, spent in zip(self.leased, self.spent, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """A lease in the history of a budget."""

    run: str
    machine: str
    label: str
    taken: int
    granted: Amounts
    used: Amounts
    settled: bool
