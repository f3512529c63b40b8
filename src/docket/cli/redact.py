"""``docket redact``: a copy of a run with values withheld, which verifies like the original."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import output
from docket.errors import UsageError

CATEGORIES = ("paths", "argv", "hosts", "notes", "bodies")
"""As in docket.receipt.redaction, which this module must not import for its help."""


@click.command("redact")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--withhold", metavar="KIND,...", default=",".join(CATEGORIES), show_default=True, help="What to withhold."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new directory to write.")
def command(run: Path, withhold: str, out: Path) -> None:
    """Copy RUN to a new directory with private values withheld.

    Hashes, root, signatures and verdict stay the same, and `docket verify` lists what was withheld. Kept bodies go with
    the copy unless bodies are withheld, a snapshot unless paths or bodies are. RUN itself is not touched.
    """
    from docket.receipt.redaction import Withholding
    from docket.storage.shared_copy import redact

    chosen = [kind for kind in withhold.split(",") if kind]
    for kind in chosen:
        if kind not in CATEGORIES:
            raise UsageError(f"--withhold {kind}: not one of {', '.join(CATEGORIES)}")
    if not chosen:
        raise UsageError("--withhold names nothing", hint=f"choose from {','.join(CATEGORIES)}")
    withholding = Withholding(chosen)
    bodies = "bodies" not in chosen
    redact(run, out, withholding, bodies=bodies, snapshot=bodies and "paths" not in chosen)
    output.remark(f"docket: {withholding.count} values withheld; docket verify {out} lists them")
