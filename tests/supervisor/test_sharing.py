"""What is found out of a shared budget before a run leaves a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from docket.control.budget import Amounts
from docket.errors import UsageError
from docket.fleet.database import connect
from docket.fleet.model import Holder, Limits, StoreError
from docket.fleet.periods import Period
from docket.fleet.store import Store
from docket.policy.parse import parse
from docket.supervisor.sharing import share

HOLDER = Holder(run="r1", session=0, machine="m")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(connect(f"sqlite://{tmp_path}/store", create=True))
    made.init()
    made.create("money", Limits(usd=5 * 10**12), Period.parse("day"))
    made.create("calls", Limits(calls=5), Period.parse("total"))
    return made


@pytest.fixture
def shared(store: Store, tmp_path: Path) -> Callable[[str], object]:
    def shared(policy: str) -> object:
        effective, opened = share(parse(policy), f"sqlite://{tmp_path}/store", {})
        opened.close()
        return effective

    return shared


def test_what_budgets_limit_is_limited_and_holds_are_the_worst_case(shared: Callable[[str], object]) -> None:
    policy = shared('[fleet]\nbudgets = ["money", "calls"]\n')
    assert policy.fleet.limits == {"usd", "calls"}  # type: ignore[attr-defined]
    assert (policy.caps.hold, policy.caps_usd, policy.caps_tokens) == ("worst", True, False)  # type: ignore[attr-defined]


def test_a_budget_of_calls_changes_no_holds(shared: Callable[[str], object]) -> None:
    policy = shared('[fleet]\nbudgets = ["calls"]\n')
    assert (policy.caps.hold, policy.caps_usd) == ("expected", False)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ('[fleet]\nbudgets = ["money"]\n[budget]\nmode = "quota"\n', "cannot be kept under budget mode quota"),
        ('[fleet]\nbudgets = ["calls"]\non_store_failure = "allow:1"\n', "none of the shared budgets limits dollars"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_the_start(
    shared: Callable[[str], object], policy: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        shared(policy)


def test_a_budget_that_is_spent_refuses_the_start_and_one_that_is_leased_does_not(
    shared: Callable[[str], object], store: Store
) -> None:
    store.take(HOLDER, ["calls"], Amounts(calls=5), Amounts(calls=5), Amounts(), "a")
    shared('[fleet]\nbudgets = ["calls"]\n')
    store.settle("r1", Amounts(calls=5))
    with pytest.raises(UsageError, match="calls is used up for good: all of its 5 calls are spent"):
        shared('[fleet]\nbudgets = ["calls"]\n')


def test_a_budget_that_is_not_there_refuses_the_start(shared: Callable[[str], object]) -> None:
    with pytest.raises(StoreError, match="no budget taem"):
        shared('[fleet]\nbudgets = ["taem"]\n')
