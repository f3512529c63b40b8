"""The record of a run: whatever the disk does, nothing acknowledged is missing and every number said is exact."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from docket.clock import SystemClock
from docket.control.evidence import RESERVE, Ceilings, Guard, WriteFailure
from docket.errors import LedgerError, LedgerWriteError, UsageError
from docket.ledger.chain import Entry
from docket.ledger.events import CapExceeded, CapWarning, Event, Note, ProcExit
from docket.ledger.recovery import decide
from docket.sim.disk import Fail, FaultyDisk, Operation, Short
from docket.storage.durable import SystemDisk
from docket.storage.paths import LEDGER, RunDirectory
from docket.storage.reader import read_ledger
from docket.storage.record import Position
from docket.storage.writer import LedgerWriter
from docket.supervisor.recorder import RunRecorder
from kit.runs import KEY, new_run, request, response, session_end, session_start


class Moods(FaultyDisk):
    """A disk in a mood: ``None`` is well, otherwise what befalls every call of a kind on the ledger."""

    def __init__(self) -> None:
        self.mood: dict[str, Fail | Short] = {}
        super().__init__(SystemDisk(), self.feel)

    def feel(self, operation: Operation) -> Fail | Short | None:
        return self.mood.get(operation.kind) if operation.name == LEDGER else None


FULL = {"write": Fail(errno.ENOSPC)}
TORN = {"write": Fail(errno.ENOSPC, after=70)}
QUOTA = {"write": Fail(errno.EDQUOT, after=1)}
BROKEN = {"sync": Fail(errno.EIO)}


class Listener:
    """Remembers what befell the record."""

    def __init__(self) -> None:
        self.met: list[CapExceeded] = []
        self.broke: list[LedgerError] = []
        self.losses = 0

    def evidence_broke(self, error: LedgerError) -> None:
        self.broke.append(error)

    def evidence_lost(self) -> None:
        self.losses += 1

    def full(self, met: CapExceeded) -> None:
        self.met.append(met)


class Recorded(RunRecorder):
    """A run's recorder with its writer at hand."""

    def __init__(self, writer: LedgerWriter, mode: WriteFailure, ceilings: Ceilings) -> None:
        self.listener, self.writer = Listener(), writer
        super().__init__(writer, mode, ceilings, self.listener)


async def started(
    root: Path, mode: WriteFailure, ceilings: Ceilings | None = None
) -> tuple[LedgerWriter, Recorded, Moods, list[Entry]]:
    disk = Moods()
    run = new_run(root, disk)
    writer = LedgerWriter.create(run, key=KEY, clock=SystemClock(), guard=Guard(mode, ceilings))
    recorder = Recorded(writer, mode, ceilings or Ceilings())
    entries: list[Entry] = []
    writer.observe(entries.append)
    await writer.append_watched(session_start(run.name))
    await writer.checkpoint()
    return writer, recorder, disk, entries


def on_disk(writer: LedgerWriter) -> list[Entry]:
    """What a stranger reads, a torn tail apart."""
    entries: list[Entry] = []
    decision = decide(read_ledger(RunDirectory.open(writer.run.path), entries.append).scan)
    assert decision.state in ("intact", "torn")
    return entries


@pytest.mark.parametrize("mood", [FULL, TORN, QUOTA], ids=["full", "torn", "quota"])
async def test_when_space_returns_a_gap_event_comes_first_and_is_exact(
    tmp_path: Path, mood: dict[str, Fail | Short]
) -> None:
    writer, recorder, disk, entries = await started(tmp_path, "continue")
    await writer.append(request(1))
    disk.mood = mood
    assert await writer.append(response(1)) is None
    assert await writer.append(request(2)) is None
    assert await writer.append(response(2)) is None
    assert (writer.writable, writer.unwritten) == (False, 3)
    assert writer.condition.evidence.gaps == {"model.request": 1, "model.response": 2}
    assert recorder.refusal() is None
    assert recorder.refusal(lost=True) is None
    disk.mood = {}
    after = await writer.append(request(3))
    assert after is not None
    gap, last = entries[-2:]
    assert (gap.type, gap.seq, last) == ("x-docket.ledger-gap", 2, after)
    assert gap.data["lost"] == {
        "count": 3,
        "types": {"model.request": 1, "model.response": 2},
        "tokens": 14,
        "cost_usd": "0.000021",
    }
    position = await writer.checkpoint()
    evidence = position.evidence
    assert (evidence.ledger_complete, evidence.unwritten_events, evidence.first_failing_seq) == (False, 3, 2)
    assert (evidence.write_failures, evidence.gaps, evidence.intact) == (3, {}, True)
    assert writer.writable
    await writer.close()
    assert on_disk(writer) == entries
    assert position.size == len(entries) == 4


async def test_after_a_failed_sync_the_file_is_never_touched_again_and_the_prefix_is_bound(tmp_path: Path) -> None:
    writer, _recorder, disk, entries = await started(tmp_path, "continue")
    await writer.append(request(1))
    disk.mood = BROKEN
    assert await writer.append(response(1)) is None
    disk.mood = {}
    left = (writer.run.path / LEDGER).read_bytes()
    operations = disk.operations
    assert await writer.append(request(2)) is None
    assert await writer.append_watched(session_end()) is None
    assert disk.operations == operations
    position = await writer.checkpoint()
    assert (position.size, set(position.proofs)) == (2, {0})
    assert position.evidence.gaps == {"model.request": 1, "model.response": 1, "session.end": 1}
    assert not position.evidence.ledger_complete
    await writer.close()
    assert (writer.run.path / LEDGER).read_bytes() == left
    read = on_disk(writer)
    assert read[:2] == entries
    assert position.head == entries[-1].hash
    assert f"\n{position.size}\n" in position.note


@pytest.mark.parametrize(("mood", "final"), [(FULL, False), (BROKEN, True)], ids=["full", "broken"])
async def test_refuse_fails_requests_only_temporarily_while_space_may_return(
    tmp_path: Path, mood: dict[str, Fail | Short], final: bool
) -> None:
    writer, recorder, disk, _ = await started(tmp_path, "refuse")
    await writer.append(request(1))
    disk.mood = mood
    assert await recorder.append(request(2)) is None
    lost = recorder.refusal(lost=True)
    assert lost is not None
    assert lost.final is final
    assert await writer.append(response(1)) is None
    refused = recorder.refusal()
    assert refused is not None
    assert (refused.code, refused.final) == ("evidence_broken", final)
    disk.mood = {}
    await writer.append(Note())
    assert (recorder.refusal() is None) is not final
    await writer.close()


async def test_stop_breaks_at_the_first_failure_refuses_every_call_and_still_tells_of_the_loss(tmp_path: Path) -> None:
    writer, recorder, disk, entries = await started(tmp_path, "stop")
    disk.mood = FULL
    with pytest.raises(LedgerWriteError, match="No space left"):
        await recorder.append(request(1))
    refused = recorder.refusal()
    assert refused is not None
    assert (refused.code, refused.final, len(recorder.listener.broke)) == ("evidence_broken", True, 1)
    disk.mood = {}
    assert await writer.append_watched(session_end()) is not None
    assert [entry.type for entry in entries] == ["session.start", "x-docket.ledger-gap", "session.end"]
    assert recorder.refusal() is not None
    await writer.close()
    assert on_disk(writer) == entries


@pytest.mark.parametrize("mode", ["continue", "refuse", "stop"])
async def test_a_run_that_cannot_record_its_start_does_not_start(tmp_path: Path, mode: WriteFailure) -> None:
    disk = Moods()
    disk.mood = FULL
    writer = LedgerWriter.create(new_run(tmp_path, disk), key=KEY, clock=SystemClock(), guard=Guard(mode))
    with pytest.raises(LedgerWriteError):
        await writer.append_watched(session_start(writer.run.name))
    await writer.close()


class GuardMachine(RuleBasedStateMachine):
    """A run on a disk whose mood changes; the model keeps what was acknowledged and what was not."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.lost: Counter[str] = Counter()
        self.acknowledged: list[Entry] = []
        self.call = 0
        self.final = False

    @initialize(mode=st.sampled_from(["continue", "refuse"]))
    def start(self, mode: WriteFailure) -> None:
        made = self.loop.run_until_complete(started(Path(self.directory.name), mode))
        self.writer, self.recorder, self.disk, self.entries = made
        self.mode = mode

    @rule(mood=st.sampled_from([{}, {}, FULL, TORN, QUOTA, {"write": Short(9)}]))
    def change_mood(self, mood: dict[str, Fail | Short]) -> None:
        self.disk.mood = mood

    @rule(count=st.integers(1, 6))
    def record_several(self, count: int) -> None:
        events: list[Event] = []
        for _ in range(count):
            self.call += 1
            events += [request(self.call), response(self.call)]
        self.loop.run_until_complete(self.record(events))

    @rule()
    def sync_fails_once(self) -> None:
        self.disk.mood = BROKEN
        self.loop.run_until_complete(self.record([Note()]))
        self.disk.mood = {}
        self.final = True

    @rule()
    def sign(self) -> None:
        position: Position = self.loop.run_until_complete(self.writer.checkpoint())
        assert position.size == self.writer.size
        assert position.head == self.writer.head

    async def record(self, events: list[Event]) -> None:
        waiters = [self.recorder.submit(event) for event in events]
        results = await asyncio.gather(*waiters, return_exceptions=True)
        for event, result in zip(events, results, strict=True):
            if isinstance(result, Entry):
                self.acknowledged.append(result)
                continue
            assert result is None
            self.lost[event.type] += 1
            assert (self.recorder.refusal(lost=True) is None) == (self.mode == "continue")

    @invariant()
    def nothing_acknowledged_is_missing_and_every_number_is_exact(self) -> None:
        entries = on_disk(self.writer)
        assert entries[: len(self.entries)] == self.entries
        written = {entry.hash for entry in entries}
        assert all(entry.hash in written for entry in self.acknowledged)
        evidence = self.writer.condition.evidence
        assert evidence.unwritten_events == self.lost.total()
        told: Counter[str] = Counter()
        for entry in self.entries:
            if entry.type == "x-docket.ledger-gap":
                told.update(entry.data["lost"]["types"])  # type: ignore[index,call-overload,arg-type]
        assert told + Counter(evidence.gaps) == self.lost
        assert evidence.ledger_complete == (not self.lost and not self.final)
        if self.final:
            refused = self.recorder.refusal()
            assert (refused is not None and refused.final) or self.mode == "continue"

    def teardown(self) -> None:
        if hasattr(self, "writer"):
            self.loop.run_until_complete(self.writer.close())
        self.loop.close()
        self.directory.cleanup()


GuardMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestGuard = GuardMachine.TestCase


async def test_a_full_ledger_is_named_once_and_its_end_always_fits(tmp_path: Path) -> None:
    limit = 2 * RESERVE
    writer, recorder, _, entries = await started(tmp_path, "continue", Ceilings(max_bytes=limit))
    call = 0
    while recorder.refusal() is None:
        call += 1
        await writer.append(request(call, 2000))
        await writer.append(response(call))
    refused = recorder.refusal()
    assert refused is not None
    assert (refused.code, refused.limit, refused.final) == ("max_ledger_bytes", str(limit), True)
    for number in range(3000):  # a flood that the ceiling must hold back
        await writer.append(CapWarning(cap="max_usd", limit=str(number), observed="x" * 100))
    assert await writer.append(ProcExit(code=0)) is not None
    assert await writer.append_watched(session_end()) is not None
    position = await writer.checkpoint()
    await writer.close()
    assert [event.cap for event in recorder.listener.met] == ["max_ledger_bytes"]
    assert [entry.data["cap"] for entry in entries if entry.type == "cap.exceeded"] == ["max_ledger_bytes"]
    assert (writer.run.path / LEDGER).stat().st_size <= limit
    assert on_disk(writer) == entries
    assert sum(entry.type == "x-docket.ledger-gap" for entry in entries) == 1
    assert position.size == len(entries)


async def test_the_event_ceiling_counts_the_ends_of_open_calls_and_exempts_the_run_itself(tmp_path: Path) -> None:
    writer, recorder, _, entries = await started(tmp_path, "continue", Ceilings(max_events=10))
    for call in range(1, 5):
        await writer.append(request(call))
    assert recorder.refusal() is None
    await writer.append(request(5))
    refused = recorder.refusal()
    assert refused is not None
    assert (refused.code, refused.limit) == ("max_events", "10")
    for call in range(1, 6):
        assert await writer.append(response(call)) is not None
    assert await writer.append(ProcExit(code=0)) is not None
    assert await writer.append_watched(session_end()) is not None
    await writer.close()
    assert writer.condition.evidence.ledger_complete
    assert sum(entry.type.startswith("model.") for entry in entries) == 10


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    volume = tmp_path / "volume"
    volume.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(volume)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    yield volume
    subprocess.run(["umount", "-l", str(volume)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs needs root")
async def test_a_really_full_volume_loses_nothing_acknowledged_and_recovers(volume: Path) -> None:
    run = new_run(volume)
    writer = LedgerWriter.create(run, key=KEY, clock=SystemClock(), guard=Guard("continue"))
    entries: list[Entry] = []
    writer.observe(entries.append)
    await writer.append_watched(session_start(run.name))
    await writer.checkpoint()
    ballast = volume / "ballast"
    ballast.write_bytes(b"x" * 100_000)
    call = 0
    while writer.writable:
        call += 1
        await writer.append(request(call, 3000))
    lost = 1
    for _ in range(5):
        call += 1
        lost += await writer.append(request(call, 3000)) is None
    assert on_disk(writer) == entries
    assert writer.unwritten == lost
    ballast.unlink()
    assert await writer.append(request(call + 1)) is not None
    assert entries[-2].data["lost"]["count"] == lost  # type: ignore[index,call-overload]
    await writer.append_watched(session_end())
    position = await writer.checkpoint()
    await writer.close()
    assert on_disk(writer) == entries
    assert position.size == len(entries)
    run.close()


async def run_with_one_failure(root: Path, number: int, outcome: Fail | Short) -> bool:
    """A whole run whose ``number``-th call that changes something fails once; whether it came to that call."""
    disk = FaultyDisk(SystemDisk(), lambda operation: outcome if operation.number == number else None)
    try:
        run = new_run(root / f"{number}", disk)
        writer = LedgerWriter.create(run, key=KEY, clock=SystemClock(), guard=Guard("continue"))
    except (UsageError, LedgerWriteError):
        return True
    entries: list[Entry] = []
    writer.observe(entries.append)
    lost = 0
    try:
        await writer.append_watched(session_start(run.name))
        await writer.checkpoint()
    except LedgerWriteError:
        await writer.close()
        assert len(on_disk(writer)) <= 1
        return True
    for call in range(1, 4):
        for event in (request(call), response(call)):
            lost += await writer.append(event) is None
    differences = await writer.compare()
    lost += await writer.append_watched(session_end()) is None
    position = await writer.checkpoint()
    await writer.close()
    place = (number, outcome)
    assert differences == (), place
    assert on_disk(writer)[: len(entries)] == entries, place
    assert position.size == len(entries), place
    assert position.evidence.unwritten_events == lost, place
    assert position.evidence.ledger_complete == (lost == 0 and position.covered), place
    gaps = sum(entry.type == "x-docket.ledger-gap" for entry in entries)
    assert len(entries) - gaps + lost == 8, place
    return disk.operations > number


@pytest.mark.parametrize(
    "outcome",
    [
        Fail(errno.EIO),
        Fail(errno.ENOSPC),
        Fail(errno.ENOSPC, after=99),
        Fail(errno.EDQUOT),
        Fail(errno.EBADF),
        Short(3),
    ],
    ids=["eio", "enospc", "enospc-torn", "edquot", "ebadf", "short"],
)
async def test_any_call_of_a_run_failing_once_loses_nothing_acknowledged(tmp_path: Path, outcome: Fail | Short) -> None:
    number = 0
    while await run_with_one_failure(tmp_path, number, outcome):
        number += 1
    assert number > 20


async def test_files_that_cannot_be_read_back_are_no_other_hand_and_nothing_is_said_to_be_complete(
    tmp_path: Path,
) -> None:
    class Blind(FaultyDisk):
        blind = False

        def read(self, fd: int, size: int, offset: int) -> bytes:
            if self.blind:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(fd, size, offset)

    disk = Blind(SystemDisk(), lambda operation: None)
    run = new_run(tmp_path, disk)
    writer = LedgerWriter.create(run, key=KEY, clock=SystemClock(), guard=Guard("continue"))
    await writer.append_watched(session_start(run.name))
    assert writer.condition.evidence.ledger_complete is True
    disk.blind = True
    assert await writer.compare() == ()
    await writer.append(Note())
    evidence = writer.condition.evidence
    assert (evidence.ledger_complete, evidence.intact, evidence.unwritten_events) == ("unknown", True, 0)
    await writer.close()
