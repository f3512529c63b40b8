"""Random histories of a run on a volume that fills up, on a machine that dies; then doctor, close and resume.

A history counts on the wire: a call is forwarded once docket lets it go, whatever could be recorded of it. The oracle
is that of every record: what was forwarded is recorded or disclosed as lost, and so is every loss that docket lived to
acknowledge.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from docket.clock import SystemClock
from docket.control.evidence import Ceilings, Guard, WriteFailure
from docket.errors import DocketError, LedgerError
from docket.ledger.chain import Entry
from docket.ledger.events import CapExceeded
from docket.policy.document import digest
from docket.policy.model import Policy
from docket.primitives.canonical import decode_object
from docket.primitives.instant import timestamp
from docket.receipt.model import Run
from docket.sim.disk import Crash, FaultyDisk, Operation
from docket.storage.documents import documents_at
from docket.storage.durable import SystemDisk
from docket.storage.keys import new_run_key
from docket.storage.paths import RECEIPT, RunDirectory
from docket.storage.reserve import Reserve
from docket.storage.writer import LedgerWriter
from docket.supervisor.dead_run import close
from docket.supervisor.doctor import diagnose
from docket.supervisor.ledger_history import Past, Session
from docket.supervisor.recorder import RunRecorder
from docket.supervisor.resumption import TakenUp, take_up
from docket.supervisor.seal import TOOL, Keys, seal, session_start
from docket.verify.report import Verdict
from docket.verify.verifier import verify
from kit.runs import POLICY, TABLE, new_run, policy_applied, request, response

RESERVED = 24 * 1024
SAMPLE, ALL = range(25), range(500)


class Volume(FaultyDisk):
    """A volume of ``room`` bytes for all files together, on a machine that dies at operation ``dies_at``."""

    def __init__(self, room: int, dies_at: int) -> None:
        self.room = room
        self.sizes: dict[str, int] = {}
        super().__init__(SystemDisk(), lambda operation: self.fate(operation, dies_at))

    def fate(self, operation: Operation, dies_at: int) -> Crash | None:
        return Crash(after=operation.number % 90) if operation.number >= dies_at else None

    def write(self, fd: int, data: bytes, offset: int) -> int:
        name = self._names.get(fd, "")
        others = sum(size for other, size in self.sizes.items() if other != name)
        size = max(self.sizes.get(name, 0), offset + len(data))
        if others + size > self.room and size > self.sizes.get(name, 0):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.sizes[name] = size
        return super().write(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.sizes[self._names.get(fd, "")] = size

    def unlink(self, name: str, directory: int) -> None:
        super().unlink(name, directory)
        self.sizes.pop(name, None)

    def rename(self, source: str, target: str, directory: int) -> None:
        super().rename(source, target, directory)
        self.sizes[target] = self.sizes.pop(source, 0)


class NotStarted(Exception):
    """The session could not record who it is: no agent is started."""


def started(durable: object) -> None:
    if not durable:
        raise NotStarted


class Nobody:
    """Hears of what befalls the record and does nothing: the agent goes on."""

    def evidence_broke(self, error: LedgerError) -> None: ...

    def evidence_lost(self) -> None: ...

    def full(self, met: CapExceeded) -> None: ...


@dataclass
class Wire:
    """What was seen outside docket, over all sessions."""

    forwarded: int = 0
    acknowledged_losses: int = 0
    call: int = 0
    story: list[str] = field(default_factory=list)


async def live(
    run: RunDirectory, past: Past, taken: TakenUp | None, disk: Volume, rng: random.Random, wire: Wire
) -> None:
    """One session: calls on a volume whose room comes and goes, then an end, or none."""
    mode: WriteFailure = rng.choice(["continue", "continue", "refuse", "stop"])
    keys, clock = Keys(run=new_run_key()), SystemClock()
    guard = Guard(mode, None, past.before if taken is not None else None)
    try:
        reserve = Reserve.make(run, RESERVED)
    except LedgerError:
        if taken is not None:
            taken.lock.release()
        raise
    if taken is None:
        writer = LedgerWriter.create(run, key=keys.run, clock=clock, guard=guard, reserve=reserve)
    else:
        try:
            writer = LedgerWriter.resume(
                run, taken.lock, past.read, key=keys.run, clock=clock, guard=guard, reserve=reserve
            )
        except LedgerError:
            taken.lock.release()
            raise
    recorder = RunRecorder(writer, mode, Ceilings(), Nobody())
    writer.observe(past.totals.add)
    try:
        start = await writer.append_watched(
            session_start(
                docket=run.name,
                keys=keys,
                policy=digest(POLICY),
                prices=str(TABLE["digest"]),
                private={},
                session=len(past.sessions),
                continues=taken.continues if taken is not None else None,
            )
        )
        started(start)
        past.sessions.append(Session(start))
        started(await recorder.append(policy_applied()))
        started((await writer.checkpoint()).covered)
        for _ in range(rng.randint(0, 25)):
            if not await one_call(recorder, disk, rng, wire):
                break
            if rng.random() < 0.2:
                disk.room += rng.choice([-4000, 3000, 9000])
            if rng.random() < 0.2:
                await writer.checkpoint()
        if not disk.crashed and rng.random() < 0.5:
            await sealed(run, writer, past, keys)
            wire.story.append("sealed")
    finally:
        await writer.close()


async def one_call(recorder: RunRecorder, disk: Volume, rng: random.Random, wire: Wire) -> bool:
    """One call of the agent; whether docket still lives after it."""
    if recorder.refusal() is not None:
        return True
    wire.call += 1
    if not await record(recorder, request(wire.call, rng.choice([10, 400])), disk, wire):
        if disk.crashed:
            return False
        if recorder.refusal(lost=True) is not None:
            return True
    wire.forwarded += 1
    await record(recorder, response(wire.call), disk, wire)
    return not disk.crashed


async def record(recorder: RunRecorder, event: object, disk: Volume, wire: Wire) -> bool:
    """Record ``event``; whether it is durable. A loss counts as acknowledged where docket lives on."""
    try:
        entry = await recorder.append(event)  # type: ignore[arg-type]
    except LedgerError:
        entry = None
    if entry is None and not disk.crashed:
        wire.acknowledged_losses += 1
    return entry is not None


async def sealed(run: RunDirectory, writer: LedgerWriter, past: Past, keys: Keys) -> None:
    receipt = Run(
        docket=run.name,
        created_at=timestamp(SystemClock().unix_us()),
        tool=TOOL,
        outcome="completed",
        exit={"code": 0},
        policy=POLICY,
        tables=tuple(TABLE for _ in past.sessions),
    )
    elsewhere = (run.path.parent.parent / "elsewhere",)
    await seal(run, writer, past.totals, past.findings, lambda: receipt, keys, past.starts, os.urandom, elsewhere)


def disclosed(run: RunDirectory) -> tuple[int, int, Counter[str], str]:
    """Requests on record, events told as lost, those by type as far as types are known, and the receipt's kind."""
    receipt = decode_object((run.path / RECEIPT).read_bytes()[:-1])
    events: list[Entry] = []
    from docket.storage.reader import read_ledger

    read_ledger(run, events.append)
    bound = events[: receipt["ledger"]["size"]]  # type: ignore[index,call-overload,misc]
    evidence: dict[str, object] = receipt["ops"]["evidence"]  # type: ignore[index,call-overload,assignment]
    by_type: Counter[str] = Counter(evidence["gaps"])  # type: ignore[call-overload]
    for entry in bound:
        if entry.type == "x-docket.ledger-gap":
            by_type.update(entry.data["lost"]["types"])  # type: ignore[index,call-overload,arg-type]
    recorded = sum(entry.type == "model.request" for entry in bound)
    return recorded, int(str(evidence["unwritten_events"])), by_type, str(receipt["kind"])


async def history(root: Path, seed: int) -> str:
    """Live a history; return its story. Raises AssertionError where the record says more than it knows, or less."""
    rng, wire, path = random.Random(seed), Wire(), None
    place = f"seed {seed}"
    for _ in range(rng.randint(1, 3)):
        room = RESERVED + 2000 + rng.randint(0, 30_000) + (0 if path is None else sum_of(path))
        disk = Volume(room, rng.choice([10**9, rng.randint(20, 160)]))
        taken, past = None, Past()
        try:
            if path is None:
                run = new_run(root, disk)
            else:
                taken = take_up(path, Policy(), None, SystemClock(), disk)
                run, past = taken.run, taken.past
        except (DocketError, OSError) as error:
            wire.story.append(f"not taken up: {type(error).__name__}")
            break
        path, wire.call = run.path, past.rebooking.last_call
        try:
            await live(run, past, taken, disk, rng, wire)
        except (DocketError, OSError, NotStarted) as error:
            wire.story.append(f"did not start: {type(error).__name__}")
        run.close()
    assert path is not None
    judge(path, wire, root, place)
    return ", ".join(wire.story)


def judge(path: Path, wire: Wire, root: Path, place: str) -> None:
    run = RunDirectory.open(path)
    before = diagnose(path)
    assert before.state in ("complete", "no receipt", "torn tail", "never started", "beyond the receipt"), before
    try:
        close(run, SystemClock(), elsewhere=(root / ".docket" / "elsewhere",))
        wire.story.append("closed")
    except LedgerError as error:
        wire.story.append(str(error).rpartition(": ")[2].replace(str(path), "it"))
        known = "has a receipt" in str(error) or "nothing to close" in str(error)
    else:
        known = True
    assert known, (place, wire)
    if not (path / RECEIPT).exists():  # nothing ever ran, or a further session died before it had a policy
        assert "nothing to close" in wire.story[-1], (place, wire)
        return
    report = verify(documents_at(path))
    recorded, lost, by_type, kind = disclosed(run)
    run.close()
    assert report.verdict in (Verdict.VERIFIED, Verdict.INCOMPLETE, Verdict.RECOVERED), (place, report.reason)
    assert lost >= by_type.total(), place
    assert lost >= wire.acknowledged_losses or kind == "recovered", (place, lost, wire)
    assert wire.forwarded <= recorded + lost, (place, wire.forwarded, recorded, lost)
    if report.verdict is Verdict.VERIFIED:
        assert (recorded, lost) == (wire.forwarded, 0), place
    wire.story.append(kind)


def sum_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir() if file.is_file() and file.name != "reserve")


async def test_what_was_forwarded_is_recorded_or_disclosed_whatever_the_history(tmp_path: Path) -> None:
    stories = {await history(tmp_path / str(seed), seed) for seed in SAMPLE}
    assert len(stories) > 3, "histories that are all alike show nothing"


@pytest.mark.long
async def test_five_hundred_histories(tmp_path: Path) -> None:
    stories = Counter([await history(tmp_path / str(seed), seed) for seed in ALL])
    assert len(stories) > 10
