"""``docket ls``: the runs of a docket directory, read from their receipts. Trusts nothing and checks nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
import orjson

from docket.cli import options, output
from docket.errors import DocketError, FormatError
from docket.storage.lock import holder_of
from docket.storage.paths import LEDGER, RECEIPT, RunDirectory, runs_in

MAX_LISTED_RECEIPT = 16 * 2**20
"""A receipt is at most 16 MiB (evidence format P-1)."""


SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "age": lambda row: 0,
    "cost": lambda row: _pico(row["cost_usd"]),
    "calls": lambda row: _of(int, row["calls"]),
    "elapsed": lambda row: _of(int, row["elapsed_us"]),
    "outcome": lambda row: _of(str, row["outcome"]),
    "label": lambda row: _of(str, row["label"]),
}
"""What runs can be sorted by. They are listed oldest first; a sort keeps that order among equals."""
_SINCE = re.compile(r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})|(?P<days>[0-9]{1,5})d")


@click.command("ls")
@options.docket_dir
@options.as_json
@click.option("--outcome", metavar="WORD", help="Only runs with this outcome: completed, failed, breached, ...")
@click.option("--label", metavar="TEXT", help="Only runs with this label.")
@click.option("--model", metavar="NAME", help="Only runs that used this model; * and ? stand for anything.")
@click.option("--since", metavar="DAY", help="Only runs begun on this UTC day (YYYY-MM-DD) or later; 7d: of 7 days.")
@click.option("--sort", type=click.Choice(list(SORTS)), default="age", show_default=True, help="Least first.")
@click.option("--reverse", is_flag=True, help="The other way round.")
def command(
    docket_dir: Path,
    as_json: bool,
    outcome: str | None,
    label: str | None,
    model: str | None,
    since: str | None,
    sort: str,
    reverse: bool,
) -> None:
    """List runs, oldest first, with a line of sums: what each did and cost according to its receipt, unverified.

    In --json, state is live while a docket holds the run, ended once it has its receipt, dead where it has none.
    """
    day = "" if since is None else _first_day(since)
    rows = [
        row
        for row in map(describe, (path for path in runs_in(docket_dir) if path.name[4:12] >= day))
        if (outcome is None or row["outcome"] == outcome)
        and (label is None or row["label"] == label)
        and (model is None or any(fnmatchcase(used, model) for used in row["models"]))
    ]
    rows = _sorted(rows, sort, reverse)
    if as_json:
        output.document(rows)
    elif rows:
        names = ("docket", "created_at", "outcome", "record", "calls", "cost_usd", "label")
        output.table(
            [name.removesuffix("_usd") for name in names], [[_cell(row[name]) for name in names] for row in rows]
        )
        output.result(_sums(rows))
    else:
        output.remark(f"no runs in {docket_dir}")


def _first_day(since: str) -> str:
    """The first day that counts, as docket numbers spell it. Raises UsageError."""
    from datetime import date, timedelta

    from docket.clock import SystemClock
    from docket.errors import UsageError
    from docket.primitives.instant import timestamp

    found = _SINCE.fullmatch(since)
    try:
        if found is not None and found["day"]:
            return date.fromisoformat(since).strftime("%Y%m%d")
        if found is not None:
            today = date.fromisoformat(timestamp(SystemClock().unix_us())[:10])
            return (today - timedelta(days=int(found["days"]))).strftime("%Y%m%d")
    except (ValueError, OverflowError):
        pass
    raise UsageError(f"--since {since}: neither a day nor a number of days", hint="for example 2026-11-30, or 7d")


def _sorted(rows: list[dict[str, Any]], sort: str, reverse: bool) -> list[dict[str, Any]]:
    """Sort ``rows``; those of which it is not known stand last in either direction."""
    key = SORTS[sort]
    known = [row for row in rows if key(row) is not None]
    if sort == "age":
        return known[::-1] if reverse else known
    return sorted(known, key=key, reverse=reverse) + [row for row in rows if key(row) is None]


def _sums(rows: list[dict[str, Any]]) -> str:
    """What the listed runs come to; what no receipt says is not counted as nothing, but named."""
    from docket.primitives.money import spelled

    costs = [_pico(row["cost_usd"]) for row in rows]
    known = [pico for pico in costs if pico is not None]
    exact = len(known) == len(rows) and all(row["cost_is"] == "exact" for row in rows)
    calls = sum(row["calls"] for row in rows if isinstance(row["calls"], int))
    runs = "1 run" if len(rows) == 1 else f"{len(rows):,} runs"
    above = any(row["cost_is"] == "approximate" for row in rows)
    word = "" if exact else "about " if above else "at least "
    said = f"{runs}, {calls:,} calls, {word}{spelled(sum(known))} USD"
    missing = len(rows) - len(known)
    return said + (f"; the cost of {missing:,} is not known" if missing else "")


def _of(kind: type, value: object) -> Any:
    """``value`` where it is what a receipt has there, else None: receipts are not checked here."""
    return value if type(value) is kind else None


def _pico(cost: object) -> int | None:
    from docket.primitives.money import Usd

    try:
        return Usd.parse(cost).pico if isinstance(cost, str) else None
    except FormatError:
        return None


def describe(path: Path) -> dict[str, Any]:
    """One run as a row: from its receipt, or from what can be told without one."""
    row: dict[str, Any] = {"docket": path.name, "path": str(path), "outcome": "unknown", "label": None, "models": []}
    row |= dict.fromkeys(("record", "created_at", "calls", "denied", "cost_usd", "cost_is", "elapsed_us"))
    row["state"] = "unknown"
    try:
        run = RunDirectory.open(path)
    except DocketError:
        return row | {"outcome": "unreadable"}
    try:
        receipt = run.read(RECEIPT)
        if receipt is not None:  # whoever continues a run first puts its receipt under another name
            row["state"] = "ended"
            return row | _from_receipt(receipt)
        held = holder_of(run) is not None
        row["state"] = "live" if held else "dead"
        if not (path / LEDGER).exists():
            return row | {"outcome": "empty"}
        return row | {"outcome": "running" if held else "no receipt"}
    except DocketError:
        return row | {"outcome": "unreadable"}
    finally:
        run.close()


def _from_receipt(data: bytes) -> dict[str, Any]:
    try:
        receipt = orjson.loads(data)
        session, totals = receipt["session"], receipt["totals"]
        label = session.get("private", {}).get("label", {}).get("value")
        return {
            "created_at": receipt["created_at"],
            "outcome": session["outcome"],
            "record": _record(receipt["ops"]["evidence"]),
            "elapsed_us": session["elapsed_us"],
            "calls": totals["calls"],
            "denied": totals["denied"],
            "cost_usd": totals.get("cost_usd"),
            "cost_is": totals["cost_is"],
            "label": label,
            "models": sorted({used["model"] for used in totals["by_model"]}),
        }
    except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError):
        return {"outcome": "unreadable"}


def _record(evidence: dict[str, Any]) -> str:
    """Say in a word how whole the record is, as its receipt states it."""
    if evidence["intact"] is not True:
        return "changed"
    return "whole" if evidence["ledger_complete"] is True else "incomplete"


def _cell(value: object) -> str:
    return "" if value is None else str(value)
