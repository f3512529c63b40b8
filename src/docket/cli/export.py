"""``docket export``: a run as a signed statement for supply-chain tools. States nothing that does not verify."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from docket.cli import options, output
from docket.errors import UsageError

if TYPE_CHECKING:
    from docket.primitives.canonical import JsonObject


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--in-toto", "in_toto", is_flag=True, required=True, help="An in-toto Statement v1 in a DSSE envelope.")
@click.option(
    "--sign", required=True, type=click.Path(path_type=Path), help="Operator key of `docket keygen` that signs it."
)
@options.new_file
def command(run: Path, in_toto: bool, sign: Path, out: Path | None) -> None:
    """State what RUN was, for tools that gather attestations, signed by your operator key.

    Subjects are the ledger, the receipt and, where its digest is not withheld, the tree of files after the run. RUN is
    verified first; a run that fails is not exported. Only public members of the receipt are stated.
    """
    del in_toto  # the only form there is; the flag leaves room for others
    from docket.primitives.canonical import encode
    from docket.receipt.statement import envelope
    from docket.storage.keys import read_operator_key

    key = read_operator_key(sign)
    line = encode(envelope(_stated(run.resolve()), key)).decode()
    output.to_new_file(line, out)


def _stated(run: Path) -> JsonObject:
    """The statement on a run directory. Raises UsageError where it does not verify or has no receipt."""
    from docket.primitives.canonical import decode_object
    from docket.receipt.statement import statement
    from docket.storage.documents import documents_at
    from docket.storage.paths import LEDGER, RECEIPT
    from docket.verify.report import Verdict
    from docket.verify.verifier import verify

    documents = documents_at(run)
    report = verify(documents)
    if documents.receipt is None or documents.ledger is None:
        raise UsageError(f"{run} lacks its receipt or its ledger", hint="docket doctor says what can be done")
    if report.verdict in (Verdict.FAILED, Verdict.UNREADABLE):
        raise UsageError(f"{run} is not stated: {report.verdict}, {report.reason}", hint="docket verify says more")
    return statement(
        decode_object(documents.receipt.rstrip(b"\n")),
        ledger_sha256=_sha256(run / LEDGER),
        receipt_sha256=_sha256(run / RECEIPT),
        tree=_tree(run / LEDGER),
        verdict=str(report.verdict),
    )


def _sha256(path: Path) -> str:
    from docket.storage.regular import open_regular

    with os.fdopen(open_regular(path), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _tree(ledger: Path) -> str | None:
    """The digest of the watched tree after the run, where it was taken and is disclosed."""
    from docket.primitives.canonical import decode_object
    from docket.storage.regular import open_regular

    found = None
    with os.fdopen(open_regular(ledger), "rb") as stream:
        for line in stream:
            if b'"type":"fs.snapshot"' not in line:
                continue
            event = decode_object(line.rstrip(b"\n"))
            if cast("JsonObject", event["data"]).get("when") == "after":
                tree = cast("JsonObject", event.get("private", {})).get("tree")
                found = cast("str | None", tree.get("value")) if isinstance(tree, dict) else None
    return found
