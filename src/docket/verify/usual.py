"""The usual line of a ledger, read in few steps: as docket writes it, next in its chain, and right.

Invariant: never says more than the careful reading in ``walk`` would; whatever it does not recognise is left to that.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from docket.verify.events import ENVELOPE
from docket.verify.form import HEX32, HEX64, MAX_DEPTH, MAX_NAMES, Object, check_name, known_names
from docket.verify.lines import MAX_LINE
from docket.verify.report import Violation
from docket.verify.shapes import TIMESTAMP

LONGEST = MAX_LINE * 2 // 3
"""A line up to here stays under the limit however its private members stand: each grows by less than half."""
_WITH_PRIVATE = ENVELOPE | {"private"}
_SUPERVISOR = frozenset({"supervisor", "doctor"})
_BOUNDARY = frozenset({"boundary"})
_ASSERTERS = {
    "model.request": _BOUNDARY,
    "model.response": _BOUNDARY,
    "model.error": _BOUNDARY,
    "model.denied": _BOUNDARY,
    "note": frozenset({"agent", "supervisor", "boundary", "doctor"}),
    "tool.call": frozenset({"agent"}),
    "tool.result": frozenset({"agent"}),
    "fs.change": _SUPERVISOR,
    "x-docket.forwarded": _BOUNDARY,
}
"""Types that may come in great numbers, by whom."""
_PRIVATE = b'"private":'
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
"""Strict integers: orjson refuses |n| > 2^53-1, so that no walk has to look at them."""


def read(line: bytes, seq: int, prev: str, withheld: dict[str, int]) -> tuple[Object, bytes] | None:
    """The event ``seq`` after ``prev`` and its 32-byte hash; None where the line is not a usual one.

    The members of ``data`` are not checked, and ``private`` stays as it is.
    """
    if len(line) > LONGEST:
        return None
    try:
        event: Any = orjson.loads(line)
        if type(event) is not dict or not _is_envelope(event, seq, prev):
            return None
        private = event.get("private")
        if line.count(_PRIVATE) != (private is not None) or not _is_plain(event["data"], 2):
            return None
        sealed = b"" if private is None else _seal(private, withheld)
        if sealed is None or orjson.dumps(event, option=_OPTIONS) != line:
            return None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, Violation):
        return None
    own, kind = event["hash"], event["type"]
    at = line.find(b'"hash":"%b","prev":"%b"' % (own.encode(), prev.encode()))
    leaf = hashlib.sha256(
        b'\x00%b"prev":"%b"%b,"seq":%d,"ts":"%b","type":"%b"}'
        % (line[:at], prev.encode(), sealed, seq, event["ts"].encode(), kind.encode())
    ).digest()
    return (event, leaf) if at > 0 and leaf.hex() == own else None


def _is_envelope(event: Object, seq: int, prev: str) -> bool:
    names = event.keys()
    if names != ENVELOPE and names != _WITH_PRIVATE:
        return False
    kind, ts, elapsed = event["type"], event["ts"], event["elapsed_us"]
    return (
        type(kind) is str
        and type(event["seq"]) is int
        and event["seq"] == seq
        and event["prev"] == prev
        and type(event["hash"]) is str
        and type(event["by"]) is str
        and event["by"] in _ASSERTERS.get(kind, ())
        and type(event["data"]) is dict
        and type(elapsed) is int
        and elapsed >= 0
        and type(ts) is str
        and TIMESTAMP.fullmatch(ts) is not None
    )


def _is_plain(value: Object, depth: int) -> bool:
    """Whether ``value``, at level ``depth``, breaks no rule of the canonical form but those that bytes show."""
    if depth > MAX_DEPTH:
        return False
    if not value.keys() <= known_names:
        for name in value:
            check_name(name)
    for member in value.values():
        kind = type(member)
        if kind is str or kind is int:
            continue
        if kind is dict:
            if not _is_plain(member, depth + 1):
                return False
        elif kind is list:
            if not _is_plain_list(member, depth + 1):
                return False
        elif kind is float:
            return False
    return True


def _is_plain_list(value: list[Any], depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    for member in value:
        kind = type(member)
        if kind is dict:
            if not _is_plain(member, depth + 1):
                return False
        elif kind is list:
            if not _is_plain_list(member, depth + 1):
                return False
        elif kind is float:
            return False
    return True


def _seal(private: Any, withheld: dict[str, int]) -> bytes | None:
    """The sealed spelling of a ``private`` member that holds strings, disclosed or withheld; None for any other."""
    if type(private) is not dict or not private:
        return None
    if not private.keys() <= known_names:
        for name in private:
            check_name(name)
    sealed, closed = [], []
    for name, member in private.items():
        if type(member) is not dict or name == "private":
            return None
        spelled = name.encode()
        if not name.isidentifier():
            spelled = orjson.dumps(name)[1:-1]
        if len(member) == 2:
            salt, value = member.get("salt"), member.get("value")
            if type(salt) is not str or type(value) is not str or not HEX32.fullmatch(salt):
                return None
            opened = b'\x02["%b","%b",%b]' % (spelled, salt.encode(), orjson.dumps(value))
            sealed.append(b'"%b":"%b"' % (spelled, hashlib.sha256(opened).hexdigest().encode()))
            continue
        commitment = member.get("commitment")
        if len(member) != 1 or type(commitment) is not str or not HEX64.fullmatch(commitment):
            return None
        sealed.append(b'"%b":"%b"' % (spelled, commitment.encode()))
        closed.append(name)
    for name in closed:
        if name in withheld or len(withheld) < MAX_NAMES:
            withheld[name] = withheld.get(name, 0) + 1
    return b',"private":{%b}' % b",".join(sealed)
