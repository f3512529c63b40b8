"""Signed notes: written as C2SP defines them, read in one spelling only."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import FormatError
from docket.ledger.checkpoint import parse, sign, split
from docket.primitives.signature import SigningKey, verify
from kit.runs import KEY, NUMBER

ROOT = b"\xab" * 32
NOTE = sign(NUMBER, 7, ROOT, KEY, 3)


def test_note_has_the_lines_that_c2sp_defines() -> None:
    origin, size, root, lost, blank, signature, rest = NOTE.decode().split("\n")
    assert (origin, size, lost, blank, rest) == (f"docket/{NUMBER}", "7", "lost 3", "", "")
    assert base64.b64decode(root) == ROOT
    dash, name, value = signature.split(" ")
    assert (dash, name) == ("—", origin)
    raw = base64.b64decode(value)
    assert raw[:4] == hashlib.sha256(origin.encode() + b"\n\x01" + KEY.public).digest()[:4]
    body = NOTE[: NOTE.index(b"\n\n") + 1]
    assert verify(KEY.public, body, raw[4:])


def test_note_reads_back_and_names_its_signer() -> None:
    note = parse(NOTE)
    assert (note.origin, note.size, note.root, note.lost) == (f"docket/{NUMBER}", 7, ROOT, 3)
    assert note.is_signed_by(KEY.public)
    assert not note.is_signed_by(SigningKey(b"\x02" * 32).public)


@given(st.integers(0, len(NOTE) - 1), st.sampled_from([1, 0x20, 0x80]))
def test_any_changed_byte_is_refused_or_unsigned(place: int, change: int) -> None:
    changed = bytearray(NOTE)
    changed[place] ^= change
    try:
        note = parse(bytes(changed))
    except FormatError:
        return
    assert not note.is_signed_by(KEY.public)


@given(st.integers(0, 3 * len(NOTE)))
def test_any_cut_gives_the_whole_notes_and_the_torn_rest(cut: int) -> None:
    data = (NOTE * 3)[:cut]
    whole, torn = split(data)
    assert whole == [NOTE] * (cut // len(NOTE))
    assert b"".join(whole) + torn == data


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n7\n", b"\n07\n"),
        (b"\n7\n", b"\n0\n"),
        (b"=\n", b"\n"),
        (b"\n\n", b"\nx\n"),
        (b"=\n", b"==\n"),
        (b"lost 3", b"lost 03"),
        (b"lost 3", b"lost -1"),
        (b"lost 3", b"gone 3"),
        (b"lost 3\n", b""),
    ],
)
def test_any_other_spelling_is_refused(old: bytes, new: bytes) -> None:
    assert old in NOTE
    with pytest.raises(FormatError):
        parse(NOTE.replace(old, new, 1))


@pytest.mark.parametrize("note", [b"", NOTE[:-1], NOTE + b"\n", b"\xff" + NOTE, NOTE.replace("—".encode(), b"-")])
def test_anything_that_is_not_one_note_is_refused(note: bytes) -> None:
    with pytest.raises(FormatError):
        parse(note)


def test_base64_slack_bits_are_refused() -> None:
    lines = NOTE.decode().split("\n")
    assert lines[2].endswith("s=")
    lines[2] = lines[2][:-2] + "t="
    with pytest.raises(FormatError, match="base64"):
        parse("\n".join(lines).encode())
