"""The messages between docket and its guardian: frames of byte fields over one socket pair.

A frame is a 4-byte big-endian length and its fields joined by NUL. No field holds a NUL: every one is a number, a word
or something that execve(2) could be given. Both ends are the same program: a malformed frame is a defect (ValueError).
"""

from __future__ import annotations

MAX_FRAME = 8 * 1024 * 1024
"""Above what execve(2) takes as arguments and environment together (6 MiB at most on Linux)."""

_HEADER = 4


def frame(*fields: bytes | str | int) -> bytes:
    """One message. Text is encoded as the file system encodes it, numbers in decimal."""
    parts = [_bytes(field) for field in fields]
    if any(0 in part for part in parts):
        raise ValueError("embedded null byte")
    body = b"\0".join(parts)
    if len(body) > MAX_FRAME:
        raise ValueError(f"message of {len(body)} bytes: at most {MAX_FRAME} fit")
    return len(body).to_bytes(_HEADER, "big") + body


class Frames:
    """Cuts a byte stream back into messages, whatever the pieces it arrives in."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[list[bytes]]:
        """The whole messages that ``data`` completes, each a list of fields."""
        self._pending += data
        messages = []
        while len(self._pending) >= _HEADER:
            size = int.from_bytes(self._pending[:_HEADER], "big")
            if size > MAX_FRAME:
                raise ValueError(f"frame of {size} bytes")
            if len(self._pending) < _HEADER + size:
                break
            messages.append(bytes(self._pending[_HEADER : _HEADER + size]).split(b"\0"))
            del self._pending[: _HEADER + size]
        return messages


def _bytes(field: bytes | str | int) -> bytes:
    if isinstance(field, bytes):
        return field
    return str(field).encode("utf-8", "surrogateescape")
