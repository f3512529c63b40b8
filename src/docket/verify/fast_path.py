"""The usual line of a ledger, read in few steps: as docket writes it, next in its chain, and right.

Invariant: never says more than the careful reading in ``walk`` would; whatever it does not recognise is left to that.
No member is looked for in the bytes: a line that is the canonical spelling of its event ends in members of known
lengths, so ``hash`` and ``prev`` stand at a place that is reckoned from the end, and nowhere else.
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
_PRIVATE_BYTES = len(',"private":{')
_DISCLOSED_BYTES = len('{"salt":"","value":}') + 32
_WITHHELD_BYTES = len('{"commitment":""}') + 64
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
            opened, sealed = _seal(event["private"], closed)
            nested = line.count(_PRIVATE) - 1
        elif names == ENVELOPE:
            opened, sealed, nested = 0, "", line.count(_PRIVATE)
        else:
            return None
        if nested or not _is_plain(event["data"], 2) or orjson.dumps(event, option=_OPTIONS) != line:
            return None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, Violation, TypeError, KeyError, AttributeError):
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
        and own.isascii()
    ):
        return None
    end = f',"seq":{seq},"ts":"{ts}","type":"{kind}"}}'
    marked = f',"hash":"{own}","prev":"{prev}"'.encode()
    at = len(line) - len(end) - opened - len(marked)
    if line[at : at + len(marked)] != marked:
        return None
    leaf = hashlib.sha256(b"\x00" + line[:at] + f',"prev":"{prev}"{sealed}{end}'.encode()).digest()
    if leaf.hex() != own:
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


def _seal(private: Any, closed: list[str]) -> tuple[int, str]:
    """Return the bytes that a ``private`` member takes as it stands, and its sealed spelling.

    Only strings, disclosed or withheld, are recognised; any other member raises TypeError. Puts the names of the
    withheld ones into ``closed``.
    """
    sealed, length = [], _PRIVATE_BYTES
    for name, member in private.items():
        spelled = _spelled.get(name) or _spell(name)
        length += len(spelled) + 2  # a colon, and a comma or the brace that closes the object
        if len(member) == 2:
            salt, value = member["salt"], member["value"]
            if type(value) is not str or not HEX32.fullmatch(salt):
                raise TypeError
            text = orjson.dumps(value)
            length += _DISCLOSED_BYTES + len(text)
            opened = f'\x02[{spelled},"{salt}",'.encode() + text + b"]"
            sealed.append(f'{spelled}:"{hashlib.sha256(opened).hexdigest()}"')
            continue
        commitment = member["commitment"]
        if len(member) != 1 or type(commitment) is not str or not HEX64.fullmatch(commitment):
            raise TypeError
        length += _WITHHELD_BYTES
        sealed.append(f'{spelled}:"{commitment}"')
        closed.append(name)
    if not sealed:
        raise TypeError
    return length, f',"private":{{{",".join(sealed)}}}'


def _spell(name: str) -> str:
    """The JSON spelling of the name of a private member. Raises Violation where it cannot be one."""
    check_name(name)
    if name == "private":
        raise Violation("a private member named private")
    spelled = orjson.dumps(name).decode()
    if len(_spelled) < MAX_NAMES:
        _spelled[name] = spelled
    return spelled
