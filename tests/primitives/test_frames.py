"""WebSocket frames against another implementation, however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import FormatError
from docket.primitives.frames import BINARY, CLOSE, PING, TEXT, Message, MessageReader, encode_message

MASKS = st.one_of(st.just(b""), st.binary(min_size=4, max_size=4))
SIZES = st.sampled_from([0, 1, 125, 126, 127, 65535, 65536, 70000])


@given(st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), SIZES, MASKS), max_size=4), st.data())
def test_messages_come_out_as_they_went_in_however_they_are_cut(
    sent: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    messages = [(opcode, bytes(i % 251 for i in range(size)), mask) for opcode, size, mask in sent]
    raw = b"".join(encode_message(opcode, payload, mask) for opcode, payload, mask in messages)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=6)))
    reader = MessageReader(1 << 20)
    seen: list[Message] = []
    for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        seen += reader.feed(raw[a:b])
    assert [(m.opcode, m.payload) for m in seen] == [(opcode, payload) for opcode, payload, _ in messages]
    assert b"".join(m.raw for m in seen) == raw


def test_a_control_frame_may_stand_inside_a_message() -> None:
    first = b"\x01\x03Hel"
    last = b"\x80\x02lo"
    ping = encode_message(PING, b"?")
    seen = list(MessageReader(100).feed(first + ping + last))
    assert [(m.opcode, m.payload) for m in seen] == [(PING, b"?"), (TEXT, b"Hello")]
    assert seen[1].raw == first + last


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\xc1\x00", id="extension bit"),
        pytest.param(b"\x80\x01x", id="goes on without a start"),
        pytest.param(b"\x01\x01x\x01\x01y", id="starts inside another"),
        pytest.param(b"\x09\x00", id="control frame in parts"),
        pytest.param(b"\x88\x7e\x00\x7e", id="control frame too long"),
        pytest.param(b"\x81\x7f" + (200).to_bytes(8, "big"), id="longer than the limit"),
        pytest.param(b"\x01\x64" + bytes(100) + b"\x80\x01x", id="longer in parts"),
        pytest.param(b"\x01\x00" + b"\x00\x00" * 100, id="parts without end"),
    ],
)
def test_what_is_no_frame_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError):
        list(MessageReader(100).feed(raw))


def test_a_close_frame_is_a_message_of_its_own() -> None:
    (message,) = MessageReader(100).feed(encode_message(CLOSE, b"\x03\xe8bye", b"abcd"))
    assert (message.opcode, message.payload) == (CLOSE, b"\x03\xe8bye")
