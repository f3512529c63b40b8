"""Crash at every system call of a run: a readable prefix is left, and no acknowledged event is missing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from docket.clock import SystemClock
from docket.errors import LedgerError
from docket.ledger.chain import Entry
from docket.ledger.recovery import decide
from docket.sim.disk import Crash, FaultyDisk, ForgetfulDisk, Operation
from docket.storage.documents import documents_at
from docket.storage.durable import SystemDisk
from docket.storage.paths import LEDGER, RunDirectory
from docket.storage.reader import read_ledger
from docket.storage.writer import LedgerWriter
from docket.verify.verifier import verify
from kit.runs import KEY, first_start, new_run, policy_applied, some_events

SEEDS = range(200)


async def run_until_crash(run: RunDirectory, seed: int) -> list[Entry]:
    """Write a run of random events, several at once, until the disk is gone; what was acknowledged."""
    acknowledged: list[Entry] = []
    rng = random.Random(seed)
    try:
        writer = LedgerWriter.create(run, key=KEY, clock=SystemClock())
    except LedgerError:
        return acknowledged
    writer.observe(acknowledged.append)
    facts = [first_start(run.name, KEY), policy_applied(), *some_events(6, rng)]
    try:
        await writer.append_watched(facts[0])
        await writer.checkpoint()
        position = 1
        while position < len(facts):
            count = rng.randint(1, 4)
            waiters = [writer.submit(fact) for fact in facts[position : position + count]]
            for waiter in waiters:
                await waiter
            position += count
            if rng.random() < 0.4:
                await writer.checkpoint()
        await writer.checkpoint()
    except LedgerError:
        pass
    await writer.close()
    return acknowledged


def crash_at(number: int, after: int = 0) -> FaultyDisk:
    def plan(operation: Operation) -> Crash | None:
        return Crash(after) if operation.number == number else None

    return FaultyDisk(SystemDisk(), plan)


@pytest.mark.parametrize("after", [0, 1, 700])
async def test_a_crash_at_any_call_leaves_every_acknowledged_event(tmp_path: Path, after: int) -> None:
    number, crashed = 3, True  # the first three make the directories
    while crashed:
        disk = crash_at(number, after)
        run = new_run(tmp_path, disk)
        acknowledged = await run_until_crash(run, seed=7)
        crashed = disk.crashed
        number += 1
        if not (run.path / LEDGER).exists():
            assert not acknowledged
            continue
        entries: list[Entry] = []
        decision = decide(read_ledger(RunDirectory.open(run.path), entries.append).scan)
        assert decision.state in ("intact", "torn")
        assert entries[: len(acknowledged)] == acknowledged
        if entries:
            assert verify(documents_at(run.path)).verdict.value == "unfinished"
    assert number > 20
    assert len(acknowledged) == 14


async def check_power_cut(root: Path, seed: int) -> str:
    """Cut the power at a random call of a run: nothing acknowledged is lost, and what is left is recoverable."""
    rng = random.Random(seed)
    forgetful = ForgetfulDisk(SystemDisk())
    crash = rng.randint(3, 40)
    disk = FaultyDisk(forgetful, lambda operation: Crash(rng.randint(0, 12_000)) if operation.number == crash else None)
    run = new_run(root, disk)
    acknowledged = await run_until_crash(run, seed)
    left = root / f"left-{seed}"
    left.mkdir()
    forgetful.after_power_cut(run.path, left, rng)
    if not (left / LEDGER).exists():
        assert not acknowledged, f"seed {seed}"
        return "no ledger"
    entries: list[Entry] = []
    decision = decide(read_ledger(RunDirectory.open(left), entries.append).scan)
    assert decision.state in ("intact", "torn"), f"seed {seed}: {decision}"
    assert entries[: len(acknowledged)] == acknowledged, f"seed {seed}"
    return decision.state


async def test_a_power_cut_loses_nothing_acknowledged(tmp_path: Path) -> None:
    states = {await check_power_cut(tmp_path, seed) for seed in SEEDS}
    assert {"intact", "torn"} <= states
