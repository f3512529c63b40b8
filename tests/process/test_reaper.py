"""The end of a tree as a state machine: what it names, and what it refuses to grow by."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from docket.host import MACOS
from docket.process import reaper
from docket.process.cgroup import ControlGroup
from docket.process.reaper import KILL_LIMIT_US, Reaper
from docket.process.tree import Process


class Table:
    """A process table that does as told, and what was sent to whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
        self.rows = [Process(pid, 1, "1", True) for pid in pids]
        self.sent: list[tuple[int, int]] = []
        monkeypatch.setattr(reaper, "processes", lambda machine: list(self.rows))
        monkeypatch.setattr(reaper, "send", self._send)
        monkeypatch.setattr(reaper, "command", lambda pid, machine: f"command {pid}")

    def _send(self, row: Process, number: int, machine: object) -> bool:
        self.sent.append((row.pid, number))
        return True


def test_sigterm_first_and_sigkill_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(monkeypatch, 7)
    end = Reaper(1, 5)
    end.begin(0, 1_000_000)
    end.tick(0, childless=False)
    assert table.sent == [(7, signal.SIGTERM), (7, signal.SIGCONT)]
    end.tick(999_999, childless=False)
    assert len(table.sent) == 2
    end.tick(1_000_000, childless=False)
    assert table.sent[2:] == [(7, signal.SIGSTOP), (7, signal.SIGKILL)]


def test_an_earlier_deadline_holds_and_a_later_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(monkeypatch, 7)
    end = Reaper(1, 5)
    end.begin(0, 1_000_000)
    end.begin(0, 9_000_000)
    end.tick(1_000_000, childless=False)
    assert (7, signal.SIGKILL) in table.sent


def test_having_no_child_left_is_the_proof_and_an_empty_walk_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between reading one entry of /proc and the next a process can hide from a walk; not from wait(2)."""
    Table(monkeypatch)
    end = Reaper(1, 5)
    end.begin(0, 0)
    end.tick(0, childless=False)
    assert not end.done
    end.tick(1, childless=True)
    assert end.done


def test_without_a_subreaper_an_empty_walk_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    Table(monkeypatch)
    end = Reaper(1, 5, machine=MACOS)
    end.begin(0, 0)
    end.tick(0, childless=False)
    assert end.done


def test_what_is_left_after_ten_seconds_of_sigkill_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    Table(monkeypatch, 7)
    end = Reaper(1, 5)
    end.begin(0, 0)
    end.tick(0, childless=False)
    end.tick(KILL_LIMIT_US - 1, childless=False)
    assert not end.done
    end.tick(KILL_LIMIT_US + reaper.KILLING_LOOK_US, childless=False)
    assert end.done
    assert [(orphan.pid, orphan.ended) for orphan in end.orphans] == [(7, "survived")]


def test_each_ending_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    Table(monkeypatch, 7, 8, 9, 10)
    end = Reaper(1, 5)
    end.begin(0, 1_000_000)
    end.tick(0, childless=False)
    end.ended(7, 3 << 8)
    end.ended(8, int(signal.SIGTERM))
    end.ended(9, int(signal.SIGKILL))
    end.tick(1, childless=True)
    assert [orphan.ended for orphan in end.orphans] == ["exited", "terminated", "killed", "terminated"]


def test_the_agent_is_no_straggler_unless_it_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    Table(monkeypatch, 5)
    end = Reaper(1, 5)
    end.begin(0, 0)
    end.tick(0, childless=False)
    assert end.orphans == []
    end.tick(KILL_LIMIT_US + 1, childless=False)
    assert [(orphan.pid, orphan.ended) for orphan in end.orphans] == [(5, "survived")]


def test_names_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "MAX_ORPHANS", 3)
    table = Table(monkeypatch, 11, 12, 13, 14, 15)
    end = Reaper(1, 5)
    end.begin(0, 9_000_000)
    end.tick(0, childless=False)
    end.tick(reaper.WAITING_LOOK_US, childless=False)
    assert (len(end.orphans), end.unnamed) == (3, 2)
    assert {pid for pid, number in table.sent if number == signal.SIGTERM} == {11, 12, 13, 14, 15}


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    """A control group as a guardian of this pid would make it."""
    made = ControlGroup.create(os.getpid())
    if made is None:
        pytest.skip("no delegated cgroup2 group is writable here")
    yield made
    made.remove()


def test_a_control_group_ends_all_members_at_once_and_goes_away(group: ControlGroup) -> None:
    member = subprocess.Popen(["sleep", "300"], preexec_fn=group.enter)
    try:
        assert group.kill()
        assert member.wait(20) == -signal.SIGKILL
    finally:
        member.kill()
        member.wait()
    group.remove()
    assert not os.path.exists(group.path)
    assert not group.kill()


def test_the_group_of_a_guardian_that_was_killed_is_removed_by_the_next_run(group: ControlGroup) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = Path(group.path).with_name(f"docket-{dead.pid}")
    left.mkdir()
    group.remove()
    again = ControlGroup.create(os.getpid())
    assert again is not None
    again.remove()
    assert not left.exists()
