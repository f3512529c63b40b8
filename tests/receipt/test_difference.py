"""Two runs beside each other: prices apart from use, noise apart from news, and nothing claimed that is not known."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit.scripted
from docket.ledger.events import ToolCall
from docket.ledger.scan import Scanner
from docket.primitives.money import Usd
from docket.receipt.difference import MAX_ITEMS, Change, Profile, changes, counts, policies, prices
from kit.scripted import PRICES, Script


def profile(script: Script) -> Profile:
    made = Profile()
    for entry in Scanner().feed(script.ledger()):
        made.add(entry)
    return made


def figures(a: Profile, b: Profile) -> dict[str, Change]:
    return {change.name: change for change in changes(a, b)}


def asked(times: int, **said: int) -> Profile:
    script = Script().start()
    for _ in range(times):
        script.ask(**said)
    return profile(script)


def at(monkeypatch: pytest.MonkeyPatch, **rows: dict[str, str]) -> None:
    """From now on scripts are billed at other prices."""
    dearer = {name: (PRICES[name][0], PRICES[name][1] | row) for name, row in rows.items()}
    monkeypatch.setattr(kit.scripted, "PRICES", PRICES | dearer)


def test_a_run_beside_itself_differs_in_nothing() -> None:
    a, b = asked(7), asked(7)
    assert [change for change in changes(a, b) if change.a != change.b or change.noise] == []
    assert prices(a, b).to_json() == {
        "tables_differ": False, "by_price_usd": "0", "by_use_usd": "0", "changed": [], "unclear": [],
    }  # fmt: skip


def test_more_use_at_the_same_prices_is_use() -> None:
    told = prices(asked(10), asked(30))
    assert (told.by_price, told.by_use) == (0, Usd.parse("0.085").pico)


def test_a_dearer_table_is_told_apart_from_more_use(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asked(10)
    at(monkeypatch, **{"gpt-4o": {"output": "20"}})
    after = asked(20)
    told = prices(before, after)
    assert told.changed == [("openai gpt-4o output", "10", "20")]
    assert told.by_price == Usd.parse("0.06").pico  # 20 x 300 tokens at 10 USD a million more
    assert told.by_use == Usd.parse("0.0425").pico  # ten more calls at the prices of A


def test_a_cheaper_table_hides_no_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asked(10)
    at(monkeypatch, **{"gpt-4o": {"input": "1.25", "output": "5"}})
    told = prices(before, asked(20))
    assert (told.by_price, told.by_use) == (-Usd.parse("0.0425").pico, Usd.parse("0.0425").pico)


def test_several_prices_of_one_thing_are_said_not_to_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asked(3)
    script = Script().start().ask()
    at(monkeypatch, **{"gpt-4o": {"output": "20"}})
    told = prices(before, profile(script.ask()))
    assert (told.by_price, told.by_use, told.unclear) == (None, None, ["openai gpt-4o output"])


def test_what_only_one_run_used_is_use(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asked(3)
    at(monkeypatch, claude={"output": "99"})
    told = prices(before, profile(Script().start().ask("claude")))
    assert (told.by_price, told.changed) == (0, [])


USES = st.lists(
    st.tuples(st.sampled_from(["gpt-4o", "claude"]), st.integers(0, 5000), st.integers(1, 900)), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(USES, USES, st.integers(1, 40))
def test_price_and_use_make_the_whole_change(a: list, b: list, output: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        played = []
        for uses in (a, b):
            script = Script().start()
            for model, fresh, out in uses:
                script.ask(model, fresh=fresh, output=out)
            played.append(profile(script))
            at(patch, **{"gpt-4o": {"output": str(output)}})
        told = prices(*played)
        assert told.by_price is not None
        assert told.by_use is not None
        assert told.by_price + told.by_use == played[1].totals.cost.pico - played[0].totals.cost.pico


def test_a_few_calls_more_are_noise_and_twice_as_many_of_hundreds_are_not() -> None:
    assert figures(asked(20), asked(24))["calls"].noise is True
    assert figures(asked(20), asked(24))["cost"].noise is True
    told = figures(asked(200), asked(400))
    assert (told["calls"].noise, told["cost"].noise, told["tokens"].noise) == (False, False, False)


def test_chance_alone_is_called_noise_nearly_always() -> None:
    rng = random.Random(7)

    def played() -> Profile:
        script = Script().start()
        for _ in range(sum(rng.random() < 0.5 for _ in range(120))):
            script.ask(fresh=rng.randint(100, 9000), output=rng.randint(10, 900), seconds=0)
        return profile(script)

    told = [figures(played(), played()) for _ in range(40)]
    for name in ("cost", "calls", "tokens"):
        assert sum(each[name].noise is False for each in told) <= 6


def test_latency_is_news_only_where_the_bounds_of_its_percentiles_part() -> None:
    def histogram(base: int, number: int) -> Profile:
        made = Profile()
        for step in range(number):
            made.duration.add(base + step * 10)
        return made

    assert figures(histogram(1000, 5), histogram(9000, 5))["latency p50"].noise is True, "five samples bound no median"
    assert figures(histogram(1000, 100), histogram(9000, 100))["latency p50"].noise is False
    assert figures(histogram(1000, 100), histogram(1050, 100))["latency p50"].noise is True


def test_what_is_not_known_has_no_figure_and_no_judgement() -> None:
    unknown = profile(Script().start().ask("local"))
    told = figures(asked(3), unknown)["cost"]
    assert (told.b, told.noise, told.percent, told.to_json()["b"]) == (None, None, None, None)
    assert prices(asked(3), unknown).by_use is None
    assert figures(Profile(), Profile())["latency p50"].to_json()["a"] is None


@pytest.mark.parametrize(
    ("a", "b", "percent", "over"),
    [(100, 120, 20, False), (100, 121, 20, True), (0, 1, 500, True), (0, 0, 0, False), (5, 5, 0, False),
     (5, 4, 0, False), (None, 5, 0, False), (1000, 1001, 0.1, False), (1000, 1002, 0.1, True)],
)  # fmt: skip
def test_a_limit_is_kept_to_the_point(a: int | None, b: int | None, percent: float, over: bool) -> None:
    assert Change("calls", "count", a, b).grew_over(percent) is over


def test_tools_are_counted_by_name_and_withheld_names_are_not_guessed() -> None:
    a, b = Script().start().use("shell"), Script().start().use("shell").use("shell").use("edit")
    b.add(ToolCall())
    assert list(counts(profile(a).tools, profile(b).tools)) == [("edit", 0, 1), ("not named", 0, 1), ("shell", 1, 2)]


def test_policies_are_compared_by_what_they_say_and_not_by_their_salts() -> None:
    same = profile(Script(seed=1).start()), profile(Script(seed=2).start())
    assert policies(*same) == []
    other = profile(Script().start(deny_write=(".env",)))
    assert policies(same[0], other) == ["files.deny_write"]


def test_prices_of_more_things_than_are_kept_are_counted_and_not_judged() -> None:
    made = asked(1)
    made.quantities = {("p", f"m{number}", "standard", "input", 1): {1: 1} for number in range(MAX_ITEMS)}
    script = Script().start().ask()
    for entry in Scanner().feed(script.ledger()):
        made.add(entry)
    assert made.unlisted
    assert prices(made, asked(1)).by_use is None
