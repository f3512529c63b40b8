"""Events are removed, doubled, swapped, cut off or added."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from conformance.attacks.attack import Attack, Runs, events, with_events
from conformance.scene import rechained


def attacks(runs: Runs) -> Iterator[Attack]:
    """Every event in turn, and every length of the ledger."""
    plain = runs.plain
    whole = events(plain)
    size = len(whole)
    cut_off, behind = "checkpoints.size", "binding.tail"
    for number in range(size):
        left = [*whole[:number], *whole[number + 1 :]]
        last = number == size - 1
        yield Attack(f"event {number} removed", with_events(plain, left), cut_off if last else "ledger.seq")
        twice = [*whole[: number + 1], copy.deepcopy(whole[number]), *whole[number + 1 :]]
        yield Attack(f"event {number} doubled", with_events(plain, twice), behind if last else "ledger.seq")
        if not last:
            swapped = [*whole[:number], whole[number + 1], whole[number], *whole[number + 2 :]]
            yield Attack(f"events {number} and the next swapped", with_events(plain, swapped), "ledger.seq")
            cut = with_events(plain, whole[: number + 1])
            yield Attack(f"the ledger cut off behind event {number}", cut, "checkpoints.size")
    for number in (4, 5, 9):
        left = [*copy.deepcopy(whole[:number]), *copy.deepcopy(whole[number + 1 :])]
        yield Attack(
            f"event {number} removed and all hashed", rechained(with_events(plain, left), number), "ledger.end"
        )
    left = copy.deepcopy(whole[1:])
    yield Attack("the start removed, all but its link hashed", rechained(with_events(plain, left), 0), "ledger.prev")
    left[0]["prev"] = whole[0]["prev"]
    yield Attack("the start removed and all hashed", rechained(with_events(plain, left), 0), "ledger.sessions")
