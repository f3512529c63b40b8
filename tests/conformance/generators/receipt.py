"""Receipts: every member changed once, what binds them, and who signs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from conformance.catalog import vector
from conformance.scene import FINDING, OPERATOR, bump, drop, edit_bare, edit_receipt, only, opened, other, put, short
from docket.policy.document import digest
from docket.primitives.canonical import decode_object, encode
from docket.primitives.money import Usd
from docket.primitives.sealed import seal
from docket.receipt import build
from docket.receipt.model import Caps, Evidence
from kit.recordings import Files, Recording, bill, key

L = 2**252 + 27742317777372353535851937790883648493
Change = Callable[[Any], Any]


@vector(
    "receipt",
    "accept-run-directory",
    "verified",
    rules="P-1 P-7",
    comment="A whole run with its ledger and checkpoints.",
)
def _() -> Files:
    return short(calls=3).files()


@vector(
    "receipt",
    "accept-with-operator",
    "verified",
    rules="R-13 R-12",
    comment="The same, endorsed and signed by an operator.",
)
def _() -> Files:
    return short(signed=True, calls=3).files()


@vector("receipt", "accept-bare", "verified", rules="P-1 P-5", comment="The receipt alone.", path="receipt.json")
def _() -> Files:
    return only(short(signed=True, calls=3).files(), "receipt.json")


@vector(
    "receipt", "accept-without-rows", "verified", rules="R-7 P-5", comment="The rows are left out, the ledger is there."
)
def _() -> Files:
    return edit_receipt(short(), drop("usage.rows"), sign=True)


@vector(
    "receipt",
    "accept-bare-without-rows",
    "verified",
    rules="R-7 P-5",
    comment="The rows are left out and there is no ledger: the checks of rows are skipped.",
)
def _() -> Files:
    return edit_bare(short(), drop("usage.rows"), sign=True)


@vector("receipt", "accept-breached", "verified", rules="F-5", comment="Stopped by a cap, by signal.")
def _() -> Files:
    run = opened()
    run.add("cap.exceeded", {"cap": "max_usd", "limit": "0.001", "observed": "0.0033"})
    run.outcome, run.exit = "breached", {"signal": 15}
    run.end()
    return run.files()


@vector(
    "receipt",
    "accept-other-files-beside-it",
    "verified",
    rules="P-1",
    comment="Blobs, a snapshot and an older receipt in the directory are not looked at.",
)
def _() -> Files:
    return {**short().files(), "blobs/ab/cd": b"body", "receipt-0.json": b"{}\n", "lock": b""}


@vector(
    "receipt",
    "files-changed-by-another-hand",
    "incomplete",
    rules="P-7",
    comment="docket found its files altered while it ran.",
)
def _() -> Files:
    run = opened()
    run.evidence = Evidence(intact=False)
    run.end()
    return run.files()


@vector(
    "receipt",
    "events-unwritten",
    "incomplete",
    rules="P-7 R-9 F-2",
    comment="Events were lost; the cost is a lower bound.",
)
def _() -> Files:
    run = opened()
    run.evidence = Evidence(ledger_complete=False, unwritten_events=2, write_failures=1, first_failing_seq=2)
    run.end()
    return run.files()


@vector(
    "receipt", "recovered", "recovered", rules="R-2 P-7", comment="Made after the supervisor died, with its ledger."
)
def _() -> Files:
    return recovered().files(kind="recovered")


@vector("receipt", "recovered-bare", "incomplete", rules="R-2 P-7", comment="A recovered receipt without its ledger.")
def _() -> Files:
    return only(recovered().files(kind="recovered"), "receipt.json")


@vector(
    "receipt",
    "recovered-without-checkpoint",
    "recovered",
    rules="R-2 R-11 B-3",
    comment="The supervisor died before its first checkpoint.",
)
def _() -> Files:
    run = Recording(outcome="lost", exit={})
    run.start()
    return run.files(kind="recovered")


@vector(
    "receipt",
    "endorsed-run-downgraded-to-recovered",
    "recovered",
    rules="P-7 R-2",
    comment="Somebody replaces an endorsed run's receipt by a recovered one: consistent, and vouched for by nobody.",
)
def _() -> Files:
    return recovered(OPERATOR).files(kind="recovered")


@vector(
    "receipt",
    "recovered-says-complete",
    "failed",
    "ops.evidence",
    rules="R-9",
    comment="Nobody who lives can say that a recovered ledger is complete.",
)
def _() -> Files:
    return recovered().files(kind="recovered", edit=put("ops.evidence.ledger_complete", True))


@vector(
    "receipt",
    "from-memory",
    "incomplete",
    rules="R-2 R-9 P-7",
    comment="Made by the supervisor where it could not write: signed, over the durable events, with what was lost.",
)
def _() -> Files:
    return only(from_memory().files(kind="from-memory"), "receipt.json")


@vector(
    "receipt",
    "from-memory-beside-its-ledger",
    "incomplete",
    rules="R-2 B-2 B-3",
    comment="The same put beside the ledger, whose file of checkpoints never got its note.",
)
def _() -> Files:
    run = from_memory()
    files = run.files(kind="from-memory")
    return {**files, "checkpoints": b"".join(run.notes[:-1])}


@vector(
    "receipt",
    "from-memory-says-complete",
    "failed",
    "ops.evidence",
    rules="R-9",
    comment="A receipt from memory that says that nothing is missing.",
)
def _() -> Files:
    run = Recording()
    run.start()
    run.call()
    run.note()
    return only(run.files(kind="from-memory"), "receipt.json")


@vector(
    "receipt",
    "from-memory-changed",
    "failed",
    "signature.run",
    rules="R-13",
    comment="A receipt from memory is signed like any other: its number of lost events is altered.",
)
def _() -> Files:
    run = from_memory()
    signed = run.signed(run.unsigned(kind="from-memory"))
    put("ops.evidence.unwritten_events", 8)(signed)
    return {"receipt.json": build.to_line(signed)}


@vector(
    "receipt",
    "from-memory-understates-its-checkpoint",
    "failed",
    "checkpoint.lost",
    rules="R-11",
    comment="Its own checkpoint tells of more lost events.",
)
def _() -> Files:
    run = from_memory()
    files = run.files(kind="from-memory", edit=put("ops.evidence.unwritten_events", 3))
    return only(files, "receipt.json")


@vector(
    "receipt",
    "from-memory-with-an-end",
    "failed",
    "receipt.form",
    rules="R-2",
    comment="What has an end in the ledger was not made from memory.",
)
def _() -> Files:
    return edit_bare(short(), put("kind", "from-memory"), sign=True)


@vector(
    "receipt",
    "breach-whose-event-is-lost",
    "incomplete",
    rules="R-1 R-9 B-5",
    comment="A cap was reached, and its event is among the lost ones: the breach has no seq.",
)
def _() -> Files:
    return _breached(unwritten_events=1, write_failures=1, ledger_complete=False, first_failing_seq=4)


@vector(
    "receipt",
    "breach-without-event-nor-loss",
    "failed",
    "ops.evidence",
    rules="R-9",
    comment="A breach without its event where no event is lost.",
)
def _() -> Files:
    return _breached()


def _breached(**evidence: Any) -> Files:
    run = opened()
    run.outcome = "breached"
    run.evidence = Evidence(**evidence)
    run.end()
    breach = {"cap": "max_model_calls", "limit": "1", "observed": "1"}
    return run.files(edit=put("session.breach", breach))


def from_memory() -> Recording:
    """A run whose volume vanished: a call is in the ledger, seven events are not."""
    run = Recording()
    run.start()
    run.note()
    run.call()
    run.evidence = Evidence(ledger_complete=False, unwritten_events=7, write_failures=7, first_failing_seq=4)
    run.note()
    return run


def recovered(operator: Any = None) -> Recording:
    run = Recording(operator=operator, outcome="lost", exit={})
    run.start()
    run.note()
    run.call()
    run.request()
    return run


_ANOTHER = {
    "docket": "DKT-20261130-9999999999",
    "created_at": "2027-01-01T00:00:00.000000Z",
    "starts.0.event.ts": "2027-01-01T00:00:00.000000Z",
}
# Every member changed, in a receipt that stands alone and is not signed anew.
for _path, _check in (
    ("docket", "starts.event"), ("created_at", "signature.run"), ("kind", "receipt.form"),
    ("session.outcome", "receipt.form"), ("session.exit.code", "end.figures"), ("session.elapsed_us", "totals.bindings"),
    ("session.orphans", "signature.run"), ("session.sessions", "starts.sessions"), ("session.drill", "totals.bindings"),
    ("policy.digest", "policy.digest"), ("policy.document.name", "policy.digest"), ("policy.document.caps.max_usd", "policy.digest"),
    ("prices.tables.0.digest", "prices.tables"), ("prices.tables.0.source", "signature.run"), ("prices.tables.0.date", "signature.run"),
    ("prices.rows.0.model", "prices.rows"), ("prices.rows.0.unit_usd", "prices.rows"), ("prices.rows.0.provider", "prices.rows"),
    ("prices.rows.0.tier", "prices.rows"), ("prices.rows.0.kind", "prices.rows"),
    ("totals.calls", "end.figures"), ("totals.errors", "end.figures"), ("totals.denied", "end.figures"), ("totals.lost", "end.figures"),
    ("totals.unmetered", "end.figures"), ("totals.tokens.input", "end.figures"), ("totals.by_source.none", "end.figures"),
    ("totals.by_model.0.calls", "end.figures"), ("totals.by_model.0.cost_usd", "end.figures"), ("totals.cost_usd", "end.figures"),
    ("usage.size", "end.figures"), ("usage.root", "end.figures"), ("usage.rows.0.call", "usage.root"), ("usage.rows.0.model", "usage.root"),
    ("usage.rows.0.provider", "usage.root"), ("usage.rows.0.seq", "usage.rows"), ("usage.rows.0.tier", "usage.root"),
    ("usage.rows.0.usage.items.0.quantity", "usage.rows"), ("usage.rows.0.usage.cost_usd", "usage.rows"),
    ("latency.total.count", "signature.run"), ("latency.first_byte.p50", "signature.run"), ("caps.usd.booked", "signature.run"),
    ("caps.usd.limit", "caps.limits"), ("caps.usd.billed", "totals.bindings"), ("caps.tokens.booked", "signature.run"),
    ("caps.tokens.billed", "totals.bindings"), ("caps.calls.booked", "totals.bindings"), ("caps.wall_us.booked", "totals.bindings"),
    ("files.snapshots", "signature.run"), ("network.allowed", "signature.run"), ("network.denied", "signature.run"),
    ("network.unauthorized", "signature.run"), ("tools.calls", "signature.run"), ("tools.results", "signature.run"),
    ("resilience.breaker.open", "signature.run"), ("resilience.clock_steps", "signature.run"), ("resilience.faults_injected", "totals.bindings"),
    ("resilience.rate_limited", "signature.run"), ("enforcement.mechanisms.memory", "signature.run"), ("enforcement.violations", "signature.run"),
    ("ops.evidence.ledger_complete", "end.figures"), ("ops.evidence.intact", "end.figures"), ("ops.evidence.unwritten_events", "end.figures"),
    ("ops.evidence.write_failures", "end.figures"), ("ledger.size", "starts.proof"), ("ledger.root", "starts.proof"), ("ledger.head", "end.event"),
    ("ledger.format", "receipt.form"), ("starts.0.event.data.policy", "starts.event"), ("starts.0.event.ts", "starts.event"),
    ("starts.0.event.hash", "starts.event"), ("starts.0.proof.index", "starts.proof"), ("starts.0.proof.size", "starts.proof"),
    ("starts.0.proof.hashes.0", "starts.proof"), ("end.event.data.outcome", "end.event"), ("end.event.hash", "end.event"),
    ("end.proof.index", "end.proof"), ("end.proof.size", "end.proof"), ("end.proof.hashes.0", "end.proof"), ("limits.0", "signature.run"),
    ("signatures.0.key", "signature.run"), ("signatures.0.value", "signature.run"), ("signatures.0.role", "receipt.form"), ("signatures.0.alg", "receipt.form"),
    ("tool.version", "signature.run"),
):  # fmt: skip

    def _bumped(path: str = _path) -> Files:
        return edit_bare(short(), put(path, _ANOTHER[path]) if path in _ANOTHER else bump(path))

    vector(
        "receipt",
        f"changed-{_path.replace('.', '-').replace('_', '-')}",
        "failed",
        _check,
        rules="R-1 R-13",
        comment=f"{_path} is another than was signed.",
    )(_bumped)

for _member in (
    "caps",
    "created_at",
    "docket",
    "enforcement",
    "files",
    "findings",
    "kind",
    "latency",
    "ledger",
    "limits",
    "network",
    "ops",
    "policy",
    "prices",
    "resilience",
    "session",
    "signatures",
    "starts",
    "tool",
    "tools",
    "totals",
    "usage",
):
    vector(
        "receipt",
        f"missing-{_member.replace('_', '-')}",
        "failed",
        "receipt.form",
        rules="R-1",
        comment=f"A receipt, signed so, without {_member}.",
    )(
        lambda member=_member: (
            edit_bare(short(), drop(member), sign=member not in ("signatures", "kind", "ledger"))
            if member != "signatures"
            else edit_bare(short(), drop("signatures"))
        )
    )


def shaped(phrase: str, comment: str, change: Change, rules: str = "R-1") -> None:
    vector("receipt", phrase, "failed", "receipt.form", rules=rules, comment=comment)(
        lambda: edit_bare(short(), change)
    )


shaped("limits-empty", "A receipt that claims to show everything.", put("limits", []))
shaped("starts-empty", "No start.", put("starts", []))
shaped("findings-of-strings", "Findings are objects.", put("findings", ["x"]))
shaped("drill-as-number", "1 is not true.", put("session.drill", 1))
shaped("calls-as-true", "true is not 1.", put("totals.calls", True))
shaped("cost-is-perhaps", "No such word.", put("totals.cost_is", "perhaps"))
shaped("cost-as-number", "A number where a decimal string belongs.", put("totals.cost_usd", 1))
shaped("outcome-unknown", "No such outcome.", put("session.outcome", "won"))
shaped("time-with-offset", "A time with an offset.", put("created_at", "2026-11-30T12:00:00.000000+00:00"))
shaped("row-with-another-member", "A row is exact.", put("usage.rows.0.note", "x"))
shaped("row-call-zero", "Calls count from 1.", put("usage.rows.0.call", 0))
shaped("proof-with-another-member", "A proof is exact.", put("end.proof.note", "x"))
shaped("proof-hash-upper-case", "Upper-case hex.", put("end.proof.hashes.0", "A" * 64))
shaped("proof-of-65-hashes", "More hashes than any tree has levels.", put("end.proof.hashes", ["0" * 64] * 65))
shaped("signature-with-another-member", "A signature is exact.", put("signatures.0.note", "x"))
shaped("signature-key-short", "A key of 63 characters.", put("signatures.0.key", "0" * 63))
shaped("price-row-per-thousand", "per is 1 or 1000000.", put("prices.rows.0.per", 1000))
shaped("percentile-missing", "Samples without a median.", drop("latency.total.p50"))
shaped("percentiles-without-samples", "Percentiles of nothing.", put("latency.total.count", 0))
shaped("recovered-with-signature", "A recovered receipt is signed by nobody.", put("kind", "recovered"), "R-2")
shaped("complete-without-signature", "A complete receipt is signed.", put("signatures", []), "R-2")
shaped("checkpoint-empty", "A complete receipt quotes its checkpoint.", put("ledger.checkpoint", ""), "R-2")
shaped(
    "signatures-two-of-run",
    "The run signs once.",
    lambda receipt: receipt["signatures"].append(dict(receipt["signatures"][0])),
    "R-2",
)


def resigned(
    phrase: str,
    check: str,
    comment: str,
    change: Change,
    rules: str,
    *,
    bare: bool = True,
    run: Callable[[], Recording] = short,
) -> None:
    """A receipt that a holder of the run key changed and signed again."""
    edit = edit_bare if bare else edit_receipt
    vector("receipt", phrase, "failed", check, rules=rules, comment=comment)(lambda: edit(run(), change, sign=True))


resigned(
    "resigned-evidence-contradicts-itself",
    "end.figures",
    "ops says something else than the end.",
    put("ops.evidence.unwritten_events", 1),
    "R-6",
)
resigned(
    "resigned-outcome", "end.figures", "Another outcome than session.end says.", put("session.outcome", "failed"), "R-6"
)
resigned("resigned-exit", "end.figures", "Another exit than session.end says.", put("session.exit", {"code": 1}), "R-6")
resigned("resigned-elapsed", "totals.bindings", "Another elapsed time than its cap.", bump("session.elapsed_us"), "R-8")
resigned(
    "resigned-elapsed-twice",
    "against.activity",
    "Another elapsed time, twice.",
    lambda r: (bump("session.elapsed_us")(r), bump("caps.wall_us.booked")(r)),
    "B-5 F-5",
    bare=False,
)
resigned(
    "resigned-billed", "totals.bindings", "The cap's billed is not the cost.", put("caps.usd.billed", "0.1"), "R-8"
)
resigned(
    "resigned-billed-missing",
    "totals.bindings",
    "The cap has no billed, though there is a cost.",
    drop("caps.usd.billed"),
    "R-8",
)
resigned(
    "resigned-price-row-unused",
    "prices.rows",
    "A price that no row used.",
    lambda r: r["prices"]["rows"].append({**r["prices"]["rows"][-1], "tier": "z"}),
    "R-10 F-6",
)
resigned(
    "resigned-price-row-missing",
    "prices.rows",
    "A price that a row used is not listed.",
    lambda r: r["prices"]["rows"].pop(),
    "R-10 F-6",
)
resigned(
    "resigned-price-rows-unsorted",
    "prices.rows",
    "The prices are not sorted.",
    lambda r: r["prices"]["rows"].reverse(),
    "R-10",
)
resigned(
    "resigned-price-row-twice",
    "prices.rows",
    "A price stands twice.",
    lambda r: r["prices"]["rows"].append(r["prices"]["rows"][-1]),
    "R-10",
)
resigned(
    "resigned-price-rows-unsorted-without-rows",
    "prices.rows",
    "The order is checked also where the rows are left out.",
    lambda r: (r["prices"]["rows"].reverse(), r["usage"].pop("rows")),
    "R-10",
)
resigned(
    "resigned-price-row-unused-without-rows",
    "against.prices",
    "A price that the ledger did not use.",
    lambda r: (r["prices"]["rows"].append({**r["prices"]["rows"][-1], "tier": "z"}), r["usage"].pop("rows")),
    "B-5 F-6",
    bare=False,
)
resigned(
    "resigned-tables-two",
    "prices.tables",
    "More tables than starts.",
    lambda r: r["prices"]["tables"].append(r["prices"]["tables"][0]),
    "R-10",
)
resigned(
    "resigned-policy-document",
    "policy.digest",
    "Another document under its own digest: not the one that the start names.",
    lambda r: _policy(r),
    "R-10",
)
resigned(
    "resigned-latency",
    "against.latency",
    "Another median than the ledger gives.",
    bump("latency.total.p50"),
    "B-5 F-4",
    bare=False,
)
resigned(
    "resigned-latency-not-cut",
    "against.latency",
    "The median as it was measured, not cut.",
    put("latency.total.p50", 354321),
    "B-5 F-4",
    bare=False,
)
resigned(
    "resigned-files",
    "against.activity",
    "A changed file that the ledger does not have.",
    put("files.changes", {"created": 1}),
    "B-5 F-5",
    bare=False,
)
resigned(
    "resigned-breach",
    "against.activity",
    "A breach that the ledger does not have.",
    put("session.breach", {"cap": "max_usd", "limit": "1", "observed": "2", "seq": 2}),
    "B-5 F-5",
    bare=False,
)
resigned(
    "resigned-cache-hits",
    "against.activity",
    "Cache hits that the ledger does not have.",
    put("cache", {"hits": 1}),
    "B-5 F-5",
    bare=False,
)
resigned(
    "resigned-violations-hidden",
    "against.activity",
    "A violation of the policy is not counted.",
    put("enforcement.violations", 0),
    "B-5 F-5",
    bare=False,
    run=lambda: _violated(),
)
resigned(
    "end-of-another-run", "end.event", "The end of another run.", lambda r: r.update(end=_other_run()["end"]), "R-6"
)
resigned(
    "start-of-another-run",
    "starts.event",
    "The start of another run.",
    lambda r: r.update(starts=_other_run()["starts"]),
    "R-3",
)
resigned(
    "start-of-another-run-and-its-number",
    "starts.proof",
    "The start and the number of another run.",
    lambda r: r.update(starts=_other_run()["starts"], docket=_other_run()["docket"]),
    "R-4",
)
resigned(
    "proof-of-another-size",
    "starts.proof",
    "A right proof of a smaller tree.",
    lambda r: r["starts"][0].update(proof={"index": 0, "size": 1, "hashes": []}),
    "R-4 T-1",
)
resigned(
    "proof-with-a-wrong-size",
    "end.proof",
    "The hashes are right, the size is not: a proof does not bind it.",
    put("end.proof.size", 5),
    "R-6 T-1",
)
resigned(
    "proof-with-one-hash-more",
    "starts.proof",
    "A hash too many.",
    lambda r: r["starts"][0]["proof"]["hashes"].append("0" * 64),
    "T-1",
)
resigned(
    "proof-with-one-hash-less",
    "starts.proof",
    "A hash too few.",
    lambda r: r["starts"][0]["proof"]["hashes"].pop(),
    "T-1",
)
resigned(
    "head-of-another-event",
    "end.event",
    "head is the hash of another event.",
    lambda r: r["ledger"].update(head=r["starts"][0]["event"]["hash"]),
    "R-6",
)


resigned(
    "resigned-cache-saving",
    "against.activity",
    "A saving that the cache hits do not give.",
    put("cache.saved_usd", "0.1"),
    "B-5 F-5",
    bare=False,
    run=lambda: _cached(),
)


def _cached() -> Recording:
    run = Cached()
    run.start()
    run.note()
    run.call()
    run.add("model.cache_hit", {"call": 2, "origin": 1, "saved_usd": "0.0033"}, by="boundary")
    run.add("model.cache_hit", {"call": 3, "origin": 1}, by="boundary")
    run.add("cap.exceeded", {"cap": "max_usd", "limit": "0.001", "observed": "0.0033"})
    run.outcome = "breached"
    run.end()
    return run


class Cached(Recording):
    """A run with a response cache."""

    def run(self, **changes: Any) -> Any:
        return super().run(**({"cache": {"policy": {"max": 1}, "saved_usd": "0.0033"}} | changes))


@vector(
    "receipt",
    "accept-members-beside-figures",
    "verified",
    rules="B-5 R-1",
    comment="Unknown members beside the figures that are compared.",
)
def _() -> Files:
    def change(receipt: Any) -> None:
        for path in (
            "latency.mean",
            "session.mood",
            "files.links",
            "network.proxied",
            "tools.failed",
            "resilience.retries",
            "resilience.breaker.flapping",
            "enforcement.note",
            "cache.misses",
            "session.breach.note",
            "latency.total.mean",
        ):
            put(path, 7)(receipt)

    return _cached().files(edit=change)


def _policy(receipt: Any) -> None:
    document = {"name": "generous", "caps": {"max_usd": "5000"}}
    receipt["policy"] = {"document": document, "digest": digest(document)}


def _violated() -> Recording:
    run = opened()
    run.add("policy.violation", {"rule": "deny_write"})
    run.end()
    return run


def _other_run() -> Any:
    return decode_object(short(docket="DKT-20261130-9999999999").files()["receipt.json"][:-1])


# Rows: changed together with everything that is made from them, but for the one thing.
def rows(phrase: str, check: str, comment: str, change: Change, rules: str = "R-7") -> None:
    vector("receipt", phrase, "failed", check, rules=rules, comment=comment)(
        lambda: edit_bare(short(calls=3), change, sign=True)
    )


rows("row-dropped", "usage.rows", "A row is missing.", lambda r: r["usage"]["rows"].pop(1))
rows("row-doubled", "usage.rows", "A row stands twice.", lambda r: r["usage"]["rows"].insert(1, r["usage"]["rows"][0]))
rows("rows-reordered", "usage.rows", "Two rows change places.", lambda r: r["usage"]["rows"].reverse())
rows("row-moved-to-another-model", "usage.root", "A row names another model.", put("usage.rows.1.model", "m-0"))
rows("row-of-another-call", "usage.rows", "Two rows of one call.", put("usage.rows.1.call", 1))
rows("row-at-the-start", "usage.rows", "A row with the seq of the start.", put("usage.rows.0.seq", 0))
rows("row-at-the-end", "usage.rows", "A row with the seq of the end.", put("usage.rows.2.seq", 7))
rows(
    "row-cost-off-by-the-last-digit",
    "usage.rows",
    "A row's cost is off by a picodollar.",
    put("usage.rows.0.usage.cost_usd", "0.003300000001"),
    "U-3 R-7",
)
rows(
    "rows-of-another-root",
    "usage.root",
    "A quantity is changed together with its cost.",
    lambda r: r["usage"]["rows"][0].update(usage=bill(input=1001, output=20)),
)


def refigured(phrase: str, check: str, comment: str, rules: str, totals: Callable[[Any], Any]) -> None:
    """A bare receipt whose end says the same wrong totals: what a dishonest docket could sign."""

    def make() -> Files:
        run = opened(2)
        wrong = run.totals.to_json()
        totals(wrong)
        run.end(totals=wrong)
        return only(run.files(edit=lambda receipt: receipt.update(totals=wrong)), "receipt.json")

    vector("receipt", phrase, "failed", check, rules=rules, comment=comment)(make)


refigured(
    "totals-cost-too-low",
    "totals.rows",
    "The total is a picodollar less than its rows.",
    "R-7 F-1 F-3",
    put("cost_usd", "0.006599999999"),
)
refigured("totals-tokens", "totals.rows", "Tokens that the rows do not have.", "R-7 F-1", bump("tokens.output"))
refigured(
    "totals-by-source",
    "totals.rows",
    "A row counted as partial.",
    "R-7 F-1",
    put("by_source", {"none": 0, "partial": 1, "reported": 1}),
)
refigured(
    "totals-by-model-split",
    "totals.rows",
    "One model's rows under two names.",
    "R-7 F-1",
    lambda t: t["by_model"].append({"provider": "z", "upstream": "z", "model": "z", "calls": 0}),
)
refigured(
    "totals-lower-bound-for-exact",
    "totals.rows",
    "A lower bound where the rows are exact and nothing is missing.",
    "R-7 F-1",
    put("cost_is", "lower-bound"),
)
refigured("totals-fewer-calls-than-rows", "totals.bindings", "Fewer calls than rows.", "R-8", put("calls", 1))
refigured("totals-denied", "totals.bindings", "Refusals that no code accounts for.", "R-8", put("denied", 3))
refigured("totals-unmetered", "totals.rows", "Unmetered requests beside an exact cost.", "R-7 F-1", put("unmetered", 1))


@vector(
    "receipt",
    "totals-exact-though-a-row-is-partial",
    "failed",
    "totals.rows",
    rules="R-7 F-1",
    comment="Nothing estimated or cut short may be called exact.",
)
def _() -> Files:
    run = opened(1)
    run.call(bill("partial", input=3))
    wrong = run.totals.to_json() | {"cost_is": "exact"}
    run.end(totals=wrong)
    return only(run.files(edit=lambda receipt: receipt.update(totals=wrong)), "receipt.json")


@vector(
    "receipt",
    "recovered-wrong-totals",
    "failed",
    "against.totals",
    rules="B-5 F-1",
    comment="A recovered receipt without rows whose totals do not follow from the ledger.",
)
def _() -> Files:
    def change(receipt: Any) -> None:
        del receipt["usage"]["rows"]
        receipt["totals"]["errors"] = 1

    return recovered().files(kind="recovered", edit=change)


@vector(
    "receipt",
    "recovered-wrong-usage-root",
    "failed",
    "against.usage",
    rules="B-5 U-5",
    comment="A recovered receipt without rows that names another usage root.",
)
def _() -> Files:
    def change(receipt: Any) -> None:
        del receipt["usage"]["rows"]
        receipt["usage"]["root"] = "0" * 64

    return recovered().files(kind="recovered", edit=change)


@vector(
    "receipt",
    "recovered-wrong-root",
    "failed",
    "binding.root",
    rules="B-1",
    comment="A recovered receipt binds another root.",
)
def _() -> Files:
    return recovered().files(kind="recovered", edit=put("ledger.root", "0" * 64))


@vector(
    "receipt",
    "recovered-wrong-head",
    "failed",
    "binding.head",
    rules="B-1",
    comment="A recovered receipt binds another head.",
)
def _() -> Files:
    return recovered().files(kind="recovered", edit=put("ledger.head", "0" * 64))


@vector(
    "receipt",
    "gaps-beside-ledger-complete",
    "failed",
    "ops.evidence",
    rules="R-9",
    comment="Losses, and the claim that nothing was lost.",
)
def _() -> Files:
    run = opened()
    run.evidence = Evidence(gaps={"note": 1})
    run.end()
    return run.files()


# Signatures
def signed_again(
    phrase: str, check: str, comment: str, change: Change, rules: str = "R-13", *, signed: bool = True
) -> None:
    vector("receipt", phrase, "failed", check, rules=rules, comment=comment)(
        lambda: edit_bare(short(signed=signed), change)
    )


def _signature(receipt: Any, role: str, name: str, *, as_role: str | None = None) -> dict[str, str]:
    signer = key(name)
    unsigned = {member: value for member, value in receipt.items() if member != "signatures"}
    message = b"\x00".join((b"docket-receipt/1", role.encode(), encode(seal(unsigned))))
    return {"role": as_role or role, "alg": "ed25519", "key": signer.public.hex(), "value": signer.sign(message).hex()}


RUN = "DKT-20261130-0123456789 session 0"
signed_again(
    "operator-signature-stripped",
    "signature.operator",
    "The operator's signature is taken away.",
    lambda r: r["signatures"].pop(),
)
signed_again(
    "operator-signature-without-endorsement",
    "signature.operator",
    "An operator signs whose key endorsed nothing.",
    lambda r: r["signatures"].append(_signature(r, "operator", "operator")),
    signed=False,
)
signed_again(
    "operator-signature-by-another-key",
    "signature.operator",
    "Another operator signs.",
    lambda r: r["signatures"].__setitem__(1, _signature(r, "operator", "mallory")),
)
signed_again(
    "operator-signature-changed",
    "signature.operator",
    "The operator's signature is altered.",
    bump("signatures.1.value"),
)
signed_again(
    "run-signature-by-another-key",
    "signature.run",
    "Another key signs as the run.",
    lambda r: r["signatures"].__setitem__(0, _signature(r, "run", "mallory")),
)
signed_again(
    "roles-relabelled",
    "signature.run",
    "The run's key signed in the role of an operator.",
    lambda r: r["signatures"].__setitem__(0, _signature(r, "operator", RUN, as_role="run")),
)
signed_again(
    "signatures-swapped", "receipt.form", "The signatures change places.", lambda r: r["signatures"].reverse(), "R-2"
)
signed_again(
    "third-signature",
    "receipt.form",
    "Three signatures.",
    lambda r: r["signatures"].append(dict(r["signatures"][1])),
    "R-1",
)
signed_again(
    "run-signature-s-plus-l",
    "signature.run",
    "S + L.",
    lambda r: r["signatures"][0].update(
        value=r["signatures"][0]["value"][:64]
        + (int.from_bytes(bytes.fromhex(r["signatures"][0]["value"][64:]), "little") + L).to_bytes(32, "little").hex()
    ),
    "T-6",
)


@vector(
    "receipt",
    "endorsement-stripped",
    "failed",
    "starts.event",
    rules="R-3 R-12",
    comment="Endorsement and operator's signature are taken away; the start no longer gives its hash.",
)
def _() -> Files:
    def change(receipt: Any) -> None:
        del receipt["starts"][0]["event"]["data"]["endorsement"]
        receipt["signatures"].pop()

    return edit_bare(short(signed=True), change)


@vector(
    "receipt",
    "endorsement-copied-from-another-run",
    "failed",
    "endorsement",
    rules="R-12",
    comment="The endorsement of another run by the same operator.",
)
def _() -> Files:
    run = Recording(operator=OPERATOR)
    theirs = Recording(operator=OPERATOR, docket="DKT-20261130-9999999999")
    run.start(endorse=False, endorsement=theirs.start().data["endorsement"])
    run.note()
    run.end()
    return only(run.files(), "receipt.json")


# Pins
_KEY, _ROOT = short().sessions[0].key.public.hex(), short().root
for _flag, _value, _check in (
    ("--run-key", _KEY, "pin.run_key"),
    ("--root", _ROOT, "pin.root"),
    ("--operator", OPERATOR.public.hex(), "pin.operator"),
):
    _name = _flag[2:]
    for _right in (True, False):
        for _given in ("receipt.json", "ledger.jsonl"):
            _phrase = f"{'pinned' if _right else 'wrong-pin'}-{_name}-{_given.split('.')[0]}"
            _signed = _name == "operator"
            _pin = _value if _right else other(_value)
            _pin = short(signed=True).root if _right and _name == "root" and _signed else _pin
            vector(
                "pins", _phrase, ("verified" if _given == "receipt.json" else "unsealed") if _right else "failed", "" if _right else _check,
                rules="P-6", comment=f"{_flag} with {'the right' if _right else 'another'} value.", path=_given, args=(_flag, _pin),
            )(lambda signed=_signed, given=_given: only(short(signed=signed).files(), given))  # fmt: skip


@vector(
    "pins",
    "operator-pinned-nobody-endorsed",
    "failed",
    "pin.operator",
    rules="P-6",
    comment="An operator is pinned, and the run has none.",
    args=("--operator", OPERATOR.public.hex()),
)
def _() -> Files:
    return short().files()


def _limited() -> Recording:
    run = opened()
    for count in (1, 41):
        run.add(
            "x-docket.rate-limited", {"limit": "requests", "retry_after": 1, "state": {}, "count": count}, by="boundary"
        )
    run.end()
    return run


resigned(
    "resigned-limiter-events-for-calls",
    "against.activity",
    "The limiter's events are counted instead of the calls that they count.",
    put("resilience.rate_limited", 2),
    "B-5 F-5",
    bare=False,
    run=_limited,
)


# Findings
def _finding(**members: Any) -> Change:
    return put("findings", [FINDING | members])


@vector(
    "receipt",
    "accept-findings",
    "verified",
    rules="R-14",
    comment="Findings of every severity, confidence and relation.",
)
def _() -> Files:
    run = short(calls=12)
    return edit_receipt(
        run,
        put(
            "findings",
            [
                FINDING,
                FINDING | {"rule": "x-of-a-later-version", "severity": "info", "impact": {"is": "unknown"}, "more": 1},
                FINDING | {"severity": "error", "confidence": "heuristic", "impact": {"is": "at-most", "usd": "0"}},
                FINDING | {"seqs": list(range(20)), "count": 21, "impact": {"is": "at-least", "usd": "1"}},
            ],
        ),
        sign=True,
    )


for _phrase, _comment, _members in (
    ("event-beyond-the-ledger", "An event that the ledger does not have.", {"seqs": [2, 5]}),
    ("events-not-growing", "The same event twice.", {"seqs": [2, 2]}),
    ("events-out-of-order", "The later event first.", {"seqs": [3, 2]}),
    ("without-events", "A finding that rests on nothing.", {"seqs": [], "count": 0}),
    ("fewer-events-than-counted", "Three events, two listed.", {"count": 3}),
    ("more-events-than-counted", "One event, two listed.", {"count": 1}),
    ("of-more-events-than-there-are", "More events than the ledger has.", {"seqs": list(range(20)), "count": 21}),
    ("severity-unknown", "No such severity.", {"severity": "fatal"}),
    ("confidence-unknown", "No such confidence.", {"confidence": "sure"}),
    ("impact-unknown-with-a-figure", "A figure of what is not known.", {"impact": {"is": "unknown", "usd": "0"}}),
    ("impact-exact-without-a-figure", "An exact figure that is not there.", {"impact": {"is": "exact"}}),
    ("impact-below-zero", "A figure below zero.", {"impact": {"is": "exact", "usd": "-1"}}),
    ("impact-as-a-number", "A figure that is no decimal.", {"impact": {"is": "exact", "usd": 1}}),
    ("rule-without-a-name", "A rule of no name.", {"rule": ""}),
    ("remedy-as-a-list", "A remedy that is no string.", {"remedy": []}),
):  # fmt: skip
    shaped(f"finding-{_phrase}", _comment, _finding(**_members), "R-14")

for _member in sorted(FINDING):
    shaped(
        f"finding-without-{_member}",
        f"A finding without {_member}.",
        put("findings", [{name: value for name, value in FINDING.items() if name != _member}]),
        "R-14",
    )

vector(
    "receipt",
    "changed-usage-rows-0-upstream",
    "failed",
    "usage.root",
    rules="U-5 R-7",
    comment="usage.rows.0.upstream is another than was signed.",
)(lambda: edit_bare(short(), bump("usage.rows.0.upstream")))

vector(
    "receipt",
    "resigned-by-model-of-another-upstream",
    "failed",
    "totals.rows",
    rules="F-1",
    comment="The line of a model names an upstream that no row names.",
)(lambda: edit_bare(short(), _of_another_upstream))


def _of_another_upstream(receipt: Any) -> None:
    receipt["totals"]["by_model"][0]["upstream"] = "elsewhere"
    receipt["kind"], receipt["signatures"] = "recovered", []
    del receipt["end"]


for _name, _cap, _limit in (
    ("usd-raised", "usd", "50"),
    ("usd-dropped", "usd", None),
    ("tokens-made-up", "tokens", 10),
    ("calls-raised", "calls", 101),
    ("wall-made-up", "wall_us", 1_000_000),
):
    resigned(
        f"resigned-limit-{_name}",
        "caps.limits",
        "A limit that the policy document does not say.",
        drop(f"caps.{_cap}.limit") if _limit is None else put(f"caps.{_cap}.limit", _limit),
        "R-15",
    )


def _under(policy: Any, caps: Caps) -> Files:
    """A run under ``policy``, whose receipt shows ``caps``."""
    return short(policy=policy).files(caps=replace(caps, usd_booked=short().totals.cost))


for _phrase, _comment, _document, _caps in (
    (
        "limits-of-every-cap",
        "Every cap, wall time with a fraction.",
        {"caps": {"max_usd": "5", "max_tokens": 9, "max_model_calls": 100, "max_wall_seconds": "90.25"}},
        Caps(usd_limit=Usd.parse("5"), tokens_limit=9, calls_limit=100, wall_limit_us=90_250_000),
    ),
    ("limits-of-no-cap", "No cap: the table is empty.", {"caps": {}}, Caps()),
    ("limits-without-a-table", "No table of caps.", {"name": "x"}, Caps()),
    ("limits-of-a-table-that-is-none", "What is called caps is no object.", {"caps": [1]}, Caps()),
    (
        "limits-under-quota",
        "Under quota no dollars are limited.",
        {"caps": {"max_usd": "5", "max_tokens": 9}, "budget": {"mode": "quota"}},
        Caps(tokens_limit=9),
    ),
):
    vector("receipt", f"accept-{_phrase}", "verified", rules="R-15", comment=_comment)(
        lambda document=_document, caps=_caps: _under(document, caps)
    )

for _phrase, _comment, _document, _caps in (
    ("wall-by-a-microsecond", "A microsecond more.", {"caps": {"max_wall_seconds": "2"}}, Caps(wall_limit_us=2_000_001)),
    ("calls-true", "A limit that is true, which is not 1.", {"caps": {"max_model_calls": True}}, Caps(calls_limit=1)),
    ("calls-as-text", "A limit in a string.", {"caps": {"max_model_calls": "1"}}, Caps(calls_limit=1)),
    ("usd-spelled-otherwise", "Another spelling of five.", {"caps": {"max_usd": "5.0"}}, Caps(usd_limit=Usd.parse("5"))),
    ("usd-under-quota", "Dollars under quota.", {"caps": {"max_usd": "5"}, "budget": {"mode": "quota"}}, Caps(usd_limit=Usd.parse("5"))),
):  # fmt: skip
    vector("receipt", f"limit-{_phrase}", "failed", "caps.limits", rules="R-15", comment=_comment)(
        lambda document=_document, caps=_caps: _under(document, caps)
    )
