"""The shape of a receipt: every member that ``docket-receipt/1`` knows, its type, and which must be there."""

from __future__ import annotations

from itertools import pairwise

from docket.verify import events, shapes
from docket.verify.canonical import Object
from docket.verify.report import Violation
from docket.verify.shapes import listed, members

FORMAT = "docket-receipt/1"
LEDGER_FORMAT = "docket-ledger/1"
MAX_BYTES = 16 << 20
"""Bytes of a receipt with its LF (spec P-1)."""
MAX_MARKS = 1 << 19
"""Bytes ``,``, ``[`` and ``{`` of a receipt or proof (spec P-1): bounds the values that a reader holds."""
MAX_ROWS = 10_000
MAX_PRICES = 65_536
MAX_SENTENCES = 1024
"""Of ``limits``, and of ``findings``."""
MAX_SEQS = 20
"""Events that a finding lists (spec R-14)."""
MAX_SESSIONS = 1024
"""Sessions of one run: bounds a reader."""
MAX_PROOF = 64
"""Hashes of an inclusion proof: enough for 2^64 leaves."""

_proof = members(
    {"index": shapes.natural, "size": shapes.natural, "hashes": listed(shapes.hex64, most=MAX_PROOF)}, exact=True
)
proven = members({"event": shapes.free_object, "proof": _proof}, exact=True)
_start = members({"event": shapes.free_object, "proof": _proof}, {"checkpoint": shapes.text, "end": proven}, exact=True)
_row = members(
    {
        "call": shapes.positive,
        "model": shapes.text,
        "provider": shapes.text,
        "seq": shapes.natural,
        "tier": shapes.text,
        "upstream": shapes.text,
        "usage": shapes.free_object,
    },
    exact=True,
)
_price = members(
    {
        "provider": shapes.text,
        "model": shapes.text,
        "tier": shapes.text,
        "kind": shapes.name,
        "unit_usd": shapes.price,
        "per": shapes.one_of(1, 1000000),
    },
    exact=True,
)
totals = members(
    {
        "calls": shapes.natural,
        "errors": shapes.natural,
        "denied": shapes.natural,
        "tokens": shapes.counted,
        "by_source": members(
            {"none": shapes.natural, "partial": shapes.natural, "reported": shapes.natural}, exact=True
        ),
        "by_model": listed(
            members(
                {"provider": shapes.text, "upstream": shapes.text, "model": shapes.text, "calls": shapes.natural},
                {"cost_usd": shapes.amount},
            ),
            most=257,
        ),
        "cost_is": shapes.one_of("approximate", "exact", "lower-bound", "none"),
        "lost": shapes.natural,
        "unmetered": shapes.natural,
    },
    {"cost_usd": shapes.amount},
)
_finding = members(
    {
        "rule": shapes.name,
        "severity": shapes.one_of("info", "warning", "error"),
        "confidence": shapes.one_of("deterministic", "heuristic"),
        "summary": shapes.text,
        "seqs": listed(shapes.natural, least=1, most=MAX_SEQS),
        "count": shapes.positive,
        "impact": members({"is": shapes.one_of("exact", "at-least", "at-most", "unknown")}, {"usd": shapes.amount}),
        "remedy": shapes.text,
    }
)
_percentiles = members(
    {"count": shapes.natural},
    {"p50": shapes.natural, "p95": shapes.natural, "p99": shapes.natural, "max": shapes.natural},
)
_cap = members({"booked": shapes.natural}, {"limit": shapes.natural})

receipt = members(
    {
        "format": shapes.one_of(FORMAT),
        "docket": shapes.docket,
        "created_at": shapes.timestamp,
        "tool": shapes.free_object,
        "kind": shapes.one_of("complete", "recovered", "from-memory"),
        "session": members(
            {
                "outcome": shapes.one_of("completed", "failed", "breached", "interrupted", "lost"),
                "exit": events.exit_status,
                "elapsed_us": shapes.natural,
                "orphans": shapes.natural,
                "survivors": listed(shapes.positive, most=100),
                "sessions": shapes.positive,
                "drill": shapes.boolean,
            },
            {
                "breach": members(
                    {"cap": shapes.text, "limit": shapes.text, "observed": shapes.text}, {"seq": shapes.natural}
                )
            },
        ),
        "policy": members({"digest": shapes.hex64, "document": shapes.free_object}),
        "prices": members(
            {
                "tables": listed(
                    members({"digest": shapes.hex64}, {"source": shapes.text, "date": shapes.text}), most=MAX_SESSIONS
                ),
                "rows": listed(_price, most=MAX_PRICES),
            }
        ),
        "totals": totals,
        "usage": members({"size": shapes.natural, "root": shapes.hex64}, {"rows": listed(_row, most=MAX_ROWS)}),
        "latency": members({"unit": shapes.one_of("us"), "total": _percentiles, "first_byte": _percentiles}),
        "caps": members(
            {
                "usd": members({"booked": shapes.amount}, {"limit": shapes.amount, "billed": shapes.amount}),
                "tokens": members({"booked": shapes.natural, "billed": shapes.natural}, {"limit": shapes.natural}),
                "calls": _cap,
                "wall_us": _cap,
            }
        ),
        "files": members({"changes": shapes.counted, "snapshots": shapes.natural}),
        "network": members(
            {
                "allowed": shapes.natural,
                "denied": shapes.natural,
                "forwarded": shapes.counted,
                "unauthorized": shapes.natural,
            }
        ),
        "tools": members({"calls": shapes.natural, "results": shapes.natural}),
        "resilience": members(
            {
                "breaker": members({"open": shapes.natural, "half-open": shapes.natural, "closed": shapes.natural}),
                "clock_steps": shapes.natural,
                "denied_by_code": shapes.counted,
                "faults_injected": shapes.natural,
                "rate_limited": shapes.natural,
            }
        ),
        "enforcement": members({"mechanisms": shapes.free_object, "violations": shapes.natural}),
        "ops": events.ops,
        "findings": listed(_finding, most=MAX_SENTENCES),
        "ledger": members(
            {
                "format": shapes.one_of(LEDGER_FORMAT),
                "size": shapes.positive,
                "root": shapes.hex64,
                "head": shapes.hex64,
                "checkpoint": shapes.text,
            }
        ),
        "starts": listed(_start, least=1, most=MAX_SESSIONS),
        "limits": listed(shapes.text, least=1, most=MAX_SENTENCES),
        "signatures": listed(
            members(
                {
                    "role": shapes.one_of("run", "operator"),
                    "alg": shapes.one_of("ed25519"),
                    "key": shapes.hex64,
                    "value": shapes.hex128,
                },
                exact=True,
            ),
            most=2,
        ),
    },
    {
        "end": proven,
        "cache": members({"hits": shapes.natural}, {"policy": shapes.free_object, "saved_usd": shapes.amount}),
    },
)


def check(document: Object, unknown: list[str]) -> None:
    """Raise Violation naming the first member of ``document`` that is not as a receipt has it."""
    receipt(document, "receipt", unknown)
    recovered = document["kind"] == "recovered"
    if document["kind"] != "complete" and "end" in document:
        raise Violation(f"receipt.end: a receipt of kind {document['kind']} has no end")
    if not recovered and not document["ledger"]["checkpoint"]:
        raise Violation("receipt.ledger.checkpoint: empty in a receipt that is signed")
    roles = [signature["role"] for signature in document["signatures"]]
    if roles != ([] if recovered else ["run", "operator"][: max(1, len(roles))]):
        raise Violation("receipt.signatures: not [run] or [run, operator] of a signed receipt, [] of a recovered one")
    for number, finding in enumerate(document["findings"]):
        _check_finding(finding, f"receipt.findings[{number}]", document["ledger"]["size"])
    for name in ("total", "first_byte"):
        figures = document["latency"][name]
        if len(figures.keys() & {"p50", "p95", "p99", "max"}) != (4 if figures["count"] else 0):
            raise Violation(f"receipt.latency.{name}: percentiles where there are samples, and only there")


def _check_finding(finding: Object, path: str, size: int) -> None:
    """Hold the references of a finding against a ledger of ``size`` events (spec R-14)."""
    seqs, impact = finding["seqs"], finding["impact"]
    if any(seq >= following for seq, following in pairwise(seqs)):
        raise Violation(f"{path}.seqs: does not grow")
    if seqs[-1] >= size:
        raise Violation(f"{path}.seqs: event {seqs[-1]} of a ledger of {size} events")
    if len(seqs) != min(finding["count"], MAX_SEQS) or finding["count"] > size:
        raise Violation(f"{path}.count: {finding['count']}, with {len(seqs)} events listed of a ledger of {size}")
    if ("usd" in impact) == (impact["is"] == "unknown"):
        raise Violation(f"{path}.impact: a figure exactly where it is not unknown")
