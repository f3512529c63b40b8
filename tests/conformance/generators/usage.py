"""Bills: shapes, exact arithmetic, and the figures that follow from them."""

from __future__ import annotations

from typing import Any

from conformance.catalog import vector
from conformance.scene import ledger_of
from kit.recordings import Files, Recording, bill


def begun() -> Recording:
    run = Recording()
    run.start()
    run.note()
    return run


def item(kind: str = "input", quantity: Any = 1000, unit: Any = "3", per: Any = 1_000_000) -> dict[str, Any]:
    return {"kind": kind, "quantity": quantity, "unit_usd": unit, "per": per}


def one(usage: Any) -> Files:
    """A ledger with one call of this bill; nothing is folded, so that it may be wrong."""
    run = begun()
    run.fold = False
    run.call(usage)
    return ledger_of(run)


def priced(*items: dict[str, Any], cost: str, **more: Any) -> dict[str, Any]:
    return {"source": "reported", "items": list(items), "cost_usd": cost, **more}


for _phrase, _usage, _rules, _comment in (
    ("cost-off-by-the-last-digit", priced(item(quantity=1, unit="0.000001"), cost="0.000000000002"), "U-3", "One picodollar too much."),
    ("cost-rounded", priced(item(quantity=1, unit="0.123456"), cost="0.000000123"), "U-3", "Rounded to nine digits."),
    ("cost-missing", {"source": "reported", "items": [item()]}, "U-3", "Every item has a price, and there is no cost."),
    ("cost-missing-for-no-items", {"source": "reported", "items": []}, "U-3", "No items cost 0, not nothing."),
    ("cost-of-unpriced", priced({"kind": "input", "quantity": 1}, cost="0"), "U-3", "A cost where an item has no price."),
    ("cost-beside-none", {"source": "none", "items": [], "cost_usd": "0"}, "U-3", "Unknown is never 0."),
    ("items-beside-none", {"source": "none", "items": [item()]}, "U-2", "Source none with items."),
    ("cost-negative", priced(item(quantity=0), cost="-0.1"), "U-3 C-8", "A negative cost."),
    ("cost-with-trailing-zero", priced(item(), cost="0.0030"), "C-8", "Another spelling of the right cost."),
    ("cost-with-exponent", priced(item(), cost="3e-3"), "C-8", "An exponent in a decimal."),
    ("cost-without-leading-zero", priced(item(), cost=".003"), "C-8", "No digit before the point."),
    ("cost-as-number", priced(item(quantity=1_000_000, unit="3"), cost="3") | {"cost_usd": 3}, "C-8", "A number where a decimal string belongs."),
    ("cost-with-line-feed", priced(item(), cost="0.003\n"), "C-8", "A line feed after the decimal; some anchors match before it."),
    ("cost-other-digits", priced(item(quantity=1_000_000, unit="3"), cost="３"), "C-8", "A digit beyond ASCII."),
    ("source-unknown", {"source": "estimated", "items": []}, "U-2", "No such source."),
    ("source-missing", {"items": []}, "U-2", "No source."),
    ("items-missing", {"source": "none"}, "U-2", "No items."),
    ("quantity-negative", priced(item(quantity=-1), cost="-0.000003"), "U-2", "A negative quantity."),
    ("quantity-above-limit", priced(item(quantity=1_000_000_001), cost="3000.000003"), "U-2", "One above 10^9."),
    ("quantity-true", priced(item(quantity=True), cost="0.000003"), "U-2", "true is no number."),
    ("quantity-string", priced(item(quantity="1"), cost="0.000003"), "U-2", "A string as quantity."),
    ("price-with-seven-digits", priced(item(quantity=1_000_000, unit="0.0000001"), cost="0.0000001"), "U-2 C-8", "A price with seven fractional digits."),
    ("price-negative", priced(item(quantity=0, unit="-3"), cost="0"), "U-2 C-8", "A negative price."),
    ("price-without-per", priced({"kind": "input", "quantity": 0, "unit_usd": "3"}, cost="0"), "U-2", "Half a price."),
    ("per-without-price", priced({"kind": "input", "quantity": 0, "per": 1}, cost="0"), "U-2", "The other half."),
    ("per-thousand", priced(item(per=1000), cost="3"), "U-2", "per is 1 or 1000000."),
    ("per-true", priced(item(quantity=1, per=True), cost="3"), "U-2", "true is not 1."),
    ("kind-empty", priced(item(kind="", quantity=0), cost="0"), "U-2", "No kind."),
    ("kind-beyond-ascii", priced(item(kind="entrée", quantity=0), cost="0"), "U-2", "A kind becomes a member name in totals."),
    ("kind-of-65", priced(item(kind="k" * 65, quantity=0), cost="0"), "U-2", "One character too many."),
    ("items-65", priced(*[item(quantity=0)] * 65, cost="0"), "U-2", "One item too many."),
    ("estimate-beside-reported", priced(item(), cost="0.003", estimate={"items": [], "method": "x", "cost_usd": "0"}), "U-4", "An estimate beside a reported figure."),
    ("estimate-without-method", {"source": "none", "items": [], "estimate": {"items": [], "cost_usd": "0"}}, "U-4", "No method."),
    ("estimate-cost-wrong", {"source": "none", "items": [], "estimate": {"items": [item()], "method": "bytes", "cost_usd": "0.004"}}, "U-4", "The estimate does not add up."),
    ("inconsistent-false", priced(item(), cost="0.003", inconsistent=False), "U-4", "It is true or absent."),
):  # fmt: skip

    def _make(usage: Any = _usage) -> Files:
        return one(usage)

    vector("usage", _phrase, "failed", "ledger.usage", rules=_rules, comment=_comment)(_make)


@vector(
    "usage",
    "accept-every-source",
    "verified",
    rules="U-2 U-3 U-4 F-1",
    comment="Reported, partial and none, with and without estimates, inconsistent, unpriced, fees, a kind twice, exact to the picodollar.",
)
def _() -> Files:
    run = begun()
    run.call(bill(input=3, cache_read=12_304, cache_write_5m=1, output=7, web_search=2))
    run.call(
        priced(item(quantity=1, unit="0.000001"), item(quantity=999_999_999, unit="0.123456"), cost="123.455999876545")
    )
    run.call(priced(item(quantity=1), item(quantity=2), cost="0.000009", inconsistent=True))
    run.call(bill("partial", input=12, output=4), error="truncated")
    run.call(
        bill("partial", input=12)
        | {"estimate": {"items": [item("output", 50, "15")], "method": "bytes", "cost_usd": "0.00075"}}
    )
    run.call({"source": "none", "items": []}, error="client-gone")
    run.call(
        {"source": "none", "items": [], "estimate": {"items": [{"kind": "output", "quantity": 9}], "method": "hold"}},
        error="lost",
    )
    run.call(
        {"source": "reported", "items": [{"kind": "input", "quantity": 5}, item("output", 1, "15")]}, model="free-model"
    )
    run.call({"source": "reported", "items": [], "cost_usd": "0", "future": {"x": 1}})
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-nothing-was-called",
    "verified",
    rules="T-1 U-5 F-1",
    comment="A run without a call: an empty usage tree, and an exact cost of 0.",
)
def _() -> Files:
    run = begun()
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-cost-none",
    "verified",
    rules="F-1",
    comment="Rows, and none has a cost: cost_is none, no cost_usd.",
)
def _() -> Files:
    run = begun()
    run.call({"source": "none", "items": []})
    run.call(bill(model_priced=False, input=5))
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-unmetered-makes-a-lower-bound",
    "verified",
    rules="F-1 F-5",
    comment="A request that the provider bills and docket does not meter.",
)
def _() -> Files:
    run = begun()
    run.call()
    for kind in ("free", "unmetered", "unknown", "unmetered"):
        run.add(
            "x-docket.forwarded",
            {"upstream": "main", "method": "GET", "endpoint": "/v1/files", "endpoint_class": kind},
            by="boundary",
        )
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-models-beyond-ascii",
    "verified",
    rules="C-7 F-1",
    comment="Models sorted by code point: U+FF5E stands before an astral character, unlike in UTF-16.",
)
def _() -> Files:
    run = begun()
    for model in ("😀", "～", "é", "Z", "a", "𐀀", "\ue000"):
        run.call(model=model)
    run.end()
    return run.files()


@vector("usage", "accept-kinds-beyond-64", "verified", rules="F-1", comment="Kinds after the first 64 count as other.")
def _() -> Files:
    run = begun()
    run.call(
        {"source": "reported", "items": [{"kind": f"kind-{number:02}", "quantity": number} for number in range(40)]}
    )
    run.call(
        {
            "source": "reported",
            "items": [{"kind": f"kind-{number:02}", "quantity": number} for number in range(70, 30, -1)],
        }
    )
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-models-beyond-256",
    "verified",
    rules="F-1",
    comment="Models after the first 256 count as other.",
)
def _() -> Files:
    run = begun()
    for number in range(1, 260):
        run.add("model.request", {"call": number}, by="boundary")
        data = {
            "call": number,
            "provider": "p",
            "model": f"m{number}",
            "tier": "t",
            "upstream": "u",
            "reason": "complete",
        }
        run.add("model.response", data | {"usage": {"source": "reported", "items": [], "cost_usd": "0"}}, by="boundary")
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-latency-of-every-length",
    "verified",
    rules="F-4",
    comment="Samples of 1 to 16 digits, cut to three; and answers without one.",
)
def _() -> Files:
    run = begun()
    for digits in range(17):
        sample = int("8765432198765432"[:digits] or "0")
        run.call(bill(input=1), duration_us=sample, first_byte_us=sample // 2)
    run.request()
    run.add(
        "model.response",
        {"call": 18, "provider": "p", "model": "m", "tier": "t", "upstream": "u", "reason": "complete"},
        by="boundary",
    )
    run.end()
    return run.files()


@vector(
    "usage", "accept-every-kind-of-activity", "verified", rules="F-5", comment="One of every event that is counted."
)
def _() -> Files:
    run = begun()
    for kind in ("open", "half-open", "closed", "open"):
        run.add(
            f"x-docket.breaker-{kind}",
            {"upstream": "main", "reason": "status", "failures": 3, "cooldown_us": 1},
            by="boundary",
        )
    for count in (1, 41):
        run.add(
            "x-docket.rate-limited", {"limit": "requests", "retry_after": 1, "state": {}, "count": count}, by="boundary"
        )
    run.add("x-docket.clock-step", {"step_us": -5})
    run.add("x-docket.unauthorized", {"count": 4}, by="boundary")
    run.add("x-docket.unauthorized", {"count": 1}, by="boundary")
    run.add("net.allowed", {})
    run.add("net.denied", {})
    run.add("tool.call", {}, by="agent", private={"name": "search"})
    run.add("tool.result", {}, by="agent", private={"text": "found"})
    run.add("policy.violation", {"rule": "deny_write"})
    run.add("fs.snapshot", {"when": "before", "files": 3, "bytes": 9, "root_sha256": "0" * 64, "stored": True})
    for change in ("created", "modified", "created", "deleted"):
        run.add("fs.change", {"change": change}, private={"path": f"src/{change}.py"})
    run.add("proc.orphan", {"pid": 77, "ended": "terminated"}, private={"command": "sleep"})
    run.add("cap.warning", {"cap": "max_usd", "limit": "5", "observed": "4.1"})
    run.add("cap.exceeded", {"cap": "max_usd", "limit": "5", "observed": "5.2"})
    run.add("cap.exceeded", {"cap": "max_tokens", "limit": "10", "observed": "11"})
    for code in ("max_usd", "model_denied", "max_usd"):
        run.add("model.denied", {"code": code, "final": True, "count": 2}, by="boundary")
    run.outcome = "breached"
    run.end()
    return run.files()


@vector(
    "usage",
    "drill-said",
    "verified",
    rules="F-5 R-8",
    comment="A fault was injected on purpose, and the receipt says so.",
)
def _() -> Files:
    return drill().files()


def drill() -> Recording:
    run = begun()
    run.add("x-docket.fault-injected", {"fault": "reset"}, by="boundary")
    run.call(bill("partial", input=5), error="reset")
    run.end()
    return run


@vector(
    "usage",
    "drill-unsaid",
    "failed",
    "totals.bindings",
    rules="R-8 F-5",
    comment="A fault was injected, and the receipt, signed so, does not say drill.",
)
def _() -> Files:
    return drill().files(edit=lambda receipt: receipt["session"].update(drill=False))


@vector(
    "usage",
    "drill-unsaid-twice",
    "failed",
    "against.activity",
    rules="B-5 F-5",
    comment="Neither drill nor the count of injected faults is said.",
)
def _() -> Files:
    def change(receipt: Any) -> None:
        receipt["session"].update(drill=False)
        receipt["resilience"].update(faults_injected=0)

    return drill().files(edit=change)


@vector("usage", "survivors", "incomplete", rules="F-5 P-7", comment="A process that SIGKILL did not end.")
def _() -> Files:
    run = begun()
    run.call()
    run.add("proc.orphan", {"pid": 99, "ended": "survived"})
    run.end()
    return run.files()


for _phrase2, _change in (
    ("end-totals-calls", lambda totals: totals.update(calls=2)),
    ("end-totals-cost", lambda totals: totals.update(cost_usd="0.0034")),
    ("end-totals-exact", lambda totals: totals.update(cost_is="lower-bound")),
    ("end-totals-member-missing", lambda totals: totals.pop("denied")),
):

    def _ended(change: Any = _change) -> Files:
        run = begun()
        run.call()
        totals = run.totals.to_json()
        change(totals)
        run.end(totals=totals)
        return run.files()

    vector(
        "usage",
        _phrase2,
        "failed",
        "ledger.end",
        rules="L-11 F-1",
        comment="session.end says another figure than its events give.",
    )(_ended)


@vector(
    "usage", "end-usage-tree", "failed", "ledger.end", rules="L-11 U-5", comment="session.end names another usage root."
)
def _() -> Files:
    run = begun()
    run.call()
    run.end(usage_tree={"size": 1, "root": "0" * 64})
    return run.files()


@vector(
    "usage",
    "end-with-cost-where-there-is-none",
    "failed",
    "ledger.end",
    rules="L-11 F-1",
    comment="A cost of 0 where no row has one.",
)
def _() -> Files:
    run = begun()
    run.call({"source": "none", "items": []})
    run.end(totals=run.totals.to_json() | {"cost_usd": "0"})
    return run.files()


@vector(
    "usage",
    "denials-pass-the-largest-integer",
    "failed",
    "ledger.usage",
    rules="F-1",
    comment="The sum of refusals passes 2^53-1.",
)
def _() -> Files:
    run = begun()
    for code in ("a", "b"):
        run.add("model.denied", {"code": code, "count": 2**53 - 1}, by="boundary")
    return ledger_of(run)


for _phrase, _usage, _rules, _comment in (
    ("item-model-a-number", priced(item() | {"model": 1}, cost="0.003"), "U-2", "The model of an item is a string."),
    ("item-tier-null", priced(item() | {"tier": None}, cost="0.003"), "U-2", "The tier of an item is a string, or absent."),
    ("unread-beside-reported", priced(item(), cost="0.003", unread=["new_fee"]), "U-6", "A figure that is not all of the bill is no final one."),
    ("unread-empty", {"source": "none", "items": [], "unread": []}, "U-6", "A list of nothing."),
    ("unread-17", {"source": "none", "items": [], "unread": [f"n{i}" for i in range(17)]}, "U-6", "One name too many."),
    ("unread-no-name", {"source": "none", "items": [], "unread": [""]}, "U-6", "An empty name."),
    ("unread-a-string", {"source": "none", "items": [], "unread": "fee"}, "U-6", "A string where a list belongs."),
    ("assumed-empty", priced(item(), cost="0.003", assumed=[]), "U-6", "A list of nothing."),
    ("assumed-a-number", priced(item(), cost="0.003", assumed=[1]), "U-6", "A number where a name belongs."),
    ("stated-negative", priced(item(), cost="0.003", stated_usd="-1"), "U-6 C-8", "A negative amount."),
    ("stated-number", priced(item(), cost="0.003", stated_usd=1), "U-6 C-8", "A number where an amount belongs."),
):  # fmt: skip

    def _caveat(usage: Any = _usage) -> Files:
        return one(usage)

    vector("usage", _phrase, "failed", "ledger.usage", rules=_rules, comment=_comment)(_caveat)


@vector(
    "usage",
    "accept-several-models-in-one-call",
    "verified",
    rules="U-2 U-6 F-1 F-6",
    comment="Items of three models and two tiers in one row: each has its own prices, and by_model follows the items.",
)
def _() -> Files:
    run = begun()
    run.call(
        priced(
            item(quantity=500),
            item(quantity=500, unit="6") | {"model": "second"},
            item("output", 40, "15") | {"model": "second", "tier": "priority"},
            item("output", 10, "1") | {"tier": "flex"},
            cost="0.00511",
        )
    )
    run.call(priced(item(quantity=0) | {"model": "third"}, cost="0", stated_usd="0.0042"))
    run.call({"source": "partial", "items": [item() | {"model": "fourth"}, {"kind": "new", "quantity": 1}]})
    run.call({"source": "partial", "items": [item()], "cost_usd": "0.003", "unread": ["tool_usage.image_gen.tokens"]})
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-approximate",
    "verified",
    rules="U-6 F-1",
    comment="A breakdown that was assumed, in a call that has a cost: the sum is neither exact nor a lower bound.",
)
def _() -> Files:
    run = begun()
    run.call(priced(item(), cost="0.003", assumed=["cached_tokens_details"]))
    run.call({"source": "none", "items": []})
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-assumed-without-a-cost",
    "verified",
    rules="U-6 F-1",
    comment="A breakdown that was assumed where no cost rests on it.",
)
def _() -> Files:
    run = begun()
    run.call({"source": "partial", "items": [{"kind": "input", "quantity": 5}], "assumed": ["details"]})
    run.call(bill(input=3))
    run.end()
    return run.files()


@vector(
    "usage",
    "accept-two-upstreams-of-one-provider",
    "verified",
    rules="F-1 U-5",
    comment="One model of one provider behind two upstreams: a line for each, in order of the upstreams.",
)
def _() -> Files:
    run = begun()
    for number, upstream in enumerate(("gateway", "direct", "gateway"), 1):
        run.add("model.request", {"call": number}, by="boundary")
        data = {"call": number, "provider": "p", "model": "m", "tier": "t", "upstream": upstream, "reason": "complete"}
        usage = {"source": "reported", "items": [item("input", 10, "2")], "cost_usd": "0.00002"}
        run.add("model.response", data | {"usage": usage}, by="boundary")
    run.end()
    return run.files()


@vector("usage", "accept-shared-budgets-and-retries", "verified", rules="L-9", comment="Leases, refusals, a retry.")
def _() -> Files:
    run = begun()
    run.add("x-docket.budget-leased", {"budgets": ["team"], "source": "store", "usd": "0.5", "calls": 8})
    run.call({"source": "none", "items": []})
    again = {"call": 1, "upstream": "main", "attempt": 2, "reason": "status", "status": 503, "wait_us": 1_000_000}
    run.add("x-docket.retry-scheduled", again, by="boundary")
    run.call(bill(input=3))
    run.add("x-docket.budget-refused", {"away": False, "final": False, "budget": "team", "limit": "1", "used": "1"})
    run.add("x-docket.budget-returned", {"settled": True, "usd": "0.4", "tokens": 0, "calls": 6})
    run.end()
    return run.files()
