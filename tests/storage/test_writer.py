"""The writer: order, durability, cancellation, death, checkpoints, comparison."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from docket.clock import SystemClock
from docket.errors import FormatError, LedgerDamagedError, LedgerError, LedgerLockedError, LedgerWriteError
from docket.ledger.chain import MAX_LINE, Entry
from docket.ledger.checkpoint import parse, split
from docket.ledger.events import Note
from docket.sim.clock import ManualClock
from docket.sim.disk import Crash, Fail, FaultyDisk, Operation, Plan, Short
from docket.storage.durable import SystemDisk
from docket.storage.lock import Lock
from docket.storage.paths import CHECKPOINTS, LEDGER, RunDirectory
from docket.storage.reader import read_ledger
from docket.storage.record import CHECKPOINT_EVENTS
from docket.storage.writer import LedgerWriter
from kit.runs import KEY, new_run, request, response, session_end, session_start, some_events, write_run


def on(kind: str, number: int, outcome: Fail | Short | Crash, name: str = LEDGER) -> Plan:
    """A plan for the ``number``-th call of a kind on a file."""
    seen = 0

    def plan(operation: Operation) -> Fail | Short | Crash | None:
        nonlocal seen
        if operation.kind != kind or operation.name != name:
            return None
        seen += 1
        return outcome if seen == number + 1 else None

    return plan


def never(operation: Operation) -> None:
    return None


def create(run: RunDirectory) -> LedgerWriter:
    return LedgerWriter.create(run, key=KEY, clock=SystemClock())


def entries_of(run: RunDirectory) -> list[Entry]:
    entries: list[Entry] = []
    read = read_ledger(run, entries.append)
    assert read.scan.fault is None
    return entries


class GatedDisk(FaultyDisk):
    """A disk whose syncs wait for a gate: what arrives meanwhile has to share the next one."""

    def __init__(self) -> None:
        super().__init__(SystemDisk(), never)
        self.gate = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.entered.release()
        self.gate.acquire()
        super().sync(fd)


async def test_a_whole_run_reads_back_with_the_position_that_was_said(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    position = await write_run(run, some_events(5))
    read = read_ledger(run)
    assert (read.scan.chain.size, read.scan.chain.head) == (position.size, position.head) == (12, position.head)
    assert read.scan.chain.root().hex() == position.root
    assert read.scan.attested == 12
    assert read.notes.last.decode() == position.note
    assert parse(position.note.encode()).is_signed_by(KEY.public)
    assert set(position.proofs) == {0, 11}
    for seq, proof in position.proofs.items():
        builder = read.scan.watched[seq]
        assert [node.hex() for node in read.scan.chain.frontier.proof(builder)] == list(proof.hashes)


async def test_append_returns_only_when_the_event_is_on_stable_storage(tmp_path: Path) -> None:
    disk = GatedDisk()
    run = new_run(tmp_path, disk)
    writer = create(run)
    waiting = writer.submit(request(1))
    await asyncio.to_thread(disk.entered.acquire)
    assert (run.path / LEDGER).read_bytes().endswith(b"\n")  # written, but not yet synced
    assert not waiting.done()
    assert writer.size == 0
    disk.gate.release(100)
    entry = await waiting
    assert (entry.seq, writer.size, writer.head) == (0, 1, entry.hash)
    await writer.close()


async def test_everything_that_waits_during_a_sync_shares_the_next_one(tmp_path: Path) -> None:
    disk = GatedDisk()
    writer = create(new_run(tmp_path, disk))
    first = writer.submit(request(1))
    await asyncio.to_thread(disk.entered.acquire)
    rest = [writer.submit(request(call)) for call in range(2, 102)]
    disk.gate.release(100)
    entries = await asyncio.gather(first, *rest)
    assert [entry.seq for entry in entries] == list(range(101))
    assert disk.syncs == 2
    await writer.close()


async def test_observers_see_every_entry_in_order_before_its_caller_goes_on(tmp_path: Path) -> None:
    writer = create(new_run(tmp_path))
    seen: list[int] = []
    writer.observe(lambda entry: seen.append(entry.seq))
    for call in range(1, 6):
        entry = await writer.append(request(call))
        assert seen == list(range(entry.seq + 1))
    await asyncio.gather(*(writer.submit(request(call)) for call in range(6, 60)))
    assert seen == list(range(59))
    await writer.close()


async def test_an_observer_that_raises_takes_nothing_from_the_others(tmp_path: Path) -> None:
    writer = create(new_run(tmp_path))
    seen: list[int] = []
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context["exception"]))

    def broken(entry: Entry) -> None:
        raise AssertionError("a bug")

    writer.observe(broken)
    writer.observe(lambda entry: seen.append(entry.seq))
    await asyncio.gather(*(writer.submit(request(call)) for call in range(1, 4)))
    await writer.close()
    assert seen == [0, 1, 2]
    assert len(problems) == 3


async def test_a_cancelled_append_still_counts_as_written(tmp_path: Path) -> None:
    disk = GatedDisk()
    run = new_run(tmp_path, disk)
    writer = create(run)
    seen: list[int] = []
    writer.observe(lambda entry: seen.append(entry.seq))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(writer.append(request(1)))
        await asyncio.to_thread(disk.entered.acquire)
        task.cancel()
    assert task.cancelled()
    disk.gate.release(100)
    assert (await writer.append(request(2))).seq == 1
    assert seen == [0, 1]
    await writer.close()
    assert [entry.data["call"] for entry in entries_of(run)] == [1, 2]


async def test_an_event_without_canonical_form_fails_its_own_caller_only(tmp_path: Path) -> None:
    writer = create(new_run(tmp_path))
    good = writer.submit(request(1))
    with pytest.raises(FormatError):
        writer.submit(Note(private={"text": "\ud800"}))
    too_long = writer.submit(Note(private={"text": "x" * MAX_LINE}))
    other = writer.submit(request(2))
    with pytest.raises(FormatError, match="limit"):
        await too_long
    assert [(await good).seq, (await other).seq] == [0, 1]
    await writer.close()


async def test_no_batched_write_is_longer_than_a_tear_may_be(tmp_path: Path) -> None:
    sizes: list[int] = []

    class Measured(FaultyDisk):
        def write(self, fd: int, data: bytes, offset: int) -> int:
            sizes.append(len(data))
            return super().write(fd, data, offset)

    run = new_run(tmp_path, Measured(SystemDisk(), never))
    writer = create(run)
    await asyncio.gather(*(writer.submit(request(call, 300_000)) for call in range(1, 12)))
    await writer.close()
    assert max(sizes) <= MAX_LINE
    assert len(entries_of(run)) == 11


@pytest.mark.parametrize(
    ("plan", "lost"),
    [
        (on("write", 2, Fail(errno.ENOSPC)), 1),
        (on("write", 2, Fail(errno.ENOSPC, after=50)), 1),
        (on("write", 2, Fail(errno.EDQUOT, after=50)), 1),
        (on("sync", 2, Fail(errno.EIO)), 7),
        (on("write", 2, Crash(after=50)), 7),
    ],
    ids=["enospc", "enospc-torn", "edquot", "eio-on-sync", "crash"],
)
async def test_what_cannot_be_written_fails_whoever_waits_for_it_and_is_counted(
    tmp_path: Path, plan: Plan, lost: int
) -> None:
    run = new_run(tmp_path, FaultyDisk(SystemDisk(), plan))
    writer = create(run)
    results = []
    for call in range(1, 10):
        results += await asyncio.gather(writer.append(request(call)), return_exceptions=True)
        await writer.checkpoint()
    failed = [result for result in results if isinstance(result, LedgerWriteError)]
    acknowledged = [result for result in results if isinstance(result, Entry)]
    assert (len(failed), len(acknowledged)) == (lost, 9 - lost)
    evidence = writer.condition.evidence
    assert (evidence.unwritten_events, evidence.ledger_complete) == (lost, False)
    await writer.close()
    whole = [line for line in (run.path / LEDGER).read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    assert all(any(entry.hash.encode() in line for line in whole) for entry in acknowledged)


async def test_a_writer_without_a_first_checkpoint_ends_and_fails_every_later_call(tmp_path: Path) -> None:
    run = new_run(tmp_path, FaultyDisk(SystemDisk(), on("sync", 0, Fail(errno.EIO), CHECKPOINTS)))
    writer = create(run)
    assert await writer.append(request(1)) is not None
    with pytest.raises(LedgerWriteError):
        await writer.checkpoint()
    for late in (writer.append(request(99)), writer.checkpoint(), writer.compare()):
        with pytest.raises(LedgerWriteError):
            await late
    await writer.close()
    assert len((run.path / LEDGER).read_bytes().splitlines()) == 1


async def test_waiters_of_a_dead_writer_are_all_failed(tmp_path: Path) -> None:
    disk = GatedDisk()
    plan = on("sync", 0, Fail(errno.EIO))
    disk._plan = plan
    writer = create(new_run(tmp_path, disk))
    first = writer.submit(request(1))
    await asyncio.to_thread(disk.entered.acquire)
    rest = [writer.submit(request(call)) for call in range(2, 50)]
    disk.gate.release(100)
    results = await asyncio.gather(first, *rest, return_exceptions=True)
    assert all(isinstance(result, LedgerWriteError) for result in results)
    await writer.close()


async def test_short_writes_are_continued(tmp_path: Path) -> None:
    run = new_run(tmp_path, FaultyDisk(SystemDisk(), lambda op: Short(7) if op.kind == "write" else None))
    position = await write_run(run, some_events(2))
    assert len(entries_of(run)) == position.size == 6


async def test_after_a_failed_write_the_file_is_cut_back_to_its_last_durable_line(tmp_path: Path) -> None:
    run = new_run(tmp_path, FaultyDisk(SystemDisk(), on("write", 1, Fail(errno.ENOSPC, after=40))))
    writer = create(run)
    await writer.append(request(1))
    with pytest.raises(LedgerWriteError, match="No space left"):
        await writer.append(request(2))
    await writer.close()
    assert len(entries_of(run)) == 1


async def test_checkpoints_come_every_256_events_and_cover_only_what_is_synced(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    writer = LedgerWriter.create(run, key=KEY, clock=ManualClock())  # none comes by age on a slow disk
    await writer.append(session_start(run.name))
    await writer.checkpoint()
    for call in range(1, 2 * CHECKPOINT_EVENTS + 2):
        await writer.append(request(call))
    await writer.close()
    notes = (run.path / CHECKPOINTS).read_bytes()
    sizes = [parse(note).size for note in split(notes)[0]]
    assert sizes == [1, 1 + CHECKPOINT_EVENTS, 1 + 2 * CHECKPOINT_EVENTS]


async def test_a_checkpoint_comes_by_itself_once_events_are_two_seconds_old(tmp_path: Path) -> None:
    class FastClock(SystemClock):
        def monotonic_us(self) -> int:
            return super().monotonic_us() * 1000

    noted = threading.Semaphore(0)

    class Watched(FaultyDisk):
        def sync(self, fd: int) -> None:
            super().sync(fd)
            if self._names.get(fd) == CHECKPOINTS:
                noted.release()

    run = new_run(tmp_path, Watched(SystemDisk(), never))
    writer = LedgerWriter.create(run, key=KEY, clock=FastClock())
    await writer.append(session_start(run.name))
    assert await asyncio.to_thread(noted.acquire, timeout=30)
    await writer.close()
    assert read_ledger(run).scan.attested == 1


async def test_closing_twice_and_using_afterwards(tmp_path: Path) -> None:
    writer = create(new_run(tmp_path))
    await writer.close()
    await writer.close()
    with pytest.raises(LedgerError, match="closed"):
        await writer.append(request(1))


async def test_close_writes_what_still_waits(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    writer = create(run)
    waiting = [writer.submit(request(call)) for call in range(1, 20)]
    await writer.close()
    assert all(future.done() for future in waiting)
    assert len(entries_of(run)) == 19


async def test_a_second_writer_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    writer = create(run)
    with pytest.raises(LedgerLockedError, match=run.name):
        create(run)
    await writer.close()
    with pytest.raises(LedgerWriteError, match="File exists"):
        create(run)


def replace_file(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


def edit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(30)
        file.write(b"X")


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(40)


def append_garbage(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"garbage")


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (replace_file, "replaced"),
        (Path.unlink, "removed"),
        (edit, "edited"),
        (cut, "resized"),
        (append_garbage, "resized"),
        (lambda path: path.with_name("second").hardlink_to(path), "linked"),
    ],
    ids=["replaced", "removed", "edited", "cut", "appended", "linked"],
)
@pytest.mark.parametrize("name", [LEDGER, CHECKPOINTS])
async def test_a_changed_file_is_noticed_and_recorded(
    tmp_path: Path, tamper: Callable[[Path], None], found: str, name: str
) -> None:
    run = new_run(tmp_path)
    writer = create(run)
    violations: list[Entry] = []
    writer.observe(lambda entry: violations.append(entry) if entry.type == "policy.violation" else None)
    await writer.append(session_start(run.name))
    await writer.checkpoint()
    tamper(run.path / name)
    assert f"{name} {found}" in await writer.compare()
    differences = await writer.compare()
    assert [entry.data["reason"] for entry in violations] == list(differences)
    await writer.close()


async def test_untouched_files_are_intact_however_often_they_are_compared(tmp_path: Path) -> None:
    writer = create(new_run(tmp_path))
    for call in range(1, 4):
        await writer.append(request(call))
        await writer.checkpoint()
        assert await writer.compare() == ()
    await writer.append(session_end())
    await writer.close()


async def test_salts_are_never_reused(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_run(run, some_events(30))
    salts = [member["salt"] for entry in entries_of(run) if entry.private for member in entry.private.values()]
    assert len(salts) == len(set(salts)) > 60


async def test_files_are_private_and_hold_what_was_synced(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_run(run, some_events(1))
    assert {path.name: path.stat().st_mode & 0o777 for path in run.path.iterdir()} == {
        LEDGER: 0o600,
        CHECKPOINTS: 0o600,
        "lock": 0o600,
    }
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert read_ledger(run).scan.digest.digest() == hashlib.sha256((run.path / LEDGER).read_bytes()).digest()


@pytest.mark.parametrize("tamper", [replace_file, Path.unlink, append_garbage], ids=["replaced", "removed", "appended"])
@pytest.mark.parametrize("name", [LEDGER, CHECKPOINTS])
async def test_what_can_be_undone_is_undone_and_the_run_goes_on(
    tmp_path: Path, tamper: Callable[[Path], None], name: str
) -> None:
    run = new_run(tmp_path)
    writer = create(run)
    entries: list[Entry] = []
    writer.observe(entries.append)
    await writer.append(session_start(run.name))
    await writer.checkpoint()
    tampered = (run.path / name).read_bytes()
    tamper(run.path / name)
    await writer.append(request(1))
    await writer.checkpoint()
    await writer.append(response(1))
    position = await writer.checkpoint()
    assert len(await writer.compare()) == 1
    await writer.close()
    assert entries_of(run) == entries
    assert read_ledger(run).notes.last.decode() == position.note
    foreign = list(run.path.glob("*.foreign.*"))
    assert [path.read_bytes() for path in foreign] == ([tampered] if tamper is replace_file else [])
    assert not list(run.path.glob(".*"))


async def test_a_disk_that_refuses_leaves_the_true_file_with_its_descriptor(tmp_path: Path) -> None:
    full = False
    run = new_run(
        tmp_path, FaultyDisk(SystemDisk(), lambda op: Fail(errno.ENOSPC) if full and op.kind == "create" else None)
    )
    writer = create(run)
    await writer.append(session_start(run.name))
    await writer.checkpoint()
    full = True
    (run.path / LEDGER).unlink()
    assert await writer.compare() == (f"{LEDGER} removed",)
    full = False
    await writer.append(request(1))
    await writer.compare()
    await writer.close()
    assert len(entries_of(run)) == 3


async def test_a_new_writer_never_appends_behind_a_torn_line(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_run(run, some_events(1))
    with (run.path / LEDGER).open("ab") as file:
        file.write(b'{"by":')
    before = (run.path / LEDGER).read_bytes()
    lock = Lock(run)
    with pytest.raises(LedgerDamagedError, match="torn") as caught:
        LedgerWriter.resume(run, lock, read_ledger(run), key=KEY, clock=SystemClock())
    assert caught.value.hint == f"docket doctor --quarantine-torn-tail {run.path}"
    assert (run.path / LEDGER).read_bytes() == before
    lock.release()
