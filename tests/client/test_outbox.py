"""The outbox: every item once and in order, whatever the boundary answers and whenever the process dies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.client.outbox import MAX_ITEMS, Item, Later, Outbox, OutboxError, Refusal


class Boundary:
    """Answers as told and remembers what it recorded, by key: a lost answer (``late``) records all the same."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.recorded: dict[str, bytes] = {}

    def __call__(self, item: Item) -> Refusal | Later | None:
        answer = self.answers.pop(0) if self.answers else "recorded"
        if answer == "away":
            return Later()
        if answer == "refused":
            return Refusal(item, 400, "no")
        self.recorded.setdefault(item.key, item.body)
        return Later(0) if answer == "late" else None


def at_once(_: threading.Event, __: float) -> None:
    """A wait that is over."""


@given(st.lists(st.sampled_from(["recorded", "away", "late", "refused"]), max_size=30), st.integers(1, 12))
def test_every_item_arrives_once_and_in_order_or_is_said_to_be_refused(answers: list[str], count: int):
    boundary, refused = Boundary(answers), list[Refusal]()
    outbox = Outbox(boundary, on_refused=refused.append, wait=at_once)
    said = [b"%d" % number for number in range(count)]
    for body in said:
        outbox.put(body)
    assert outbox.close(10) == 0
    arrived = list(boundary.recorded.values())
    turned = [refusal.item.body for refusal in refused]
    assert arrived == sorted(arrived, key=int)
    assert sorted(set(arrived) | set(turned), key=int) == said
    assert len(arrived) == len(set(arrived))


class Away(Boundary):
    """Not there; says when it was asked first."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked = threading.Event()

    def __call__(self, item: Item) -> Later:
        self.asked.set()
        return Later(0)


def test_what_a_dead_process_left_is_delivered_by_the_next_in_order_and_under_its_keys(tmp_path: Path):
    path = tmp_path / "outbox"
    first = Outbox(Away(), path=path, run="DKT-1")
    for number in range(3):
        first.put(b"%d" % number)
    assert first.close(0.01) == 3
    path.write_bytes(path.read_bytes() + b'{"key": "torn')
    boundary = Boundary([])
    second = Outbox(boundary, path=path, run="DKT-1")
    second.put(b"3")
    assert second.close(10) == 0
    assert list(boundary.recorded.values()) == [b"0", b"1", b"2", b"3"]
    assert not path.exists()


def test_an_item_that_was_answered_is_not_sent_by_the_next_process(tmp_path: Path):
    path, delivered = tmp_path / "outbox", threading.Event()
    away = Away()

    def one_then_none(item: Item) -> Refusal | Later | None:
        if item.body == b"0":
            delivered.set()
            return None
        return away(item)

    first = Outbox(one_then_none, path=path)
    first.put(b"0")
    first.put(b"1")
    assert away.asked.wait(10)
    assert first.close(0.01) == 1
    boundary = Boundary([])
    assert Outbox(boundary, path=path).close(10) == 0
    assert list(boundary.recorded.values()) == [b"1"]


def test_what_belongs_to_another_run_is_not_put_on_this_ones_record(tmp_path: Path):
    path = tmp_path / "outbox"
    first = Outbox(Away(), path=path, run="DKT-1")
    first.put(b"0")
    first.close(0.01)
    with pytest.raises(OutboxError, match="1 events of the run DKT-1"):
        Outbox(Boundary([]), path=path, run="DKT-2")
    boundary = Boundary([])
    assert Outbox(boundary, path=path, run="DKT-1").close(10) == 0
    assert len(boundary.recorded) == 1


def test_two_processes_do_not_share_a_file(tmp_path: Path):
    first = Outbox(Boundary([]), path=tmp_path / "outbox")
    with pytest.raises(OutboxError, match="used by another process"):
        Outbox(Boundary([]), path=tmp_path / "outbox")
    first.close(1)


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path):
    (tmp_path / "else").write_text("kept")
    (tmp_path / "outbox").symlink_to(tmp_path / "else")
    with pytest.raises(OSError, match="symbolic links"):
        Outbox(Boundary([]), path=tmp_path / "outbox")
    assert (tmp_path / "else").read_text() == "kept"


def test_a_full_outbox_says_so_and_keeps_what_it_has():
    outbox = Outbox(Away())
    for _ in range(MAX_ITEMS):
        outbox.put(b"{}")
    with pytest.raises(OutboxError, match="wait already"):
        outbox.put(b"{}")
    assert outbox.close(0.01) == MAX_ITEMS
    with pytest.raises(OutboxError, match="closed"):
        outbox.put(b"{}")


def test_the_wait_grows_to_its_bound_and_the_boundarys_word_goes_first():
    waits, asked = list[float](), list[Callable[[], Later]]([Later] * 12 + [lambda: Later(3.0)])

    def send(_: Item) -> Later | None:
        return asked.pop(0)() if asked else None

    outbox = Outbox(send, wait=lambda _, seconds: waits.append(seconds))
    outbox.put(b"{}")
    assert outbox.close(10) == 0
    assert waits == [*sorted(waits[:-1]), 3.0]
    assert (waits[0], max(waits)) == (0.2, 30.0)
