"""WebSocket frames (RFC 6455 section 5), decoded incrementally and kept as they came.

Owns the framing only, for messages without extensions. Invariant: the ``raw`` bytes of what comes out, put one behind
the other, are the bytes that went in; a message longer than the limit is an error, never a shorter message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from docket.errors import FormatError

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
CONTROL = 8
"""Opcodes from here on are control frames: they may stand between the frames of a message."""
MAX_CONTROL = 125
"""Bytes of a control frame's payload (RFC 6455 section 5.5)."""


class Message(NamedTuple):
    """A whole message, or a control frame: its opcode, its payload without mask, and the frames as they came."""

    opcode: int
    payload: bytes
    raw: bytes


class MessageReader:
    """Feed it bytes of one direction, get messages."""

    def __init__(self, limit: int) -> None:
        """``limit`` is the longest message taken, in bytes."""
        self._limit = limit
        self._buffer = bytearray()
        self._opcode = 0
        self._payload: list[bytes] = []
        self._raw: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that ``data`` completes. Raises FormatError for what is no frame or too long."""
        self._buffer += data
        while (frame := self._frame()) is not None:
            final, opcode, payload, raw = frame
            if opcode >= CONTROL:
                yield Message(opcode, payload, raw)
                continue
            if bool(opcode) == bool(self._opcode):
                raise FormatError("a message starts inside another, or goes on without one")
            self._opcode = self._opcode or opcode
            self._payload.append(payload)
            self._raw.append(raw)
            self._size += len(payload) or len(raw)  # frames without payload come to an end too
            if self._size > self._limit:
                raise FormatError(f"a message is longer than {self._limit} bytes")
            if final:
                yield Message(self._opcode, b"".join(self._payload), b"".join(self._raw))
                self._opcode, self._size = 0, 0
                self._payload.clear()
                self._raw.clear()

    def _frame(self) -> tuple[bool, int, bytes, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        if first & 0x70:
            raise FormatError("a frame uses an extension that was not agreed on")
        length, at = second & 0x7F, 2
        if length > MAX_CONTROL:
            size = 2 if length == 126 else 8
            if len(buffer) < at + size:
                return None
            length = int.from_bytes(buffer[at : at + size], "big")
            at += size
        opcode = first & 0x0F
        if opcode >= CONTROL and (length > MAX_CONTROL or not first & 0x80):
            raise FormatError("a control frame is too long or in parts")
        if length > self._limit:
            raise FormatError(f"a message is longer than {self._limit} bytes")
        mask = b""
        if second & 0x80:
            mask = bytes(buffer[at : at + 4])
            at += 4
        if len(buffer) < at + length:
            return None
        raw = bytes(buffer[: at + length])
        del buffer[: at + length]
        return bool(first & 0x80), opcode, _unmasked(raw[at:], mask), raw


def encode_message(opcode: int, payload: bytes, mask: bytes = b"") -> bytes:
    """One frame that holds a whole message; ``mask`` (4 bytes) is for what a client sends."""
    size = len(payload)
    marked = 0x80 if mask else 0
    if size <= MAX_CONTROL:
        head = bytes((0x80 | opcode, marked | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, marked | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, marked | 127)) + size.to_bytes(8, "big")
    return head + mask + _unmasked(payload, mask)


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    """``payload`` with the mask taken off, or put on: the same thing (RFC 6455 section 5.3)."""
    if not mask or not payload:
        return payload
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
