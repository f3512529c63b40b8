"""A store of shared budgets, on both engines: never more out than a budget holds, and every settlement exact."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docket.control.budget import Amounts
from docket.errors import UsageError
from docket.fleet.database import Sqlite
from docket.fleet.model import Exhausted, Holder, Lease, Limits, Settled, StoreError
from docket.fleet.periods import HOUR, Period
from docket.fleet.store import EXPIRES_US, MAX_DEPTH, Store

Opened = Callable[[], Store]
TOTAL = Period.parse("total")


def holder(run: str) -> Holder:
    return Holder(run=run, session=0, machine="m")


def take(store: Store, run: str, want: int, least: int = 1, *, lease: str, of: str = "team", spent: int = 0) -> Any:
    """A lease of calls."""
    return store.take(
        holder(run), [of], Amounts(calls=want), Amounts(calls=least), Amounts(calls=spent), f"{run}-{lease}"
    )


@pytest.fixture(autouse=True)
def _whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may take all that is left, but for the test of that."""
    if "part" not in request.node.name:
        monkeypatch.setattr("docket.fleet.store.SHARE", 1)


def test_a_run_takes_no_more_than_a_part_of_what_is_left_or_what_it_needs(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=100), TOTAL)
    granted = [take(store, "r1", 1000, lease=str(number)).granted.calls for number in range(4)]
    assert granted == [25, 18, 14, 10]
    assert take(store, "r1", 1000, least=33, lease="need").granted.calls == 33
    assert store.state("team").used.calls == 100


def test_a_lease_is_charged_to_the_budget_and_to_all_above_it(opened: Opened):
    store = opened()
    store.create("org", Limits(calls=100), TOTAL)
    store.create("team", Limits(calls=40), TOTAL, parent="org")
    assert take(store, "r1", 30, lease="a") == Lease(id="r1-a", granted=Limits(calls=30))
    assert take(store, "r2", 30, lease="a") == Lease(id="r2-a", granted=Limits(calls=10))
    assert (store.state("org").used.calls, store.state("team").used.calls) == (40, 40)
    exhausted = take(store, "r3", 5, lease="a")
    assert isinstance(exhausted, Exhausted)
    assert (exhausted.budget, exhausted.limit, exhausted.used, exhausted.final) == ("team", 40, 40, False)
    assert exhausted.top == (("r1", 30), ("r2", 10))


def test_the_budget_above_bounds_what_those_below_it_take_together(opened: Opened):
    store = opened()
    store.create("org", Limits(usd=100), TOTAL)
    for name in ("a", "b"):
        store.create(name, Limits(usd=80), TOTAL, parent="org")
    first = store.take(holder("r1"), ["a"], Amounts(usd=80), Amounts(usd=1), Amounts(), "1")
    second = store.take(holder("r2"), ["b"], Amounts(usd=80), Amounts(usd=1), Amounts(), "2")
    assert (first, second) == (Lease(id="1", granted=Limits(usd=80)), Lease(id="2", granted=Limits(usd=20)))
    third = store.take(holder("r2"), ["b"], Amounts(usd=80), Amounts(usd=1), Amounts(), "3")
    assert isinstance(third, Exhausted)
    assert third.budget == "org"


def test_two_budgets_are_charged_both_or_neither(opened: Opened):
    store = opened()
    store.create("money", Limits(usd=50), TOTAL)
    store.create("calls", Limits(calls=1), TOTAL)
    ask = Amounts(usd=10, calls=1)
    assert isinstance(store.take(holder("r1"), ["money", "calls"], ask, ask, Amounts(), "1"), Lease)
    assert isinstance(store.take(holder("r1"), ["money", "calls"], ask, ask, Amounts(), "2"), Exhausted)
    assert (store.state("money").used.usd, store.state("calls").used.calls) == (10, 1)


def test_the_same_lease_asked_for_again_is_charged_once(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=40), TOTAL)
    assert take(store, "r1", 10, lease="a") == take(opened(), "r1", 20, lease="a")
    assert store.state("team").used.calls == 10


def test_a_settlement_is_exact_and_counts_once(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=40), TOTAL)
    for lease in "abc":
        take(store, "r1", 10, lease=lease)
    assert store.settle("r1", Amounts(calls=12)) == Settled(leased=Amounts(calls=30), spent=Amounts(calls=12))
    assert store.settle("r1", Amounts(calls=12)) == Settled(leased=Amounts(), spent=Amounts())
    assert store.state("team").used.calls == 12
    take(store, "r1", 10, lease="d")  # a resumed session
    store.settle("r1", Amounts(calls=15))
    assert store.state("team").used.calls == 15


def test_what_was_spent_beyond_all_leases_is_charged_all_the_same(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=10), TOTAL)
    take(store, "r1", 10, lease="a")
    store.settle("r1", Amounts(calls=14))
    assert store.state("team").used.calls == 14
    assert isinstance(take(store, "r2", 1, lease="a"), Exhausted)


def test_what_is_not_limited_is_counted_when_it_is_settled(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=10), TOTAL)
    take(store, "r1", 4, lease="a")
    store.settle("r1", Amounts(usd=7, tokens=9, calls=4))
    assert store.state("team").used == Amounts(usd=7, tokens=9, calls=4)


def test_exhaustion_is_final_only_where_other_runs_could_not_give_enough_back(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=10), TOTAL)
    take(store, "r1", 10, lease="a")
    waiting = take(store, "r2", 5, least=5, lease="a")
    assert (waiting.final, waiting.needed) == (False, 5)
    take(store, "r1", 1, lease="b", spent=6)  # says how much of it is gone; gets nothing more
    assert take(store, "r2", 5, least=5, lease="b").final


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.create("", Limits(calls=1), TOTAL), "no name of a budget"),
        (lambda store: store.create("a b", Limits(calls=1), TOTAL), "no name of a budget"),
        (lambda store: store.create("new", Limits(), TOTAL), "limits nothing"),
        (lambda store: store.create("new", Limits(usd=10**19), TOTAL), "at most 9000000"),
        (lambda store: store.create("team", Limits(calls=1), TOTAL), "already"),
        (lambda store: store.create("new", Limits(calls=1), TOTAL, parent="nobody"), "no budget nobody"),
        (lambda store: store.state("nobody"), "no budget nobody"),
        (lambda store: take(store, "r1", 1, lease="a", of="nobody"), "no budget nobody"),
        (lambda store: store.init(), "a store already"),
    ],
)
def test_what_cannot_be_is_named(opened: Opened, call: Callable[[Store], object], message: str):
    store = opened()
    store.create("team", Limits(calls=10), TOTAL)
    with pytest.raises((StoreError, UsageError), match=message):
        call(store)


def test_a_closed_budget_gives_nothing_and_takes_back_what_is_out(opened: Opened):
    store = opened()
    store.create("org", Limits(calls=10), TOTAL)
    store.create("team", Limits(calls=10), TOTAL, parent="org")
    take(store, "r1", 10, lease="a")
    store.close_budget("org")
    with pytest.raises(StoreError, match="org is closed"):
        take(store, "r1", 1, lease="b")
    store.settle("r1", Amounts(calls=3))
    assert store.state("team").used.calls == 3


def test_a_tree_has_a_bound(opened: Opened):
    store = opened()
    store.create("b0", Limits(calls=1), TOTAL)
    for depth in range(1, MAX_DEPTH):
        store.create(f"b{depth}", Limits(calls=1), TOTAL, parent=f"b{depth - 1}")
    with pytest.raises(UsageError, match="deep already"):
        store.create("one-more", Limits(calls=1), TOTAL, parent=f"b{MAX_DEPTH - 1}")


def test_a_store_of_another_schema_is_not_used(opened: Opened):
    store = opened()
    with store._database.transaction() as tx:
        tx.run("UPDATE docket_schema SET version = 2")
    with pytest.raises(StoreError, match="has schema 2"):
        store.check()


def test_eight_at_once_never_take_more_than_there_is(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=500), TOTAL)
    granted: list[int] = []

    def run(number: int) -> None:
        mine = opened()
        for lease in range(20):
            answer = take(mine, f"r{number}", 7, lease=str(lease))
            if isinstance(answer, Lease):
                granted.append(answer.granted.calls or 0)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == store.state("team").used.calls == 500


class Clocked(Sqlite):
    """A store whose clock the test moves."""

    at = 1_800_000_000_000_000

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with super().transaction() as tx:
            tx.now = lambda: Clocked.at
            yield tx


RUNS = st.sampled_from(["r1", "r2", "r3"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("take"), st.sampled_from(["r1", "r2", "r3"]), st.integers(1, 30), st.sampled_from(["a", "b"])
        ),
        st.tuples(st.just("spend"), st.sampled_from(["r1", "r2", "r3"]), st.integers(0, 30)),
        st.tuples(st.just("settle"), st.sampled_from(["r1", "r2", "r3"])),
        st.tuples(st.just("wait"), st.integers(0, 40 * HOUR)),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(OPERATIONS, st.sampled_from(["total", "day", "rolling:24h"]))
def test_whatever_runs_do_no_budget_is_ever_passed_and_what_is_settled_is_what_was_spent(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[Any, ...]], per: str
):
    database = Clocked(tmp_path_factory.mktemp("s") / "store", create=True)
    store = Store(database)
    store.init()
    period = Period.parse(per, "Europe/Berlin")
    limits = {"top": 60, "a": 40, "b": 50}
    store.create("top", Limits(calls=limits["top"]), period)
    for name in ("a", "b"):
        store.create(name, Limits(calls=limits[name]), period, parent="top")
    Clocked.at = 1_800_000_000_000_000
    granted: dict[str, int] = {}
    spent: dict[str, int] = {}
    for number, (what, *rest) in enumerate(operations):
        match what, rest:
            case "take", (run, want, of):
                answer = take(store, run, want, lease=str(number), of=of, spent=spent.get(run, 0))
                if isinstance(answer, Lease):
                    granted[run] = granted.get(run, 0) + (answer.granted.calls or 0)
            case "spend", (run, amount):
                spent[run] = min(spent.get(run, 0) + amount, granted.get(run, 0))
            case "settle", (run,):
                settled = store.settle(run, Amounts(calls=spent.get(run, 0)))
                granted[run] = spent.get(run, 0)
                assert settled.returned.calls >= 0
            case "wait", (us,):
                Clocked.at += us
        for name, limit in limits.items():
            state = store.state(name)
            assert 0 <= state.used.calls <= limit
            assert 0 <= state.held.calls <= state.used.calls
    if per == "total":
        for run in granted:
            store.settle(run, Amounts(calls=spent.get(run, 0)))
        assert store.state("top").used.calls == sum(spent.get(run, 0) for run in granted)
    store.close()


def test_a_rolling_budget_gets_free_by_the_hour(tmp_path: Path):
    store = Store(Clocked(tmp_path / "store", create=True))
    store.init()
    store.create("team", Limits(calls=10), Period.parse("rolling:2h"))
    Clocked.at = 500_000 * HOUR
    assert take(store, "r1", 10, lease="a").granted.calls == 10
    Clocked.at += 2 * HOUR
    assert isinstance(take(store, "r1", 1, lease="b"), Exhausted)
    Clocked.at += HOUR
    assert take(store, "r1", 1, lease="c").granted.calls == 1


def test_a_run_that_was_not_heard_of_is_not_expected_to_give_anything_back(tmp_path: Path):
    store = Store(Clocked(tmp_path / "store", create=True))
    store.init()
    store.create("team", Limits(calls=10), TOTAL)
    take(store, "r1", 10, lease="a")
    assert not take(store, "r2", 1, lease="a").final
    Clocked.at += EXPIRES_US + 1
    assert take(store, "r2", 1, lease="b").final
    assert store.state("team").runs == 0
    store.live(holder("r1"), Amounts(calls=2))
    assert not take(store, "r2", 1, lease="c").final
    assert store.state("team").held.calls == 8
    Clocked.at += 10 * EXPIRES_US
    store.settle("r1", Amounts(calls=2))
    assert take(store, "r2", 8, lease="d").granted.calls == 8


def test_history_names_runs_labels_and_what_they_used(opened: Opened):
    store = opened()
    store.create("team", Limits(calls=10), TOTAL)
    store.take(
        Holder(run="r1", session=0, machine="box", label="nightly"),
        ["team"],
        Amounts(calls=4),
        Amounts(calls=1),
        Amounts(),
        "x",
    )
    (before,) = store.history("team", 10)
    assert (before.run, before.machine, before.label, before.settled) == ("r1", "box", "nightly", False)
    assert store.unsettled()[0][:2] == ("r1", "box")
    store.settle("r1", Amounts(calls=1))
    (after,) = store.history("team", 10)
    assert (after.granted.calls, after.used.calls, after.settled) == (4, 1, True)
    assert store.unsettled() == []
