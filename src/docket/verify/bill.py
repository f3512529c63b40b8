"""Usage, totals, policy, prices and ops as a receipt shows them, without the ledger."""

from __future__ import annotations

import hashlib
from itertools import pairwise

from docket.verify import decimals, ledger_totals, usage
from docket.verify.canonical import Object, encode
from docket.verify.context import Case, Skip
from docket.verify.ledger_totals import Bill
from docket.verify.report import Violation
from docket.verify.tree import Tree

_NOT_EMBEDDED = "the rows are not embedded: needs the ledger"


def rows(case: Case) -> str:
    receipt = case.need_receipt()
    embedded = _rows(receipt)
    if len(embedded) != receipt["usage"]["size"]:
        raise Violation("receipt.usage.rows: not as many as receipt.usage.size")
    last = receipt["starts"][0]["event"]["seq"]
    calls: set[int] = set()
    for number, row in enumerate(embedded):
        path = f"receipt.usage.rows[{number}]"
        try:
            usage.check(row["usage"])
        except Violation as violation:
            raise Violation(f"{path}.{violation.detail}") from None
        if not last < row["seq"] < receipt["ledger"]["size"] - ("end" in receipt):
            raise Violation(f"{path}.seq: does not grow between the first start and the end")
        if row["call"] in calls:
            raise Violation(f"{path}.call: a call that has a row already")
        last = row["seq"]
        calls.add(row["call"])
    return f"{len(embedded)} rows"


def root(case: Case) -> str:
    receipt = case.need_receipt()
    tree = Tree()
    for row in _rows(receipt):
        tree.add(hashlib.sha256(b"\x00" + encode(row)).digest())
    if tree.root().hex() != receipt["usage"]["root"]:
        raise Violation("receipt.usage.root is not the root over receipt.usage.rows")
    return "the rows give the root"


def totals_of_rows(case: Case) -> str:
    receipt = case.need_receipt()
    bill = _bill(receipt)
    totals = receipt["totals"]
    wrong = ledger_totals.difference(totals, bill.totals(), "receipt.totals")
    if wrong:
        raise Violation(wrong)
    whole = not (totals["lost"] or totals["unmetered"]) and ledger_totals.is_whole(receipt["ops"]["evidence"])
    right = {bill.cost_is(whole)}
    if right == {"exact"} and "end" not in receipt:
        right.add("lower-bound")  # calls may be open, which rows do not show
    if totals["cost_is"] not in right:
        raise Violation(
            f"receipt.totals.cost_is is {totals['cost_is']} where the rows give {' or '.join(sorted(right))}"
        )
    return f"{bill.rows} rows give the totals"


def bindings(case: Case) -> str:
    """Figures that stand in two places of a receipt, or follow from one another."""
    receipt = case.need_receipt()
    totals, caps, size = receipt["totals"], receipt["caps"], receipt["usage"]["size"]
    resilience = receipt["resilience"]
    pairs = (
        ("totals.by_source", sum(totals["by_source"].values()), "usage.size", size),
        ("totals.by_model", sum(line["calls"] for line in totals["by_model"]), "usage.size", size),
        ("caps.usd.billed", caps["usd"].get("billed"), "totals.cost_usd", totals.get("cost_usd")),
        ("caps.tokens.billed", caps["tokens"]["billed"], "the sum of totals.tokens", sum(totals["tokens"].values())),
        ("caps.calls.booked", caps["calls"]["booked"], "totals.calls", totals["calls"]),
        ("caps.wall_us.booked", caps["wall_us"]["booked"], "session.elapsed_us", receipt["session"]["elapsed_us"]),
        ("resilience.denied_by_code", sum(resilience["denied_by_code"].values()), "totals.denied", totals["denied"]),
        (
            "network.forwarded.unmetered",
            receipt["network"]["forwarded"].get("unmetered", 0),
            "totals.unmetered",
            totals["unmetered"],
        ),
        ("session.drill", receipt["session"]["drill"], "resilience.faults_injected", resilience["faults_injected"] > 0),
        ("totals.cost_usd", "cost_usd" in totals, "totals.cost_is", totals["cost_is"] != "none"),
    )
    for left, found, right, expected in pairs:
        if found != expected:
            raise Violation(f"receipt.{left} does not agree with {right}")
    if size > totals["calls"] + totals["lost"]:
        raise Violation("receipt.usage.size is more than receipt.totals.calls")
    return "figures that stand twice agree"


def policy(case: Case) -> str:
    receipt = case.need_receipt()
    digest = hashlib.sha256(encode(receipt["policy"]["document"])).hexdigest()
    if digest != receipt["policy"]["digest"]:
        raise Violation("receipt.policy.document does not give receipt.policy.digest")
    if receipt["starts"][-1]["event"]["data"]["policy"] != digest:
        raise Violation("receipt.policy.digest is not the policy that the last start names")
    return digest


def limits(case: Case) -> str:
    """The limits of the caps are those of the policy document (R-15)."""
    receipt = case.need_receipt()
    caps, document = receipt["caps"], receipt["policy"]["document"]
    asked = document.get("caps")
    asked = asked if isinstance(asked, dict) else {}
    budget = document.get("budget")
    quota = isinstance(budget, dict) and budget.get("mode") == "quota"
    wall = caps["wall_us"].get("limit")
    pairs = (
        ("usd", caps["usd"].get("limit"), None if quota else asked.get("max_usd")),
        ("tokens", caps["tokens"].get("limit"), asked.get("max_tokens")),
        ("calls", caps["calls"].get("limit"), asked.get("max_model_calls")),
        ("wall_us", None if wall is None else decimals.spell(wall * 1_000_000), asked.get("max_wall_seconds")),
    )
    for name, found, expected in pairs:
        if found != expected or isinstance(expected, bool):
            raise Violation(f"receipt.caps.{name}.limit is not what the policy document says")
    return "the limits are the policy's"


def price_tables(case: Case) -> str:
    receipt = case.need_receipt()
    tables = [table["digest"] for table in receipt["prices"]["tables"]]
    if tables != [start["event"]["data"]["prices"] for start in receipt["starts"]]:
        raise Violation("receipt.prices.tables are not the tables that the starts name")
    return f"{len(tables)} tables"


def price_rows(case: Case) -> str:
    receipt = case.need_receipt()
    keys = price_keys(receipt)
    if any(left >= right for left, right in pairwise(keys)):
        raise Violation("receipt.prices.rows: not sorted, or one stands twice")
    used = _bill(receipt).prices
    _compare_prices(set(keys), used)
    return f"{len(keys)} prices, each used"


def evidence(case: Case) -> str:
    receipt = case.need_receipt()
    said = receipt["ops"]["evidence"]
    if said["ledger_complete"] is True:
        if said["unwritten_events"] or said["gaps"] or "first_failing_seq" in said:
            raise Violation("receipt.ops.evidence: ledger_complete beside lost events")
        if "end" not in receipt:
            raise Violation("receipt.ops.evidence: ledger_complete without an end")
    if "seq" not in receipt["session"].get("breach", {"seq": 0}) and not said["unwritten_events"]:
        raise Violation("receipt.session.breach: without its event, and no event is lost")
    return "whole" if ledger_totals.is_whole(said) else "losses are disclosed"


def price_keys(receipt: Object) -> list[tuple[object, ...]]:
    """The price rows as tuples, in the order of the receipt."""
    names = ("provider", "model", "tier", "kind", "unit_usd", "per")
    return [tuple(row[name] for name in names) for row in receipt["prices"]["rows"]]


def against_prices(case: Case) -> str:
    receipt, walk = case.need_receipt(), case.need_walk()
    _compare_prices(set(price_keys(receipt)), walk.figures.bill.prices)
    return f"{len(walk.figures.bill.prices)} prices, each used"


def _compare_prices(listed: set[tuple[object, ...]], used: set[tuple[object, ...]]) -> None:
    for missing in sorted(used - listed, key=repr)[:1]:
        raise Violation(f"receipt.prices.rows: no row for a price that was used: {' '.join(map(str, missing))}")
    for extra in sorted(listed - used, key=repr)[:1]:
        raise Violation(f"receipt.prices.rows: a row that was not used: {' '.join(map(str, extra))}")


def _rows(receipt: Object) -> list[Object]:
    embedded: list[Object] | None = receipt["usage"].get("rows")
    if embedded is None:
        raise Skip(_NOT_EMBEDDED)
    return embedded


def _bill(receipt: Object) -> Bill:
    bill = Bill()
    for row in _rows(receipt):
        cost = row["usage"].get("cost_usd")
        bill.add(row, None if cost is None else decimals.amount(cost))
    return bill
