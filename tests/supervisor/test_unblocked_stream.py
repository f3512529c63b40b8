"""What docket says to people waits for no reader, and is whole and in order for one that reads."""

from __future__ import annotations

import io
import os
import pty
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from docket.supervisor import unblocked_stream
from docket.supervisor.unblocked_stream import MAX_WAITING, UnblockedStream, unblocked


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def fill(descriptor: int) -> int:
    """Fill a pipe or terminal, as its other writer may; its flags are as before afterwards. How much went in."""
    os.set_blocking(descriptor, False)
    count = 0
    try:
        while True:
            count += os.write(descriptor, b"x")
    except BlockingIOError:
        return count
    finally:
        os.set_blocking(descriptor, True)


def read(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(descriptor, count - len(data))
    return data


@pytest.mark.parametrize("anew", [True, False])
def test_a_full_pipe_delays_nothing_and_loses_nothing(anew: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not anew:  # a pipe that belongs to somebody else
        monkeypatch.setattr(unblocked_stream, "_opened_anew", lambda _descriptor: None)
    with pipe() as (reading, writing):
        filled = fill(writing)
        stream = UnblockedStream(writing)
        said = "".join(f"line {number}\n" for number in range(2000))
        for line in said.splitlines(keepends=True):
            stream.write(line)
        assert os.get_blocking(writing)  # the agent's flags
        assert read(reading, filled) == b"x" * filled
        stream.flush()
        assert read(reading, len(said)) == said.encode()
        stream.close()


def test_a_full_terminal_delays_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    master, slave = pty.openpty()
    try:
        fill(slave)
        stream = UnblockedStream(slave)
        stream.write("nobody sees this\n")
        assert os.get_blocking(slave)
    finally:
        os.close(master)
        os.close(slave)


def test_what_nobody_reads_is_kept_up_to_a_limit_and_dropped_at_the_end() -> None:
    with pipe() as (reading, writing):
        filled = fill(writing)
        stream = UnblockedStream(writing)
        for _ in range(3):
            stream.write("y" * (MAX_WAITING // 2))
        stream.close()  # gives a reader one moment
        read(reading, filled)
        os.set_blocking(reading, False)
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)


def test_one_text_longer_than_the_limit_is_not_dropped_where_nothing_waits() -> None:
    """The receipt itself goes there where no disk takes it."""
    with tempfile.TemporaryFile() as file:
        stream = UnblockedStream(file.fileno())
        stream.write("z" * (4 * MAX_WAITING))
        stream.close()
        assert os.fstat(file.fileno()).st_size == 4 * MAX_WAITING


def test_a_reader_that_left_is_an_error_and_no_signal() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = UnblockedStream(writing)
    with pytest.raises(BrokenPipeError):
        stream.write("to nobody\n")
    stream.close()
    os.close(writing)


def test_a_stream_without_a_descriptor_is_used_as_it_is() -> None:
    text = io.StringIO()
    assert unblocked(text) is text
