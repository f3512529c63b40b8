"""Folded figures and the supervisor's values to the receipt document, and its signatures.

Invariant: what ``session.end`` says and what the receipt says of outcome, exit, totals, usage tree and ops are built
by the same functions from the same fold, hence byte-equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from docket.errors import FormatError
from docket.findings.model import Finding
from docket.ledger.events import ModelCacheHit, Outcome, PolicyViolation, ProcOrphan, SessionEnd
from docket.policy.document import digest
from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.sealed import Entropy, disclose, seal
from docket.primitives.signature import SigningKey
from docket.receipt.limits import sentences
from docket.receipt.model import FORMAT, LEDGER_FORMAT, Anchor, Caps, Run
from docket.receipt.totals import Totals

MAX_BYTES = 16 << 20
MAX_MARKS = 1 << 19
"""Bytes ``,``, ``[`` and ``{`` of a receipt that a reader takes (spec P-1)."""
"""Largest receipt, with its line feed (evidence format section 1)."""


def end_event(run: Run, totals: Totals) -> SessionEnd:
    """The last event of a session, from a fold of everything before it."""
    return SessionEnd(
        outcome=cast(Outcome, run.outcome),
        exit=run.exit,
        totals=totals.to_json(whole=run.evidence.whole),
        usage_tree=totals.usage_tree(),
        ops=_ops(run),
    )


def build(
    run: Run,
    totals: Totals,
    findings: Sequence[Finding],
    anchor: Anchor,
    entropy: Entropy,
    *,
    operator: bool = False,
) -> JsonObject:
    """The receipt without signatures. ``totals`` and ``findings`` are folds of the ledger that ``anchor`` binds.

    ``operator`` says whether an operator will sign it. ``entropy`` makes the salts of its private members.
    """
    whole = run.evidence.whole
    figures = totals.to_json(whole=whole)
    document: JsonObject = {
        "format": FORMAT,
        "docket": run.docket,
        "created_at": run.created_at,
        "tool": run.tool,
        "kind": run.kind,
        "session": _session(run, totals, len(anchor.starts), entropy),
        "policy": {"digest": digest(run.policy), "document": run.policy},
        "prices": {"tables": cast("list[Json]", list(run.tables)), "rows": totals.price_rows()},
        "totals": figures,
        "usage": totals.rows.to_json(),
        "latency": totals.latency(),
        "caps": _caps(run.caps, totals, figures),
        "files": _with_private(*totals.activity.files(), entropy),
        "network": totals.activity.network(),
        "tools": totals.activity.tools(),
        "resilience": totals.activity.resilience(),
        "enforcement": {
            "mechanisms": run.enforcement,
            "violations": totals.activity.of(PolicyViolation),
        },
        "ops": _ops(run),
        "findings": [finding.to_json() for finding in findings],
        "ledger": {
            "format": LEDGER_FORMAT,
            "size": anchor.size,
            "root": anchor.root,
            "head": anchor.head,
            "checkpoint": anchor.checkpoint,
        },
        "starts": [start.to_json() for start in anchor.starts],
        "limits": cast("list[Json]", sentences(run, totals, operator=operator)),
        "signatures": [],
    }
    if anchor.end is not None:
        document["end"] = anchor.end.to_json()
    if run.cache is not None:
        document["cache"] = run.cache | {"hits": totals.activity.of(ModelCacheHit)}
    return document


def sign(receipt: JsonObject, run_key: SigningKey, operator_key: SigningKey | None = None) -> JsonObject:
    """``receipt`` with the signature of the run and, where the start is endorsed, of the operator."""
    unsigned = {name: member for name, member in receipt.items() if name != "signatures"}
    message = encode(seal(unsigned))
    signatures: list[Json] = [_signature("run", run_key, message)]
    if operator_key is not None:
        signatures.append(_signature("operator", operator_key, message))
    return unsigned | {"signatures": signatures}


def to_line(receipt: JsonObject) -> bytes:
    """The canonical bytes of ``receipt`` and their line feed. Raises FormatError beyond what a reader takes."""
    line = encode(receipt) + b"\n"
    if len(line) > MAX_BYTES:
        raise FormatError(f"the receipt takes {len(line)} bytes; the limit is {MAX_BYTES}")
    marks = sum(map(line.count, (b",", b"[", b"{")))
    if marks > MAX_MARKS:
        raise FormatError(f"the receipt holds {marks} of the bytes , [ and {{; the limit is {MAX_MARKS}")
    return line


def _signature(role: str, key: SigningKey, message: bytes) -> JsonObject:
    signed = key.sign(b"\x00".join((FORMAT.encode(), role.encode(), message)))
    return {"role": role, "alg": "ed25519", "key": key.public.hex(), "value": signed.hex()}


def _ops(run: Run) -> JsonObject:
    return {"evidence": run.evidence.to_json()}


def _session(run: Run, totals: Totals, sessions: int, entropy: Entropy) -> JsonObject:
    activity = totals.activity
    public: JsonObject = {
        "outcome": run.outcome,
        "exit": run.exit,
        "elapsed_us": activity.elapsed_us,
        "orphans": activity.of(ProcOrphan),
        "survivors": cast("list[Json]", list(activity.survivors)),
        "sessions": sessions,
        "drill": activity.drill,
    }
    breach = activity.breach or run.breach
    if breach is not None:
        public["breach"] = breach
    return _with_private(public, dict(run.private), entropy)


def _caps(caps: Caps, totals: Totals, figures: JsonObject) -> JsonObject:
    usd: JsonObject = {"booked": str(caps.usd_booked)}
    if caps.usd_limit is not None:
        usd["limit"] = str(caps.usd_limit)
    if "cost_usd" in figures:
        usd["billed"] = figures["cost_usd"]
    tokens: JsonObject = {"booked": caps.tokens_booked, "billed": sum(totals.tokens.values())}
    calls: JsonObject = {"booked": totals.requests}
    wall: JsonObject = {"booked": totals.activity.elapsed_us}
    for cap, limit in ((tokens, caps.tokens_limit), (calls, caps.calls_limit), (wall, caps.wall_limit_us)):
        if limit is not None:
            cap["limit"] = limit
    return {"usd": usd, "tokens": tokens, "calls": calls, "wall_us": wall}


def _with_private(public: JsonObject, private: dict[str, Json], entropy: Entropy) -> JsonObject:
    return public | {"private": disclose(private, entropy)} if private else public
