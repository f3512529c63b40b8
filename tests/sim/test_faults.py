from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import UsageError
from docket.sim.faults import KINDS, Fault, Plan, parse, spell, vocabulary


def test_a_specification_reads_as_it_is_written() -> None:
    assert parse("latency=200ms@0.5, status=529@.1,drop@1,slicer,bandwidth=8KiB,clock_step=-3600s") == (
        Fault(name="latency", magnitude=200_000, millionths=500_000),
        Fault(name="status", magnitude=529, millionths=100_000),
        Fault(name="drop", magnitude=0),
        Fault(name="slicer", magnitude=16),
        Fault(name="bandwidth", magnitude=8192),
        Fault(name="clock_step", magnitude=-3_600_000_000),
    )


@pytest.mark.parametrize(
    "text",
    [
        " ",
        " , ",
        " latncy ",
        " latency=5 ",
        " latency=-1s ",
        " status=200 ",
        " status=503ms ",
        " drop=3 ",
        " latency@2 ",
        " slicer=0",
    ],
)
def test_what_cannot_be_meant_is_refused_and_the_vocabulary_is_taught(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert raised.value.hint


def test_every_word_is_taught_and_reads_back() -> None:
    for name, kind in KINDS.items():
        assert f"  {name} " in vocabulary()
        shown = spell(name, kind.default)
        assert parse(f"{name}={shown}" if shown else name) == (Fault(name=name, magnitude=kind.default),)


FAULTS = st.lists(
    st.builds(Fault, name=st.sampled_from(sorted(KINDS)), magnitude=st.just(1), millionths=st.integers(0, 1_000_000)),
    max_size=5,
).map(tuple)


@given(FAULTS, st.integers(), st.lists(st.integers(1, 50), max_size=10))
def test_the_same_seed_draws_the_same_whatever_the_order(
    faults: tuple[Fault, ...], seed: int, numbers: list[int]
) -> None:
    first, second = Plan(faults, seed), Plan(faults, seed)
    backwards = {number: second.draw("upstream", number) for number in reversed(numbers)}
    for number in numbers:
        drawn = first.draw("upstream", number)
        assert drawn == backwards[number]
        assert all(draw.fault.port == "upstream" and draw.fault.millionths > 0 for draw in drawn)
        assert [d.fault for d in drawn if d.fault.millionths == 1_000_000] == [
            f for f in faults if f.port == "upstream" and f.millionths == 1_000_000
        ]


def test_probabilities_are_met() -> None:
    plan = Plan(parse("drop@0.01"), seed=7)
    assert 60 <= sum(bool(plan.draw("upstream", n)) for n in range(10_000)) <= 140
