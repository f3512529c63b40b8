"""Everything that a command prints. Results go to stdout, everything else to stderr.

Invariant: nothing that an agent or a provider chose reaches the terminal as a control character.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from docket.cli import standard_streams
from docket.errors import UsageError
from docket.primitives.printable import REPLACEMENT, ascii_json, one_line, printable, printable_json

__all__ = [
    "cell",
    "document",
    "failure",
    "json_lines",
    "json_text",
    "one_line",
    "printable",
    "remark",
    "result",
    "table",
    "to_new_file",
]

_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_CELL = 60
"""Characters of a table cell; more hides the columns after it."""


def result(text: str) -> None:
    """Print what was asked for, to stdout."""
    click.echo(printable(text))


def remark(text: str) -> None:
    """Print what a person should know, to stderr; where nobody can read that, the command goes on."""
    with suppress(OSError):
        click.echo(printable(text), err=True)


def document(value: Any) -> None:
    """Print ``value`` as indented JSON to stdout, for scripts."""
    import orjson  # not needed by `--help` and `--version`, which must start at once

    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    try:
        data = orjson.dumps(value, option=options)
    except TypeError:  # a name of a file that is no UTF-8
        data = orjson.dumps(_unicode(value), option=options)
    json_text(data)


def _unicode(value: Any) -> Any:
    """``value`` with U+FFFD for each half of a character, by which Python stands for bytes that are no text."""
    if isinstance(value, str):
        return _SURROGATE.sub(REPLACEMENT, value)
    if isinstance(value, dict):
        return {_unicode(name): _unicode(inner) for name, inner in value.items()}
    return [_unicode(inner) for inner in value] if isinstance(value, list | tuple) else value


def json_text(data: bytes) -> None:
    """Print the JSON text ``data`` to stdout, with hidden characters escaped, and all that its encoding may lack."""
    text = printable_json(data.decode())
    click.echo(text if standard_streams.is_utf8(sys.stdout) else ascii_json(text))


def json_lines(texts: Iterable[bytes]) -> None:
    """Print JSON texts to stdout, one a line, with hidden characters escaped."""
    click.echo(b"".join(map(_json_line, texts)), nl=False)


def _json_line(data: bytes) -> bytes:
    """Return the JSON text ``data`` as a line for stdout, with hidden characters escaped."""
    return data + b"\n" if data.isascii() and b"\x7f" not in data else printable_json(data.decode()).encode() + b"\n"


def to_new_file(line: str, path: Path | None) -> None:
    """Write ``line`` to the file ``path``, which must be new, or to stdout: byte for byte where no terminal reads it.

    Raises UsageError.
    """
    if path is None:
        click.echo(printable(line) if sys.stdout.isatty() else line.encode())
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name a file that is new") from error


def failure(message: str, hint: str | None = None) -> None:
    """Print an error and the way out, to stderr."""
    remark(f"docket: {message}")
    if hint:
        remark(f"        {hint}")


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


def _is_number(text: str) -> bool:
    return text.lstrip("$-").replace(".", "", 1).replace(",", "").isdigit()
