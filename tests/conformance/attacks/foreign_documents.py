"""Whole documents stand in for one another: of another run, of an earlier session, or none at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from conformance.attacks.attack import DOCUMENTS, Attack, Runs, without
from conformance.scene import edit_event
from kit.recordings import Files


def _fifo(name: str) -> Callable[[Path], None]:
    return lambda run: os.mkfifo(run / name)


def _directory(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).mkdir()


def _dangling(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).symlink_to("nowhere")


def _circle(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).symlink_to(name)


def _device(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).symlink_to("/dev/zero")


def forged(run: Files) -> bytes:
    """The ledger of ``run`` with its last event edited."""
    return edit_event(run, -1, lambda event: event["data"].update(forged=1))["ledger.jsonl"]


def attacks(runs: Runs) -> Iterator[Attack]:
    """Documents swapped, missing, and names that are no documents; keys and roots that were pinned."""
    plain, signed, resumed = runs.plain, runs.signed, runs.resumed
    for name in DOCUMENTS:
        for what, special in (
            ("a FIFO", _fifo), ("a directory", _directory), ("a device", _device),
            ("a link to nowhere", _dangling), ("a link to itself", _circle),
        ):  # fmt: skip
            yield Attack(f"{name} is {what}", without(plain, name), verdict="unreadable", special=special(name))

    def swapped(name: str, check: str, verdict: str = "failed", run: Files = plain, **documents: bytes) -> Attack:
        files = {known: documents.get(known.partition(".")[0], run[known]) for known in DOCUMENTS}
        return Attack(name, files, check, verdict)

    yield swapped("the ledger of another run", "checkpoints.root", ledger=signed["ledger.jsonl"])
    yield swapped("the receipt of another run", "checkpoints.order", receipt=signed["receipt.json"])
    yield swapped("the ledger emptied", "checkpoints.size", ledger=b"")
    yield swapped("the receipt emptied", "", "unreadable", receipt=b"")
    yield Attack("the receipt removed", without(plain, "receipt.json"), verdict="unsealed")
    earlier = resumed["receipt-0.json"]
    # what the earlier receipt says is still so; that a session follows is a remark beside the verdict (B-2)
    yield swapped("the earlier receipt put back", "", "verified", run=resumed, receipt=earlier)
    yield swapped("the later session cut off", "checkpoints.size", run=resumed, ledger=signed["ledger.jsonl"])
    notes = signed["checkpoints"]
    yield swapped("the earlier receipt and notes put back", "", "verified", resumed, receipt=earlier, checkpoints=notes)
    # nothing that vouched for the first session vouches for the second: a stranger could have appended it
    yield Attack("a session appended to a run that nobody else signed", runs.appended, verdict="incomplete")
    yield swapped("an appended session edited", "ledger.hash", run=runs.appended, ledger=forged(runs.appended))
    for name in ("run-key", "root", "operator"):
        check = f"pin.{name.replace('-', '_')}"
        yield Attack(f"another {name} than the pinned one", signed, check, args=(f"--{name}", "0" * 63 + "1"))
    pinned = ("--operator", "0" * 63 + "1")
    yield Attack("an operator pinned where none signed", plain, "pin.operator", args=pinned)
