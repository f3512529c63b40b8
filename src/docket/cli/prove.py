"""``docket prove``: one event with its inclusion proof, to be handed over by itself."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import options, output


@click.command("prove")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--seq", required=True, type=click.IntRange(min=0), help="The event, by its seq in the ledger.")
@click.option("--withhold", metavar="KIND,...", default="", help="Private values to withhold, as in docket redact.")
@options.new_file
def command(run: Path, seq: int, withhold: str, out: Path | None) -> None:
    """Write event SEQ of RUN with its inclusion proof and the signed checkpoint.

    The result is one file that says nothing of any other event; `docket verify FILE` accepts it.
    """
    from docket.cli.redact import CATEGORIES
    from docket.errors import UsageError
    from docket.primitives.canonical import encode
    from docket.receipt.redaction import Withholding
    from docket.storage.shared_copy import prove

    chosen = [kind for kind in withhold.split(",") if kind]
    for kind in chosen:
        if kind not in CATEGORIES:
            raise UsageError(f"--withhold {kind}: not one of {', '.join(CATEGORIES)}")
    line = encode(Withholding(chosen).apply(prove(run.resolve(), seq))).decode()
    output.to_new_file(line, out)
