"""The bill of one call: shape and exact arithmetic (spec section 6). No rounding anywhere."""

from __future__ import annotations

from typing import Any

from docket.verify import decimals, shapes
from docket.verify.canonical import Object
from docket.verify.report import Violation
from docket.verify.shapes import NAME

MAX_QUANTITY = 10**9
MAX_ITEMS = 64
MAX_NAMED = 16
_kinds: set[str] = set()
"""Kinds found good before; bounded by ``_MAX_KINDS``."""
_MAX_KINDS = 1024
_SERVED = ("model", "tier")
SOURCES = ("none", "partial", "reported")


def check(usage: Any) -> int | None:
    """The cost that ``usage`` rightly claims, in 1e-12 USD; None if it rightly claims none.

    Raises Violation where it is wrong.
    """
    if type(usage) is not dict:
        raise Violation("usage: not an object")
    source = usage.get("source")
    if type(source) is not str or source not in SOURCES:
        raise Violation("usage.source: not reported, partial or none")
    total = _sum(usage.get("items"), "usage.items")
    if source == "none":
        if usage["items"]:
            raise Violation("usage.items: source none has items")
        total = None
    _check_cost(usage, total, "usage")
    if "inconsistent" in usage and usage["inconsistent"] is not True:
        raise Violation("usage.inconsistent: not true")
    if "estimate" in usage:
        _check_estimate(usage["estimate"], source)
    _check_caveats(usage, source)
    return total


def row_of(event: Object) -> Object:
    """The row of a metered event: the leaf of the usage tree."""
    data = event["data"]
    return {
        "call": data["call"],
        "model": data["model"],
        "provider": data["provider"],
        "seq": event["seq"],
        "tier": data["tier"],
        "upstream": data["upstream"],
        "usage": data["usage"],
    }


def _check_caveats(usage: Object, source: str) -> None:
    for name in ("unread", "assumed"):
        if name in usage:
            named = usage[name]
            if type(named) is not list or not 1 <= len(named) <= MAX_NAMED:
                raise Violation(f"usage.{name}: not a list of 1 to {MAX_NAMED}")
            if not all(type(each) is str and NAME.fullmatch(each) for each in named):
                raise Violation(f"usage.{name}: not a list of names")
    if source == "reported" and "unread" in usage:
        raise Violation("usage.unread: beside a reported figure")
    if "stated_usd" in usage:
        shapes.amount(usage["stated_usd"], "usage.stated_usd", [])


def _check_estimate(estimate: Any, source: str) -> None:
    if source == "reported":
        raise Violation("usage.estimate: beside a reported figure")
    if type(estimate) is not dict or type(estimate.get("method")) is not str:
        raise Violation("usage.estimate: not an object with a method")
    _check_cost(estimate, _sum(estimate.get("items"), "usage.estimate.items"), "usage.estimate")


def _check_cost(bill: Object, total: int | None, path: str) -> None:
    cost = bill.get("cost_usd")
    if total is None:
        if "cost_usd" in bill:
            raise Violation(f"{path}.cost_usd: a cost where there is none to sum")
        return
    if type(cost) is not str:
        raise Violation(f"{path}.cost_usd: missing, or not a decimal string")
    if cost != decimals.spell(total) or total >= decimals.LIMIT:  # a decimal has one spelling (C-8)
        raise Violation(f"{path}.cost_usd: {cost} where the items come to {decimals.spell(total)}")


def _sum(items: Any, path: str) -> int | None:
    """The exact cost of ``items`` in 1e-12 USD, None where one has no price."""
    if type(items) is not list or len(items) > MAX_ITEMS:
        raise Violation(f"{path}: not a list of at most {MAX_ITEMS}")
    total, priced = 0, True
    for item in items:
        if type(item) is not dict:
            raise Violation(f"{path}: an item is not an object")
        kind, quantity, unit, per = item.get("kind"), item.get("quantity"), item.get("unit_usd"), item.get("per")
        if type(kind) is not str or (kind not in _kinds and not _is_kind(kind)):
            raise Violation(f"{path}: an item without a kind")
        if type(quantity) is not int or not 0 <= quantity <= MAX_QUANTITY:
            raise Violation(f"{path}: the quantity of {kind} is not a whole number up to 10^9")
        if type(unit) is str and type(per) is int and (per == 1_000_000 or per == 1):
            total += decimals.rate(unit, per) * quantity
        elif "unit_usd" in item or "per" in item:
            raise Violation(f"{path}: {kind} has no whole price (unit_usd, and per 1 or 1000000)")
        else:
            priced = False
        for name in _SERVED:
            if name in item and type(item[name]) is not str:
                raise Violation(f"{path}: the {name} of {kind} is not a string")
    return total if priced else None


def _is_kind(kind: str) -> bool:
    good = NAME.fullmatch(kind) is not None
    if good and len(_kinds) < _MAX_KINDS:
        _kinds.add(kind)
    return good
