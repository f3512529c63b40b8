"""Everything that a command prints. Results go to stdout, everything else to stderr.

Invariant: nothing that an agent or a provider chose reaches the terminal as a control character.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from docket.errors import UsageError

MAX_CELL = 60
"""Characters of a table cell; more hides the columns after it."""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder text or show nothing."""


def result(text: str) -> None:
    """Print what was asked for, to stdout."""
    click.echo(text)


def remark(text: str) -> None:
    """Print what a person should know, to stderr."""
    click.echo(text, err=True)


def document(value: Any) -> None:
    """Print ``value`` as indented JSON to stdout, for scripts."""
    import orjson  # not needed by `--help` and `--version`, which must start at once

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode())


def to_new_file(line: str, path: Path | None) -> None:
    """Write ``line`` to the file ``path``, which must be new, or to stdout. Raises UsageError."""
    if path is None:
        result(line)
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name a file that is new") from error


def failure(message: str, hint: str | None = None) -> None:
    """Print an error and the way out, to stderr."""
    click.echo(f"docket: {printable(message)}", err=True)
    if hint:
        click.echo(f"        {printable(hint)}", err=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows`` in aligned columns under ``head``; columns of numbers are aligned to the right."""
    cells = [list(head)] + [[cell(text) for text in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    right = [
        bool(rows) and all(_is_number(row[column]) for row in cells[1:] if row[column]) for column in range(len(head))
    ]
    for row in cells:
        padded = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def cell(text: str) -> str:
    """``text`` on one line of at most MAX_CELL characters."""
    shown = printable(text.replace("\n", " "))
    return shown if len(shown) <= MAX_CELL else shown[: MAX_CELL - 1] + "…"


def one_line(text: str) -> str:
    """As ``printable``, with line feeds replaced too: what an agent chose must not look like a line of docket's."""
    return printable(text.replace("\n", "�"))


def printable(text: str) -> str:
    """``text`` with every character that is not plain text replaced by U+FFFD; line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("�" if unicodedata.category(c) in _HIDDEN and c != "\n" else c for c in text)


def _is_number(text: str) -> bool:
    return text.lstrip("$-").replace(".", "", 1).replace(",", "").isdigit()
