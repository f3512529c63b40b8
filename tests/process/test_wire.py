"""Messages between docket and its guardian survive any cut, and what cannot be a message is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.process.wire import MAX_FRAME, Frames, frame

FIELDS = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"")), min_size=1, max_size=8)


@given(messages=st.lists(FIELDS, max_size=6), cuts=st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_gives_the_same_messages(messages: list[list[bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(*fields) for fields in messages)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    frames, found = Frames(), []
    for start, end in pairwise(places):
        found += frames.feed(data[start:end])
    assert found == messages


@given(st.text().filter(lambda text: "\0" not in text), st.integers())
def test_text_and_numbers_have_one_spelling(text: str, number: int) -> None:
    try:
        expected = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return
    assert Frames().feed(frame(text, number)) == [[expected, str(number).encode()]]


def test_what_execve_could_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="null byte"):
        frame("spawn", b"a\0b")
    with pytest.raises(ValueError, match="at most"):
        frame(bytes([65]) * (MAX_FRAME + 1))


def test_a_length_no_frame_can_have_is_a_defect_and_not_an_allocation() -> None:
    with pytest.raises(ValueError, match="frame of"):
        Frames().feed(b"\xff\xff\xff\xff")
