"""``docket verify``: check a run directory, a receipt or a ledger, and say what that shows."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import exit_codes, output
from docket.errors import FormatError, UsageError

if TYPE_CHECKING:
    from docket.pricing.table import PriceTable
    from docket.verify.context import Pins
    from docket.verify.report import Report

ACCEPTABLE = ("incomplete", "recovered", "unsealed", "unfinished")
"""Verdicts of exit status 3, which ``--accept`` may turn into 0."""
_HEX = re.compile(r"[0-9a-f]{64}")

EPILOG = """\b
Exit status:
  0  verified     complete, sealed, every check passed (or --accept names the verdict)
  1  failed       a check failed; the first one names the cause
  2  unreadable   not these documents, or a wrong call
  3  incomplete, recovered, unsealed, unfinished: consistent, but not whole

\b
Without a pin, `verified` means consistent, not authentic: `docket run` prints the run key before the agent starts and
the root after the last process ended; an operator key vouches across runs.
  docket verify .docket/latest
  docket verify --run-key HEX --root HEX .docket/latest
  docket verify --operator HEX receipt.json
"""


@click.command("verify", epilog=EPILOG)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print verdict and every check as JSON.")
@click.option("--verbose", "-v", is_flag=True, help="List every check, with the reason of each skip.")
@click.option(
    "--batch", is_flag=True, help="Read paths from stdin, print one JSON line each; exit 0 when all are answered."
)
@click.option("--run-key", metavar="HEX", help="The run key that docket run printed.")
@click.option("--root", metavar="HEX", help="The ledger root that docket run printed.")
@click.option("--operator", metavar="HEX", help="The operator's public key.")
@click.option(
    "--prices",
    "tables",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A price table to compare the receipt's prices with, beside the built-in one. Repeatable.",
)
@click.option("--accept", metavar="VERDICT,...", default="", help="Verdicts of exit status 3 to take as 0.")
def command(
    path: Path | None,
    as_json: bool,
    verbose: bool,
    batch: bool,
    run_key: str | None,
    root: str | None,
    operator: str | None,
    tables: tuple[Path, ...],
    accept: str,
) -> int:
    """Check PATH: a run directory (also .docket/latest), its archive, a receipt.json or a ledger.jsonl."""
    from docket.verify.context import Pins

    accepted = _accepted(accept)
    pins = Pins(run_key=_hex(run_key, "--run-key"), root=_hex(root, "--root"), operator=_hex(operator, "--operator"))
    if batch:
        if path is not None:
            raise UsageError("--batch reads paths from stdin; none is given as an argument")
        for line in sys.stdin:
            _answer_line(line.rstrip("\n"), pins)
        return exit_codes.OK
    if path is None:
        raise UsageError("no path given", hint="docket verify .docket/latest")
    report = _report(path, pins, tables)
    if as_json:
        output.document(report.to_json())
    else:
        _print(report, path, verbose)
    return exit_codes.OK if str(report.verdict) in accepted else report.verdict.exit_code


def _accepted(names: str) -> frozenset[str]:
    given = frozenset(name for name in names.split(",") if name)
    for name in given - set(ACCEPTABLE):
        raise UsageError(f"--accept {name}: not one of {', '.join(ACCEPTABLE)}")
    return given


def _hex(value: str | None, flag: str) -> str | None:
    if value is not None and not _HEX.fullmatch(value):
        raise UsageError(f"{flag}: not 64 lower-case hex characters")
    return value


def _report(path: Path, pins: Pins, tables: tuple[Path, ...] = ()) -> Report:
    from docket.storage.documents import documents_at
    from docket.verify.verifier import unreadable, verify

    try:
        documents = documents_at(path)
        report = verify(documents, pins)
    except FormatError as error:
        return unreadable(str(error))
    if documents.receipt is not None and report.verdict.exit_code in (0, 3):
        _compare_prices(documents.receipt, report, tables)
    return report


def _compare_prices(receipt: bytes, report: Report, files: tuple[Path, ...]) -> None:
    """Hold the prices of ``receipt``, which is consistent, against the tables at hand, and put that into ``report``."""
    from docket.primitives.canonical import decode_object
    from docket.receipt.price_check import compare
    from docket.verify.report import Verdict

    document = decode_object(receipt.removesuffix(b"\n"))
    compared = compare(document, _tables(str(document["created_at"])[:10], files))
    if compared.wrong is not None:
        report.verdict, report.reason = Verdict.FAILED, compared.wrong
    else:
        report.facts["prices"] = compared.said


@lru_cache(maxsize=8)
def _tables(at: str, files: tuple[Path, ...]) -> dict[str, PriceTable]:
    """The built-in table and those of ``files`` by digest, as in force on the day ``at``; read once for a batch."""
    from docket.storage.price_file import read_prices

    return {table.digest(): table for table in (read_prices(path, at) for path in (None, *files))}


def _answer_line(name: str, pins: Pins) -> None:
    from docket.primitives.canonical import encode

    output.json_text(encode({"path": name, **_report(Path(name), pins).to_json()}))


def _print(report: Report, path: Path, verbose: bool) -> None:
    facts = report.facts
    output.result(f"{report.verdict}: {output.one_line(report.reason)}")
    if facts:
        output.result(f"  run       {facts['docket']}, {facts['size']} events")
        output.result(f"  root      {facts['root']}" + (" (pinned)" if report.root_pinned else ""))
        output.result(f"  run key   {facts['run_key']}")
    if facts.get("cost_is"):
        cost = "unknown" if facts["cost_is"] == "none" else f"{facts['cost_usd']} USD ({facts['cost_is']})"
        output.result(f"  cost      {cost}")
    if "outcome" in facts:
        sessions = f" over {facts['sessions']} sessions" if facts["sessions"] != 1 else ""
        output.result(f"  outcome   {facts['outcome']}{sessions}")
    if "prices" in facts:
        output.result(f"  prices    {facts['prices']}")
    if facts:
        output.result(f"  vouched   {_vouched(report)}")
    if report.withheld:
        names = ", ".join(f"{name} ({number})" for name, number in sorted(report.withheld.items()))
        output.result(f"  withheld  {output.one_line(names)}")
    if report.unknown:
        output.result(f"  not understood  {output.one_line(', '.join(report.unknown))}")
    for remark in report.remarks:
        output.result(f"  note      {output.one_line(remark)}")
    if verbose:
        output.table(("check", "status", "detail"), [(f.check, str(f.status), f.detail) for f in report.findings])
    elif skipped := [f for f in report.findings if f.status == "skip" and f.detail == "needs the ledger"]:
        output.result(f"  skipped   {len(skipped)} checks need the ledger (--verbose lists them)")
    if report.verdict.exit_code == exit_codes.USAGE:
        output.remark(f"docket: nothing at {output.one_line(str(path))} could be verified")


def _vouched(report: Report) -> str:
    said = [
        f"by the {'pinned ' if voucher.pinned else ''}{voucher.role} key"
        + (f" {voucher.key}" if voucher.role == "operator" else "")
        for voucher in report.vouchers
    ]
    if not said:
        said.append("by nobody")
    if not report.root_pinned and not any(voucher.pinned for voucher in report.vouchers):
        said.append("nothing was pinned: consistent, not authentic")
    return "; ".join(said)
