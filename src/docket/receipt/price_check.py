"""A receipt's prices against the tables that it names, where these are at hand.

A receipt embeds the prices that it used and the digest of the table that they came from; that they are the table's,
only the table can show. Without it nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from docket.pricing.cost import rate_of
from docket.pricing.table import PriceTable
from docket.primitives.canonical import JsonObject


class Compared(NamedTuple):
    """What the comparison came to. ``wrong`` names the first row that its table does not have."""

    said: str
    wrong: str | None = None


NOT_COMPARED = Compared("the receipt's own, not compared")


def compare(receipt: JsonObject, tables: Mapping[str, PriceTable]) -> Compared:
    """Return how the rows of ``receipt.prices`` stand to ``tables``, which are by digest.

    Compared is only where every table that the receipt names is at hand; a row is right where one of them has it on a
    day between the first start and the receipt. ``receipt`` is one whose form was checked.
    """
    prices = cast("JsonObject", receipt["prices"])
    named = cast("list[JsonObject]", prices["tables"])
    if not named or not all(table["digest"] in tables for table in named):
        return NOT_COMPARED
    used = [tables[cast(str, table["digest"])] for table in named]
    starts = cast("list[JsonObject]", receipt["starts"])
    first = cast(str, cast("JsonObject", starts[0]["event"])["ts"])[:10]
    days = first, cast(str, receipt["created_at"])[:10]
    for number, row in enumerate(cast("list[JsonObject]", prices["rows"])):
        if not any(_has(table, row, day) for table in used for day in days):
            spelled = " ".join(str(row[name]) for name in ("provider", "model", "tier", "kind", "unit_usd"))
            return Compared("", f"prices: receipt.prices.rows[{number}], {spelled}, is not in the table that it names")
    return Compared("of " + ", ".join(sorted({f"{table.source} {table.date}" for table in used})))


def _has(table: PriceTable, row: JsonObject, day: str) -> bool:
    found = table.resolve(cast(str, row["provider"]), cast(str, row["model"]))
    rates = found.prices.on(day).get(cast(str, row["tier"])) if found is not None else None
    rate = rate_of(cast(str, row["kind"]), rates) if rates is not None else None
    return rate is not None and (str(rate.unit_usd), rate.per) == (row["unit_usd"], row["per"])
