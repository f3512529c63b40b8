"""The usual line of a ledger, read in few steps: as docket writes it, next in its chain, and right.

Invariant: never says more than the careful reading in ``walk`` would; whatever it does not recognise is left to that.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from docket.verify.canonical import HEX32, HEX64, MAX_DEPTH, MAX_NAMES, Object, check_name, known_names
from docket.verify.events import ENVELOPE
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
_spelled: dict[str, str] = {}
"""By the name of a private member, its JSON spelling; bounded by MAX_NAMES."""
_PRIVATE = b'"private":'
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
"""Strict integers: orjson refuses |n| > 2^53-1, so that no walk has to look at them."""


def read(line: bytes, seq: int, prev: str, withheld: dict[str, int]) -> tuple[Object, bytes] | None:
    """The event ``seq`` after ``prev`` and its 32-byte hash; None where the line is not a usual one.

    The members of ``data`` are not checked, and ``private`` stays as it is.
    """
    if len(line) > LONGEST:
        return None
    closed: list[str] = []
    try:
        event: Any = orjson.loads(line)
        if type(event) is not dict:
            return None
        names = event.keys()
        if names == _WITH_PRIVATE:
            sealed = _seal(event["private"], closed)
            nested = line.count(_PRIVATE) - 1
        elif names == ENVELOPE:
            sealed, nested = "", line.count(_PRIVATE)
        else:
            return None
        if nested or sealed is None or not _is_plain(event["data"], 2) or orjson.dumps(event, option=_OPTIONS) != line:
            return None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, Violation, TypeError, AttributeError):
        return None
    kind, ts, elapsed, own = event["type"], event["ts"], event["elapsed_us"], event["hash"]
    if not (
        type(kind) is str
        and type(event["by"]) is str
        and event["by"] in _ASSERTERS.get(kind, ())
        and type(event["seq"]) is int
        and event["seq"] == seq
        and event["prev"] == prev
        and type(elapsed) is int
        and elapsed >= 0
        and type(ts) is str
        and TIMESTAMP.fullmatch(ts)
        and type(own) is str
    ):
        return None
    at = line.find(f',"hash":"{own}","prev":"{prev}"'.encode())
    rest = f',"prev":"{prev}"{sealed},"seq":{seq},"ts":"{ts}","type":"{kind}"}}'
    leaf = hashlib.sha256(b"\x00" + line[:at] + rest.encode()).digest()
    if at < 0 or leaf.hex() != own:
        return None
    for name in closed:
        if name in withheld or len(withheld) < MAX_NAMES:
            withheld[name] = withheld.get(name, 0) + 1
    return event, leaf


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


def _seal(private: Any, closed: list[str]) -> str | None:
    """The sealed spelling of a ``private`` member that holds strings, disclosed or withheld; None for any other.

    Puts the names of the withheld ones into ``closed``.
    """
    sealed = []
    for name, member in private.items():
        spelled = _spelled.get(name) or _spell(name)
        if len(member) == 2:
            salt, value = member.get("salt"), member.get("value")
            if type(value) is not str or not HEX32.fullmatch(salt):
                return None
            opened = f'\x02[{spelled},"{salt}",'.encode() + orjson.dumps(value) + b"]"
            sealed.append(f'{spelled}:"{hashlib.sha256(opened).hexdigest()}"')
            continue
        commitment = member.get("commitment")
        if len(member) != 1 or type(commitment) is not str or not HEX64.fullmatch(commitment):
            return None
        sealed.append(f'{spelled}:"{commitment}"')
        closed.append(name)
    return f',"private":{{{",".join(sealed)}}}' if sealed else None


def _spell(name: str) -> str:
    """The JSON spelling of the name of a private member. Raises Violation where it cannot be one."""
    check_name(name)
    if name == "private":
        raise Violation("a private member named private")
    spelled = orjson.dumps(name).decode()
    if len(_spelled) < MAX_NAMES:
        _spelled[name] = spelled
    return spelled
