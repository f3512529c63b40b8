"""Signed notes (C2SP tlog-checkpoint) as a verifier reads them: six lines, one spelling."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from docket.primitives import signature
from docket.verify.report import Violation

LINES = 6
MAX_NOTE = 1024
"""Bytes at which a line is no line of a note; the longest real one has about 150."""
_SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
_LOST = re.compile(r"lost (0|[1-9][0-9]{0,15})")


@dataclass(frozen=True, slots=True)
class Note:
    """A parsed note; ``text`` is all of it."""

    text: bytes
    origin: str
    size: int
    root: bytes
    lost: int
    key_id: bytes
    signature: bytes

    def signed_by(self, public: bytes) -> bool:
        """Whether the Ed25519 key ``public`` signed this note under the name of its origin."""
        named = hashlib.sha256(self.origin.encode() + b"\n\x01" + public).digest()[:4]
        body = self.text[: self.text.index(b"\n\n") + 1]
        return self.key_id == named and signature.verify(public, body, self.signature)


def parse(text: bytes) -> Note:
    """The note that ``text`` is. Raises Violation for any other bytes."""
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError:
        raise Violation("not UTF-8") from None
    if len(lines) != LINES + 1 or lines[LINES]:
        raise Violation("a note has six lines")
    if len(text) >= MAX_NOTE and any(len(line.encode()) >= MAX_NOTE for line in lines):
        raise Violation(f"a line of {MAX_NOTE} bytes or more")
    origin, size, root, losses, blank, signed, _ = lines
    if blank:
        raise Violation("the fifth line is not blank")
    if not _SIZE.fullmatch(size) or int(size) >= 2**53:
        raise Violation("the size is not a plain number")
    lost = _LOST.fullmatch(losses)
    if lost is None or int(lost[1]) >= 2**53:
        raise Violation("the fourth line does not say how many events are lost")
    name = f"— {origin} "
    if not origin or not signed.startswith(name):
        raise Violation("the signature line does not name the origin")
    blob = _base64(signed[len(name) :], 68)
    return Note(text, origin, int(size), _base64(root, 32), int(lost[1]), blob[:4], blob[4:])


def split(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Whole notes from lines without their LF; fewer than six lines at the end are left out."""
    block: list[bytes] = []
    for line in lines:
        block.append(line)
        if len(block) == LINES:
            yield b"\n".join(block) + b"\n"
            block.clear()


def _base64(text: str, length: int) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Violation("not base64") from None
    if len(value) != length or base64.b64encode(value).decode() != text:
        raise Violation(f"not the base64 of {length} bytes in its one spelling")
    return value
