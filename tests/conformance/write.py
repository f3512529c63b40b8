"""``make vectors``: write every vector under ``spec/vectors``, and the table of rules in the specification."""

from __future__ import annotations

import re
import shutil
import sys

from conformance.catalog import ROOT, VECTORS, catalogue
from kit.recordings import write

SPEC = ROOT / "spec" / "docket-receipt-1.md"
HEADING = "## 12. Rules and the vectors that pin them\n"


def table() -> str:
    """The last section of the specification: by rule, the vectors that name it."""
    pinned: dict[str, list[str]] = {}
    for vector in catalogue():
        for rule in vector.rules.split():
            pinned.setdefault(rule, []).append(vector.name)
    rules = re.findall(r"\*\*([A-Z]-[0-9]+)\*\*", SPEC.read_text().split(HEADING)[0])
    rows = [f"| {rule} | {', '.join(pinned[rule])} |" for rule in rules if rule in pinned]
    text = (
        "Written by `make vectors`. Rules that only bind a writer or the text of an answer have none; L-2 and\n"
        "the other large limits are held by tests that make their documents, some of more than a megabyte.\n"
    )
    return f"{HEADING}\n{text}\n| rule | vectors |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def main() -> None:
    if VECTORS.exists():
        shutil.rmtree(VECTORS)
    for vector in catalogue():
        write(vector.files(), VECTORS / vector.name)
    text = SPEC.read_text().split(HEADING)[0].rstrip("\n")
    SPEC.write_text(f"{text}\n\n{table()}")
    sys.stdout.write(f"{len(catalogue())} vectors\n")


if __name__ == "__main__":
    main()
