"""Checkpoints: C2SP signed notes (tlog-checkpoint) over a size and a Merkle root (evidence format section 3).

A note is exactly six LF-ended lines: origin, size, root in base64, ``lost`` and how many events the run has lost so
far (an extension line), blank, and one Ed25519 signature. Base64 is RFC 4648 section 4 with padding and must re-encode
to itself.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

from docket.errors import FormatError
from docket.primitives.digest import SIZE, sha256
from docket.primitives.signature import SigningKey, verify

LINES = 6
"""Lines of one note."""
MAX_NOTE = 1024
"""Bytes of the longest note of this format, with room: a longer run of bytes is no note."""
_ED25519 = b"\x01"
_SIZE = re.compile(r"[1-9][0-9]{0,15}")
_LOST = re.compile(r"lost (0|[1-9][0-9]{0,15})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A parsed note; ``signed`` says whether it was checked by ``is_signed_by``'s caller, never by parsing."""

    origin: str
    size: int
    root: bytes
    lost: int
    """Events that the run had lost by then: of them nothing but their number is in the ledger, if that."""
    key_id: bytes
    signature: bytes

    def is_signed_by(self, public: bytes) -> bool:
        """Whether the note is signed by the Ed25519 key ``public`` under the name ``origin``."""
        return self.key_id == key_id(self.origin, public) and verify(
            public, _body(self.origin, self.size, self.root, self.lost), self.signature
        )


def origin_of(docket: str) -> str:
    """The origin, which is also the key name, of the run ``docket``."""
    return f"docket/{docket}"


def sign(docket: str, size: int, root: bytes, key: SigningKey, lost: int = 0) -> bytes:
    """Return the note by which ``key`` vouches for the first ``size`` entries of the run ``docket``, with that root.

    ``lost`` is how many events the run has lost so far.
    """
    origin = origin_of(docket)
    body = _body(origin, size, root, lost)
    vouched = base64.b64encode(key_id(origin, key.public) + key.sign(body)).decode()
    return body + f"\n— {origin} {vouched}\n".encode()


def parse(note: bytes) -> Checkpoint:
    """The checkpoint that ``note`` spells. Raises FormatError for any other bytes; checks no signature."""
    try:
        lines = note.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FormatError("note is not UTF-8") from error
    if len(lines) != LINES + 1 or lines[6] or lines[4]:
        raise FormatError("a note has six lines, the fifth of them blank")
    origin, size, root, losses, _, signature, _ = lines
    if not _SIZE.fullmatch(size):
        raise FormatError(f"not a size of a checkpoint: {size!r}")
    lost = _LOST.fullmatch(losses)
    if lost is None:
        raise FormatError(f"not a number of lost events: {losses!r}")
    prefix = f"— {origin} "
    if not signature.startswith(prefix):
        raise FormatError("the signature line does not name the origin")
    vouched = _base64(signature.removeprefix(prefix), 4 + 64)
    return Checkpoint(origin, int(size), _base64(root, SIZE), int(lost[1]), vouched[:4], vouched[4:])


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole notes of ``data`` and the bytes of a torn one at its end."""
    notes = list(_notes(data))
    return notes, data[sum(map(len, notes)) :]


def key_id(name: str, public: bytes) -> bytes:
    """The four bytes by which a signature line names its key."""
    return sha256(name.encode() + b"\n" + _ED25519 + public)[:4]


def _notes(data: bytes) -> Iterator[bytes]:
    start = 0
    while True:
        end = start
        for _ in range(LINES):
            end = data.find(b"\n", end) + 1
            if not end:
                return
        yield data[start:end]
        start = end


def _body(origin: str, size: int, root: bytes, lost: int) -> bytes:
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\nlost {lost}\n".encode()


def _base64(text: str, length: int) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FormatError("not base64") from error
    if len(value) != length or base64.b64encode(value).decode() != text:
        raise FormatError(f"not the base64 of {length} bytes")
    return value
