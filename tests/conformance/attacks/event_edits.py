"""One event is changed: as it stands, with its own hash made right, and with every later hash made right too."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.attacks.attack import Attack, Runs, events, with_events, without
from conformance.scene import edit_event, rechained
from docket.primitives.canonical import encode
from docket.primitives.digest import leaf_hash
from docket.primitives.sealed import seal


def attacks(runs: Runs) -> Iterator[Attack]:
    """Every event in turn, and what a forger may do with hashes."""
    size = len(events(runs.plain))
    for number in range(size):
        edited = edit_event(runs.plain, number, lambda event: event["data"].update(forged=1))
        yield Attack(f"event {number} edited", edited, "ledger.hash")
        changed = events(edited)
        unhashed = {name: member for name, member in seal(changed[number]).items() if name != "hash"}
        changed[number]["hash"] = leaf_hash(encode(unhashed)).hex()
        alone = with_events(edited, changed)
        # the signed checkpoint after event 2 is looked at before event 3 is
        first = "checkpoints.root" if number == size - 1 else "ledger.prev"
        yield Attack(f"event {number} edited and hashed", alone, check=first)
        whole = rechained(edited, number)
        yield Attack(f"event {number} edited and all hashed", whole, "checkpoints.root")
        bare = without(whole, "checkpoints")
        yield Attack(f"event {number} edited, all hashed, checkpoints removed", bare, "checkpoints.last")
        unsealed = without(whole, "receipt.json")
        yield Attack(f"event {number} edited, all hashed, the receipt removed", unsealed, "checkpoints.root")
