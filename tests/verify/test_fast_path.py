"""The short reading of a line says what the careful one says, whatever stands in the line."""

from __future__ import annotations

import hashlib
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.primitives.canonical import encode
from docket.primitives.sealed import seal
from docket.verify import fast_path
from docket.verify.report import Violation
from docket.verify.walk import GENESIS, Walk
from kit.recordings import Recording

PREV = "a" * 64
OWN = "b" * 64
LOOKALIKES = st.sampled_from(
    [
        f',"hash":"{OWN}","prev":"{PREV}"',
        f'"hash":"{OWN}","prev":"{PREV}"',
        ',"seq":1,"ts":"2026-11-30T12:00:00.000000Z","type":"note"}',
        '"private":{',
        '{"salt":"',
        "\\",
        '"',
        "\u2028é𝄞",
    ]
)
TEXTS = LOOKALIKES | st.text(max_size=20)
NAMES = st.sampled_from(["hash", "prev", "seq", "ts", "type", "private", "by", "data", "x", "~", "a-b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS | st.just(OWN) | st.just(PREV),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
PRIVATE = st.dictionaries(
    st.sampled_from(["text", "hash", "prev", "path", 'note "x"']),
    st.fixed_dictionaries({"salt": st.just("c" * 32), "value": TEXTS})
    | st.fixed_dictionaries({"commitment": st.just("d" * 64)}),
    max_size=3,
)


FIRST = encode(Recording().start().document)


def walked() -> Walk:
    walk = Walk()
    walk.take(FIRST)
    return walk


def verdict(line: bytes, *, short: bool) -> tuple[str, str]:
    """What a walk says of ``line`` as event 1: its head afterwards, or the failing check."""
    walk = walked()
    try:
        if short:
            walk.take(line)
        else:
            with patch("docket.verify.fast_path.read", return_value=None):
                walk.take(line)
    except Violation as violation:
        return "", violation.check
    return walk.head, ""


def right(event: dict[str, Any]) -> bytes:
    """``event`` with the hash that it must have."""
    sealed = seal(dict(event))
    return encode(event | {"hash": hashlib.sha256(b"\0" + encode(sealed)).hexdigest()})


def note(data: Any, private: Any = None) -> dict[str, Any]:
    head = walked().head
    event = {
        "by": "agent", "data": data, "elapsed_us": 10**9, "prev": head, "seq": 1,
        "ts": "2026-11-30T12:00:00.000000Z", "type": "note",
    }  # fmt: skip
    return event | ({"private": private} if private else {})


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4), PRIVATE)
def test_a_right_line_is_right_and_any_line_is_judged_alike(data: Any, private: Any) -> None:
    try:
        line = right(note(data, private))
    except Exception:  # noqa: BLE001 - what has no canonical form cannot be a right line
        return
    assert verdict(line, short=True) == verdict(line, short=False)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4), PRIVATE, st.data())
def test_a_line_whose_hash_covers_only_its_beginning_is_never_taken(
    data: Any, private: Any, draw: st.DataObject
) -> None:
    """The members stand inside ``data`` too, and the hash is made of what stands before them and of the end."""
    event = note({**data, "a": 1, "hash": OWN, "prev": PREV, "z": draw.draw(TEXTS)}, private) | {"hash": OWN}
    head = event["prev"]
    try:
        line = encode(event).replace(
            f'"hash":"{OWN}","prev":"{PREV}"'.encode(), f'"hash":"{OWN}","prev":"{head}"'.encode()
        )
    except Exception:  # noqa: BLE001 - no canonical form
        return
    for place in range(line.count(b',"hash":"')):
        at = [index for index in range(len(line)) if line.startswith(b',"hash":"', index)][place]
        end = line[line.rindex(b',"seq":1') :]
        own = hashlib.sha256(b"\0" + line[:at] + f',"prev":"{head}"'.encode() + end).hexdigest()
        forged = line.replace(OWN.encode(), own.encode())
        assert verdict(forged, short=True) == verdict(forged, short=False)


def test_the_members_of_an_event_inside_its_data_do_not_stand_for_them() -> None:
    """Two lines of one hash: what stands behind the inner members would be free."""
    head = walked().head
    verdicts = set()
    for free in ("one", "another"):
        inner = {"a": 1, "hash": OWN, "prev": head, "z": free}
        line = encode(note(inner) | {"hash": OWN})
        at, end = line.index(b',"hash":"'), line[line.rindex(b',"seq":1') :]
        own = hashlib.sha256(b"\0" + line[:at] + f',"prev":"{head}"'.encode() + end).hexdigest()
        verdicts.add(verdict(line.replace(OWN.encode(), own.encode()), short=True))
    assert verdicts == {("", "ledger.hash")}


def test_the_usual_lines_of_a_run_are_read_the_short_way() -> None:
    run = Recording()
    run.start()
    run.call()
    run.end()
    head, short = GENESIS, 0
    for line in run.lines:
        known = fast_path.read(encode(line.document), line.seq, head, {})
        short += known is not None
        head = str(line.document["hash"])
    assert short >= 2, "the short way is taken, so the tests above try it"


@pytest.mark.parametrize("member", ["hash", "prev"])
def test_a_hash_that_is_not_hex_is_left_to_the_careful_reading(member: str) -> None:
    event = note({}) | {"hash": OWN}
    event[member] = "é" * 64
    assert fast_path.read(encode(event), 1, event["prev"], {}) is None
