"""What is not known is never zero, and a bound is said to be one."""

from __future__ import annotations

import pytest

from docket.findings.model import MAX_NAME, MAX_SEQS, Basis, Cost, Impact, named
from docket.primitives.money import Usd


@pytest.mark.parametrize(
    ("cost", "is_", "most"),
    [
        (Cost(), Impact("exact", Usd(0)), Impact("at-most", Usd(0))),
        (Cost(5), Impact("exact", Usd(5)), Impact("at-most", Usd(5))),
        (Cost(5, below=1), Impact("at-least", Usd(5)), Impact("unknown")),
        (Cost(0, below=1), Impact("unknown"), Impact("unknown")),
        (Cost(5, above=1), Impact("at-most", Usd(5)), Impact("at-most", Usd(5))),
        (Cost(5, below=1, above=1), Impact("unknown"), Impact("unknown")),
    ],
)
def test_a_sum_knows_how_it_relates_to_the_truth(cost: Cost, is_: Impact, most: Impact) -> None:
    assert cost.impact() == is_
    assert cost.bound() == most


def test_what_was_added_since_then() -> None:
    before = Cost(5, 1, 2)
    now = before.copy()
    now.add_all(Cost(7, 1, 0))
    assert str(now.since(before).impact()) == str(Impact("at-least", Usd(7)))
    assert before.pico == 5


def test_an_unknown_impact_has_no_figure() -> None:
    assert Impact("unknown").to_json() == {"is": "unknown"}
    assert Impact("at-most", Usd.parse("0.5")).to_json() == {"is": "at-most", "usd": "0.5"}


def test_a_basis_lists_the_first_and_counts_all() -> None:
    basis = Basis()
    for seq in range(MAX_SEQS + 5):
        basis.add(seq)
    other = Basis()
    other.add(999)
    other.add_all(basis)
    assert (basis.seqs, basis.count) == (list(range(MAX_SEQS)), MAX_SEQS + 5)
    assert (other.seqs, other.count) == ([999, *range(MAX_SEQS - 1)], MAX_SEQS + 6)


def test_a_name_that_a_caller_chose_is_cut() -> None:
    assert named("m" * MAX_NAME) == "m" * MAX_NAME
    assert len(named("m" * (MAX_NAME + 1))) == MAX_NAME
