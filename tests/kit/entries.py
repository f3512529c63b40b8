"""Entries of a ledger, made by the members that a test is about; the rest of what their type needs is filled in."""

from __future__ import annotations

from docket.ledger.chain import Entry
from docket.primitives.canonical import Json, JsonObject

_END: JsonObject = {
    "call": 1,
    "status": 200,
    "reason": "complete",
    "provider": "p",
    "model": "m",
    "tier": "standard",
    "upstream": "u",
}
_NEEDED: dict[str, JsonObject] = {
    "model.request": {
        "call": 1,
        "upstream": "up",
        "provider": "p",
        "protocol": "openai",
        "endpoint": "/v1/chat/completions",
        "model": "m",
        "stream": False,
        "bytes": 2,
        "hold": {"tokens": 0},
        "waited_us": 0,
    },
    "model.response": _END,
    "model.error": _END | {"reason": "truncated"},
    "model.denied": {"code": "max_usd", "final": True, "count": 1},
    "model.cache_hit": {"call": 1, "origin": 1},
    "fs.snapshot": {
        "when": "before",
        "files": 0,
        "bytes": 0,
        "entries": 0,
        "stored": False,
        "uncovered": 0,
        "ignored": 0,
    },
    "fs.change": {"change": "added"},
    "cap.exceeded": {"cap": "max_usd", "limit": "1", "observed": "1"},
    "proc.spawn": {"pid": 1},
    "proc.orphan": {"pid": 1, "ended": "exited"},
    "policy.applied": {"policy": ""},
    "x-docket.unauthorized": {"count": 1},
    "x-docket.forwarded": {"upstream": "up", "method": "GET", "endpoint": "/", "endpoint_class": "free"},
}


def entry(kind: str, data: JsonObject | None = None, *, seq: int = 0, private: dict[str, Json] | None = None) -> Entry:
    """An entry as a reader gets it: its event is read from its members."""
    disclosed: JsonObject = {name: {"salt": "00" * 16, "value": value} for name, value in (private or {}).items()}
    members = _NEEDED.get(kind, {}) | (data or {})
    return Entry(seq, "2026-11-30T10:00:00.000000Z", 0, kind, "boundary", members, disclosed or None, "", "")
