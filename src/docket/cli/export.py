"""``docket export``: a run as a signed statement for supply-chain tools. States nothing that does not verify."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
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
    from docket.verify.report import Verdict
    from docket.verify.verifier import verify

    documents = documents_at(run)
    if documents.receipt is None or documents.ledger is None:
        raise UsageError(f"{run} lacks its receipt or its ledger", hint="docket doctor says what can be done")
    ledger = _Ledger(documents.ledger)
    report = verify(replace(documents, ledger=ledger))
    if report.verdict in (Verdict.FAILED, Verdict.UNREADABLE):
        raise UsageError(f"{run} is not stated: {report.verdict}, {report.reason}", hint="docket verify says more")
    return statement(
        decode_object(documents.receipt.rstrip(b"\n")),
        ledger_sha256=ledger.sha256(),
        receipt_sha256=hashlib.sha256(documents.receipt).hexdigest(),
        tree=ledger.tree,
        verdict=str(report.verdict),
    )


class _Ledger:
    """The bytes of a ledger while they are verified: what is stated of them is stated of the same bytes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._digest = hashlib.sha256()
        self._rest = b""
        self.tree: str | None = None
        """The digest of the watched tree after the run, where it was taken and is disclosed."""

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._digest.update(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                if b'"type":"fs.snapshot"' in line:
                    self._look(line)
            yield chunk

    def sha256(self) -> str:
        """The digest of all of it; what verification did not need is read now."""
        for _ in self:
            pass
        return self._digest.hexdigest()

    def _look(self, line: bytes) -> None:
        from docket.errors import FormatError
        from docket.primitives.canonical import decode_object

        with suppress(FormatError):  # what is no event fails verification by itself
            event = decode_object(line)
            if cast("JsonObject", event["data"]).get("when") == "after":
                tree = cast("JsonObject", event.get("private", {})).get("tree")
                self.tree = cast("str | None", tree.get("value")) if isinstance(tree, dict) else None
