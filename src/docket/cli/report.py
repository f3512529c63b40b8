"""``docket report``: a receipt for people."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import output
from docket.errors import FormatError


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the receipt itself as indented JSON.")
def command(path: Path, as_json: bool) -> None:
    """Show the receipt at PATH: a run directory (also .docket/latest) or a receipt.json.

    Shows what the document says; `docket verify` says whether to believe it.
    """
    from docket.primitives.canonical import decode_object
    from docket.receipt.report import lines
    from docket.storage.documents import documents_at
    from docket.verify import canonical, receipt_shape
    from docket.verify.report import Violation

    data = documents_at(path).receipt
    if data is None:
        raise FormatError(f"{path} has no receipt", hint="docket verify says what a ledger alone shows")
    receipt = decode_object(data.removesuffix(b"\n"))
    try:
        receipt_shape.check(canonical.seal(receipt), [])
    except Violation as violation:
        raise FormatError(f"{path}: {violation.detail}", hint="docket verify names the first failing check") from None
    if as_json:
        output.document(receipt)
        return
    for line in lines(receipt):
        output.result(output.one_line(line))
