"""What a reader demands of one line of a ledger, alone: its envelope, its asserter, and the members it will use.

Unknown types and members pass: they are hashed, named and never judged (spec R-LED-8).
"""

from __future__ import annotations

from typing import Any

from docket.verify import shapes
from docket.verify.canonical import HEX64, Object
from docket.verify.report import Violation
from docket.verify.shapes import Shape, members, reads

AGENT_MAY = frozenset({"note", "tool.call", "tool.result"})
"""What the agent may assert."""
ENVELOPE = frozenset({"seq", "ts", "elapsed_us", "type", "by", "data", "prev", "hash"})
_BY = frozenset({"boundary", "supervisor", "agent", "doctor"})
MAX_TYPE = 128

endorsement = members({"alg": shapes.one_of("ed25519"), "key": shapes.hex64, "value": shapes.hex128}, exact=True)
usage_tree = members({"size": shapes.natural, "root": shapes.hex64})
exit_status = members({}, {"code": shapes.natural, "signal": shapes.positive})

evidence = members(
    {
        "ledger_complete": shapes.one_of(True, False, "unknown"),
        "intact": shapes.boolean,
        "unwritten_events": shapes.natural,
        "write_failures": shapes.natural,
        "gaps": shapes.counted,
    },
    {"first_failing_seq": shapes.natural},
)
ops = members({"evidence": evidence})

_end = reads(
    {
        "call": shapes.positive,
        "provider": shapes.text,
        "model": shapes.text,
        "tier": shapes.text,
        "upstream": shapes.text,
        "reason": shapes.text,
    },
    {"usage": shapes.free_object, "duration_us": shapes.natural, "first_byte_us": shapes.natural},
)
DATA: dict[str, Shape] = {
    "session.start": reads(
        {
            "docket": shapes.docket,
            "session": shapes.natural,
            "run_key": shapes.hex64,
            "policy": shapes.hex64,
            "prices": shapes.hex64,
        },
        {
            "endorsement": endorsement,
            "continues": members({"size": shapes.positive, "root": shapes.hex64, "head": shapes.hex64}, exact=True),
        },
    ),
    "session.end": reads(
        {
            "outcome": shapes.text,
            "exit": exit_status,
            "totals": shapes.free_object,
            "usage_tree": usage_tree,
            "ops": ops,
        }
    ),
    "model.request": reads({"call": shapes.positive}),
    "model.response": _end,
    "model.error": _end,
    "model.denied": reads({"code": shapes.name, "count": shapes.positive}),
    "model.cache_hit": reads({"call": shapes.positive}, {"saved_usd": shapes.amount}),
    "cap.exceeded": reads({"cap": shapes.text, "limit": shapes.text, "observed": shapes.text}),
    "fs.change": reads({"change": shapes.name}),
    "proc.orphan": reads({"pid": shapes.positive, "ended": shapes.text}),
    "x-docket.forwarded": reads({"endpoint_class": shapes.name}),
    "x-docket.unauthorized": reads({"count": shapes.positive}),
    "x-docket.rate-limited": reads({"count": shapes.positive}),
    "x-docket.ledger-gap": reads({"lost": reads({"count": shapes.positive, "types": shapes.counted})}),
}
"""By type: the members that a check reads. The spec's table of types has all of them."""
VOCABULARY = frozenset(DATA) | frozenset(
    {
        "policy.applied",
        "policy.violation",
        "cap.warning",
        "tool.call",
        "tool.result",
        "fs.snapshot",
        "proc.spawn",
        "proc.exit",
        "net.allowed",
        "net.denied",
        "note",
        "x-docket.breaker-open",
        "x-docket.breaker-half-open",
        "x-docket.breaker-closed",
        "x-docket.fault-injected",
        "x-docket.ledger-recovered",
        "x-docket.clock-step",
        "x-docket.budget-leased",
        "x-docket.budget-refused",
        "x-docket.budget-returned",
        "x-docket.retry-scheduled",
        "x-docket.rollback-applied",
        "x-docket.rollback-refused",
    }
)
_ignored: list[str] = [""] * shapes.MAX_UNKNOWN
"""Full, so that nothing is listed for every event anew."""


def check_envelope(event: Object) -> None:
    """Raise Violation where a member of the envelope is missing or not of its type."""
    if not event.keys() >= ENVELOPE:
        raise Violation(f"no member {min(ENVELOPE - event.keys())}")
    seq, elapsed, kind = event["seq"], event["elapsed_us"], event["type"]
    if type(seq) is not int or seq < 0:
        raise Violation("seq: not a whole number from 0")
    if type(elapsed) is not int or elapsed < 0:
        raise Violation("elapsed_us: not a whole number from 0")
    if type(kind) is not str or not 1 <= len(kind) <= MAX_TYPE:
        raise Violation("type: not a string of 1 to 128 characters")
    if type(event["data"]) is not dict:
        raise Violation("data: not an object")
    ts, by = event["ts"], event["by"]
    if type(ts) is not str or not shapes.TIMESTAMP.fullmatch(ts):
        raise Violation("ts: not an RFC 3339 time in UTC with microseconds")
    for name in ("prev", "hash"):
        if type(event[name]) is not str or not HEX64.fullmatch(event[name]):
            raise Violation(f"{name}: not 64 lower-case hex characters")
    check_asserter(kind, by, event["data"])


def check_asserter(kind: str, by: Any, data: Object) -> None:
    """Raise Violation where ``by`` may not assert an event of this type."""
    if type(by) is not str or by not in _BY:
        raise Violation("by: not boundary, supervisor, agent or doctor")
    if by == "agent" and kind not in AGENT_MAY:
        raise Violation(f"by: the agent may not assert {kind}")
    if (
        kind.startswith("model.")
        and by != "boundary"
        and not (by == "doctor" and kind == "model.error" and data.get("reason") == "lost")
    ):
        raise Violation(f"by: {by} may not assert {kind}")


def check_data(event: Object) -> None:
    """Raise Violation where a member that a check will read is missing or not of its type."""
    shape = DATA.get(event["type"])
    if shape is not None:
        shape(event["data"], "data", _ignored)
