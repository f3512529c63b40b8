"""``docket ls``: the runs of a docket directory, read from their receipts. Trusts nothing and checks nothing."""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
import orjson

from docket.cli import options, output
from docket.errors import DocketError
from docket.storage.lock import holder_of
from docket.storage.paths import LEDGER, RECEIPT, RunDirectory, runs_in

MAX_LISTED_RECEIPT = 16 * 2**20
"""A receipt is at most 16 MiB (evidence format P-1)."""


@click.command("ls")
@options.docket_dir
@options.as_json
@click.option("--outcome", metavar="WORD", help="Only runs with this outcome: completed, failed, breached, ...")
@click.option("--label", metavar="TEXT", help="Only runs with this label.")
@click.option("--model", metavar="NAME", help="Only runs that used this model; * and ? stand for anything.")
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Only runs begun on this UTC day or later."
)
def command(
    docket_dir: Path, as_json: bool, outcome: str | None, label: str | None, model: str | None, since: datetime | None
) -> None:
    """List runs, oldest first: what each did and cost according to its receipt, unverified."""
    day = since.strftime("%Y%m%d") if since is not None else ""
    rows = [
        row
        for row in map(describe, (path for path in runs_in(docket_dir) if path.name[4:12] >= day))
        if (outcome is None or row["outcome"] == outcome)
        and (label is None or row["label"] == label)
        and (model is None or any(fnmatchcase(used, model) for used in row["models"]))
    ]
    if as_json:
        output.document(rows)
    elif rows:
        names = ("docket", "created_at", "outcome", "record", "calls", "cost_usd", "label")
        output.table(
            [name.removesuffix("_usd") for name in names], [[_cell(row[name]) for name in names] for row in rows]
        )
    else:
        output.remark(f"no runs in {docket_dir}")


def describe(path: Path) -> dict[str, Any]:
    """One run as a row: from its receipt, or from what can be told without one."""
    row: dict[str, Any] = {"docket": path.name, "path": str(path), "outcome": "unknown", "label": None, "models": []}
    row |= dict.fromkeys(("record", "created_at", "calls", "denied", "cost_usd", "cost_is", "elapsed_us"))
    try:
        run = RunDirectory.open(path)
    except DocketError:
        return row | {"outcome": "unreadable"}
    try:
        receipt = run.read(RECEIPT)
        if receipt is not None:
            return row | _from_receipt(receipt)
        if not (path / LEDGER).exists():
            return row | {"outcome": "empty"}
        return row | {"outcome": "running" if holder_of(run) else "no receipt"}
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
