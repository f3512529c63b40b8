"""Values of a store."""

from __future__ import annotations

from docket.control.budget import Amounts
from docket.fleet.model import Settled


def test_what_was_spent_beyond_a_lease_gives_nothing_back():
    assert Settled(leased=Amounts(5, 5, 5), spent=Amounts(3, 5, 9)).returned == Amounts(2, 0, 0)
