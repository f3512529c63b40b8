"""A power cut at any sync point, then a further session: nothing acknowledged is lost, and the whole verifies."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from docket.clock import SystemClock
from docket.errors import LedgerError
from docket.ledger.chain import Entry
from docket.sim.disk import Crash, FaultyDisk, ForgetfulDisk
from docket.storage.documents import documents_at
from docket.storage.durable import SystemDisk
from docket.storage.paths import LEDGER, RunDirectory
from docket.storage.reader import read_ledger
from docket.storage.writer import LedgerWriter
from docket.supervisor.doctor import diagnose
from docket.verify.verifier import verify
from kit.runs import KEY, continue_run, first_start, new_run, policy_applied, some_events

SEEDS = range(200)
"""All of them in `make long`; a sample in `make test`."""
SAMPLE = range(0, 200, 5)


async def write_until_cut(run: RunDirectory, rng: random.Random) -> list[Entry]:
    """Write a run until the disk is gone; what was acknowledged."""
    acknowledged: list[Entry] = []
    try:
        writer = LedgerWriter.create(run, key=KEY, clock=SystemClock())
    except LedgerError:
        return acknowledged
    writer.observe(acknowledged.append)
    try:
        await writer.append_watched(first_start(run.name, KEY))
        await writer.append(policy_applied())
        await writer.checkpoint()
        for event in some_events(5, rng):
            await writer.append(event)
            if rng.random() < 0.4:
                await writer.checkpoint()
    except LedgerError:
        pass
    await writer.close()
    return acknowledged


async def cut_and_continue(root: Path, seed: int) -> str:
    """One power cut, as a crash of the machine leaves it, then ``docket run --resume``; the class of what was left."""
    rng = random.Random(seed)
    forgetful = ForgetfulDisk(SystemDisk())
    at, after = rng.randint(3, 34), rng.randint(0, 12_000)
    disk = FaultyDisk(forgetful, lambda operation: Crash(after) if operation.number == at else None)
    run = new_run(root / f"{seed}", disk)
    acknowledged = await write_until_cut(run, rng)
    left = root / f"{seed}-left" / ".docket" / "runs" / run.name
    left.mkdir(parents=True, mode=0o700)
    forgetful.after_power_cut(run.path, left, rng)
    run.close()
    for path in left.iterdir():
        path.chmod(0o600)
    if not (left / LEDGER).exists():
        assert not acknowledged, seed
        return "no ledger"
    state = diagnose(left).state
    if not acknowledged:
        assert state in ("never started", "torn tail", "no receipt"), (seed, state)
        return state
    assert state in ("no receipt", "torn tail", "never started"), (seed, state)
    await continue_run(left)
    entries: list[Entry] = []
    again = RunDirectory.open(left)
    read_ledger(again, entries.append)
    again.close()
    assert entries[: len(acknowledged)] == acknowledged, seed
    report = verify(documents_at(left))
    assert report.verdict.value in ("verified", "incomplete"), (seed, report.reason)
    return state


async def test_a_run_goes_on_after_a_power_cut_with_everything_that_was_acknowledged(tmp_path: Path) -> None:
    states = {await cut_and_continue(tmp_path, seed) for seed in SAMPLE}
    assert {"no receipt", "torn tail"} <= states


@pytest.mark.long
async def test_a_run_goes_on_after_any_of_many_power_cuts(tmp_path: Path) -> None:
    for seed in SEEDS:
        await cut_and_continue(tmp_path, seed)
