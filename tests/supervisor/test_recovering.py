"""Cut, crashed and continued runs: diagnosed by the table, repaired only where nothing is lost by it."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from docket.clock import SystemClock
from docket.errors import DocketError, LedgerDamagedError, LedgerError, UsageError
from docket.ledger.checkpoint import split
from docket.ledger.recovery import decide
from docket.policy.model import Caps, Policy
from docket.primitives.money import Usd
from docket.primitives.signature import SigningKey
from docket.sim.disk import Crash, FaultyDisk, Operation
from docket.storage.documents import documents_at
from docket.storage.durable import SystemDisk
from docket.storage.paths import CHECKPOINTS, LEDGER, RECEIPT, RunDirectory
from docket.storage.reader import read_ledger
from docket.supervisor.dead_run import close, quarantine_torn_tail
from docket.supervisor.doctor import diagnose
from docket.supervisor.resumption import take_up
from docket.verify.report import Report
from docket.verify.verifier import verify
from kit.runs import NUMBER, continue_run, new_run, write_unsealed

OPERATOR = SigningKey(b"\x0a" * 32)


def checked(path: Path) -> Report:
    return verify(documents_at(path))


class Cuts:
    """A run whose supervisor died, and copies of it cut anywhere."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.ledger = (root / ".docket/runs" / NUMBER / LEDGER).read_bytes()
        self.notes = (root / ".docket/runs" / NUMBER / CHECKPOINTS).read_bytes()
        self.lines = self.ledger.splitlines(keepends=True)
        self.whole_notes = split(self.notes)[0]
        self.sizes = [int(note.split(b"\n")[1]) for note in self.whole_notes]
        self._made = 0

    def cut(self, ledger: int, notes: int) -> Path:
        """A run directory with so many bytes of each file."""
        self._made += 1
        path = self._root / f"cut-{self._made}" / ".docket" / "runs" / NUMBER
        path.mkdir(parents=True, mode=0o700)
        for name, data in ((LEDGER, self.ledger[:ledger]), (CHECKPOINTS, self.notes[:notes])):
            (path / name).write_bytes(data)
            (path / name).chmod(0o600)
        return path

    def drop(self, path: Path) -> None:
        shutil.rmtree(path.parents[2])

    def whole_lines(self, ledger: int) -> tuple[int, int]:
        """How many whole lines stand before a byte of the ledger, and where they end."""
        count = self.ledger[:ledger].count(b"\n")
        return count, sum(map(len, self.lines[:count]))

    def tail(self, data: bytes, lines: int) -> range:
        """Every length of ``data`` that cuts into its last lines, and its whole length."""
        return range(len(data) - sum(map(len, data.splitlines(keepends=True)[-lines:])), len(data) + 1)

    def covered_by(self, notes: int) -> int:
        """Size of the last whole note among so many bytes."""
        ends = [sum(map(len, self.whole_notes[: number + 1])) for number in range(len(self.sizes))]
        return max((size for end, size in zip(ends, self.sizes, strict=True) if end <= notes), default=0)

    def notes_upto(self, size: int) -> int:
        """Bytes of the notes that cover at most ``size`` events."""
        return sum(len(note) for note, covered in zip(self.whole_notes, self.sizes, strict=True) if covered <= size)


@pytest.fixture
def made(tmp_path: Path) -> Cuts:
    asyncio.run(write_unsealed(new_run(tmp_path, number=NUMBER), 4))
    return Cuts(tmp_path)


def classified(path: Path) -> tuple[str, int]:
    run = RunDirectory.open(path)
    scan = read_ledger(run).scan
    run.close()
    return decide(scan).state, scan.offset


def check_class(made: Cuts, ledger: int, notes: int) -> None:
    """One cut of both files: the class and the offset that the table gives."""
    path = made.cut(ledger, notes)
    count, offset = made.whole_lines(ledger)
    covered = made.covered_by(notes)
    expected = "rolled-back" if covered > count else "intact" if offset == ledger else "torn"
    assert classified(path) == (expected, offset), (ledger, notes)
    made.drop(path)


async def check_recovery(made: Cuts, ledger: int, notes: int) -> None:
    """One cut that a crash can leave: quarantine, resume and verify pass, and no byte is lost."""
    path = made.cut(ledger, notes)
    place = (ledger, notes)
    _, offset = made.whole_lines(ledger)
    run = RunDirectory.open(path)
    moved = quarantine_torn_tail(run, SystemClock())
    run.close()
    if ledger > offset:
        assert moved is not None
        assert (path / moved.sidecar).read_bytes() == made.ledger[offset:ledger], place
    assert (path / LEDGER).read_bytes().startswith(made.ledger[:offset]), place
    assert checked(path).verdict.value == "unfinished", place
    receipt = await continue_run(path)
    report = checked(path)
    assert report.verdict.value in ("verified", "incomplete"), (place, report.reason)
    assert receipt["session"]["sessions"] == 2, place  # type: ignore[index,call-overload]
    made.drop(path)


def contents(path: Path) -> dict[str, bytes]:
    """Every file of a run but its lock."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "lock"}


async def refuses(path: Path) -> None:
    """Nothing may be done with the run at ``path``, and nothing is changed."""
    before = contents(path)
    run = RunDirectory.open(path)
    with pytest.raises(LedgerDamagedError):
        quarantine_torn_tail(run, SystemClock())
    with pytest.raises(LedgerDamagedError):
        close(run, SystemClock())
    run.close()
    with pytest.raises(LedgerDamagedError):
        await continue_run(path)
    assert contents(path) == before


async def test_cutting_at_a_sample_of_bytes_gives_the_right_class_and_recovers(made: Cuts) -> None:
    rng = random.Random(20261130)
    ledgers = [*rng.sample(made.tail(made.ledger, 3), 20), len(made.ledger)]
    for ledger in ledgers:
        notes = made.notes_upto(made.whole_lines(ledger)[0])
        check_class(made, ledger, notes)
        check_class(made, ledger, len(made.notes))
        check_class(made, ledger, rng.choice(made.tail(made.notes, 8)))
        await check_recovery(made, ledger, notes)
    for notes in rng.sample(made.tail(made.notes, 5), 5):
        await check_recovery(made, len(made.ledger), notes)


@pytest.mark.long
async def test_cutting_at_every_byte_gives_the_right_class_and_recovers(made: Cuts) -> None:
    """One writer syncs a file before it writes to the other: a crash tears the ledger behind whole notes, or a note
    behind a whole ledger. Both are cut at every byte; pairs that no crash leaves are sampled.
    """
    for ledger in made.tail(made.ledger, 3):
        allowed = made.notes_upto(made.whole_lines(ledger)[0])
        check_class(made, ledger, len(made.notes))
        for notes in {allowed, *(n for n in made.tail(made.notes, 15) if n <= allowed and not (n + ledger) % 29)}:
            check_class(made, ledger, notes)
        await check_recovery(made, ledger, allowed)
    for notes in made.tail(made.notes, 15):
        check_class(made, len(made.ledger), notes)
        await check_recovery(made, len(made.ledger), notes)


async def test_with_a_later_checkpoint_a_cut_ledger_is_rolled_back_and_everything_refuses(made: Cuts) -> None:
    last = made.sizes[-1]
    end = sum(map(len, made.lines[:last]))
    for ledger in (end - 1, end - len(made.lines[last - 1]), end - len(made.lines[last - 1]) - 7):
        path = made.cut(ledger, len(made.notes))
        diagnosis = diagnose(path)
        assert diagnosis.state == "rolled back"
        assert diagnosis.facts["missing"] == [made.whole_lines(ledger)[0], last - 1]
        await refuses(path)


@pytest.mark.parametrize(
    ("damage", "state"),
    [
        (lambda lines: [*lines[:3], lines[3].replace(b"gpt-test", b"gpt-tesu"), *lines[4:]], "damaged"),
        (lambda lines: [*lines[:3], *lines[4:]], "damaged"),
        (lambda lines: [*lines, lines[-1]], "two writers"),
        (lambda lines: [*lines, b"no entry at all\n"], "damaged"),
    ],
    ids=["edited", "dropped", "doubled", "garbled"],
)
async def test_damage_is_named_and_never_repaired(made: Cuts, damage: object, state: str) -> None:
    path = made.cut(0, made.notes_upto(1))
    (path / LEDGER).write_bytes(b"".join(damage(made.lines)))  # type: ignore[operator]
    diagnosis = diagnose(path)
    assert (diagnosis.state, diagnosis.command) == (state, None)
    await refuses(path)


async def test_closing_ends_open_calls_as_lost_and_is_verified_as_recovered(made: Cuts) -> None:
    path = made.cut(len(made.ledger), len(made.notes))
    assert diagnose(path).state == "no receipt"
    run = RunDirectory.open(path)
    closed = close(run, SystemClock())
    assert (closed.lost_calls, closed.events) == (1, len(made.lines) + 1)
    report = checked(path)
    assert (report.verdict.value, report.vouchers) == ("recovered", [])
    assert diagnose(path).state == "complete"
    with pytest.raises(LedgerError, match="has a receipt"):
        close(run, SystemClock())
    run.close()


async def test_a_closed_run_can_be_continued_and_its_receipt_is_kept(made: Cuts) -> None:
    path = made.cut(len(made.ledger), len(made.notes))
    run = RunDirectory.open(path)
    close(run, SystemClock())
    run.close()
    recovered = (path / RECEIPT).read_bytes()
    receipt = await continue_run(path)
    assert (path / "receipt-0.json").read_bytes() == recovered
    assert receipt["totals"]["calls"] == 5  # type: ignore[index,call-overload]
    assert checked(path).verdict.value == "incomplete"


async def test_sessions_are_linked_by_one_operator_key_and_by_no_other(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_unsealed(run, 2, operator=OPERATOR)
    with pytest.raises(UsageError, match="endorsed"):
        await continue_run(run.path)
    with pytest.raises(UsageError, match="endorsed"):
        await continue_run(run.path, operator=SigningKey(b"\x0b" * 32))
    await continue_run(run.path, operator=OPERATOR)
    report = checked(run.path)
    assert [voucher.role for voucher in report.vouchers] == ["run", "operator"]
    assert not any("not linked" in remark for remark in report.remarks)


async def test_a_sealed_run_is_continued_as_often_as_one_likes(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_unsealed(run, 1)
    for session in range(1, 4):
        receipt = await continue_run(run.path, calls=2)
        assert receipt["totals"]["calls"] == 1 + 2 * session  # type: ignore[index,call-overload]
    report = checked(run.path)
    assert report.verdict.value == "incomplete"  # session 0 died
    assert any("not linked" in remark for remark in report.remarks)
    assert sorted(path.name for path in run.path.glob("receipt*")) == [
        "receipt-1.json",
        "receipt-2.json",
        RECEIPT,
    ]


@pytest.mark.parametrize(
    ("caps", "spent"),
    [
        (Caps(max_model_calls=2), "max_model_calls is spent: 2 of 2"),
        (Caps(max_usd=Usd.parse("0.001")), "max_usd is spent"),
        (Caps(max_tokens=107), "max_tokens is spent: 107 of 107"),
    ],
)
async def test_a_restart_cannot_reset_a_budget(tmp_path: Path, caps: Caps, spent: str) -> None:
    run = new_run(tmp_path)
    await write_unsealed(run, 2)
    with pytest.raises(UsageError, match=spent):
        take_up(run.path, Policy(caps=caps), None, SystemClock())


async def test_a_run_that_does_not_verify_is_not_continued(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    await write_unsealed(run, 1)
    await continue_run(run.path)
    receipt = (run.path / RECEIPT).read_bytes()
    (run.path / RECEIPT).write_bytes(receipt.replace(b'"completed"', b'"failed"', 1))
    assert diagnose(run.path).state == "sealed but changed"
    with pytest.raises(DocketError, match="does not verify"):
        await continue_run(run.path)


async def test_a_machine_that_restarted_with_other_clocks_goes_on_from_the_last_event(tmp_path: Path) -> None:
    class Restarted(SystemClock):
        def monotonic_us(self) -> int:
            return super().monotonic_us() % 1_000_000  # counts from its start, and that was a moment ago

        def unix_us(self) -> int:
            return super().unix_us() - 40 * 86_400_000_000

    run = new_run(tmp_path)
    await write_unsealed(run, 2)
    before = read_ledger(run).scan.chain.elapsed_us
    receipt = await continue_run(run.path, clock=Restarted())
    assert checked(run.path).verdict.value == "incomplete"
    elapsed = receipt["session"]["elapsed_us"]  # type: ignore[index,call-overload]
    assert before <= elapsed < before + 3_000_000  # type: ignore[operator]


@pytest.mark.parametrize("sealed", [False, True], ids=["died", "sealed"])
async def test_a_crash_at_any_call_of_taking_a_run_up_leaves_what_can_be_taken_up_or_closed(
    tmp_path: Path, sealed: bool
) -> None:
    run = new_run(tmp_path, number=NUMBER)
    await write_unsealed(run, 2)
    if sealed:
        await continue_run(run.path)
    else:
        with (run.path / LEDGER).open("ab") as file:
            file.write(b"\0torn")
    number, crashed = 0, True
    while crashed:
        copy = tmp_path / f"{number}" / ".docket" / "runs" / NUMBER
        shutil.copytree(run.path, copy)

        def plan(operation: Operation, at: int = number) -> Crash | None:
            return Crash() if operation.number == at else None

        disk = FaultyDisk(SystemDisk(), plan)
        try:
            taken = take_up(copy, Policy(), None, SystemClock(), disk)
            taken.lock.release()
            taken.run.close()
        except DocketError:
            pass
        crashed = disk.crashed
        again = tmp_path / f"{number}-closed" / ".docket" / "runs" / NUMBER
        shutil.copytree(copy, again)
        if not (again / RECEIPT).exists():
            closing = RunDirectory.open(again)
            close(closing, SystemClock())
            closing.close()
        assert checked(again).verdict.value == ("incomplete" if sealed else "recovered"), number
        await continue_run(copy)
        assert checked(copy).verdict.value == "incomplete", number
        number += 1
    assert number >= 3
