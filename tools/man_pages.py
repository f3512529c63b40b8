"""Man pages, made from the commands' own help. Use: ``make man`` writes them to ``build/man``.

A page says what ``docket COMMAND --help`` says; sections and escapes are those of man(7).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import click

from docket import __version__
from docket.cli.main import COMMANDS, EPILOG, TASKS, docket


def pages() -> dict[str, str]:
    """Return every page by its file name: one for ``docket``, one for each command and subcommand."""
    context = click.Context(docket, info_name="docket")
    found = {"docket.1": _page("docket", docket, context, "supervise an AI agent, and keep a record of it")}
    for name, (module, line) in COMMANDS.items():
        command: click.Command = importlib.import_module(module).command
        inner = click.Context(command, info_name=name, parent=context)
        found[f"docket-{name}.1"] = _page(f"docket-{name}", command, inner, line)
        for sub, subcommand in getattr(command, "commands", {}).items():
            innermost = click.Context(subcommand, info_name=sub, parent=inner)
            found[f"docket-{name}-{sub}.1"] = _page(
                f"docket-{name}-{sub}", subcommand, innermost, subcommand.get_short_help_str(200)
            )
    return found


def _page(title: str, command: click.Command, context: click.Context, line: str) -> str:
    lines = [
        f'.TH "{title.upper()}" "1" "" "docket {__version__}" "docket"',
        ".SH NAME",
        _plain(f"{title} - {line[0].lower()}{line[1:].rstrip('.')}"),
        ".SH SYNOPSIS",
        f".B {_plain(context.command_path)}",
        _plain(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(inspect.cleandoc(command.help or "")),
    ]
    options = [record for record in (item.get_help_record(context) for item in command.get_params(context)) if record]
    if options:
        lines.append(".SH OPTIONS")
        for flags, text in options:
            lines += [".TP", f".B {_plain(flags)}", _plain(text)]
    if command is docket:
        lines.append(".SH COMMANDS")
        for task, rows in TASKS.items():
            lines.append(f'.SS "{task}"')
            for name, (_, said) in rows.items():
                lines += [".TP", f".B {_plain(f'docket-{name}(1)')}", _plain(said)]
        lines += [".SH EXAMPLES AND EXIT STATUS", *_paragraphs(inspect.cleandoc(EPILOG))]
    else:
        lines += [".SH SEE ALSO", _plain("docket(1)")]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a command's help; one that begins with a backspace keeps its lines, as click has it."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        kept = paragraph.startswith("\b")
        body = [line for line in paragraph.removeprefix("\b").splitlines() if line.strip()]
        lines += [".nf", *map(_plain, body), ".fi"] if kept else [".PP", *(_plain(line.strip()) for line in body)]
    return lines


def _plain(text: str) -> str:
    """Return ``text`` with what troff would interpret escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{text}" if text.startswith(".") else text


def main() -> None:
    """Write every page into a directory, ``build/man`` unless another is named."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "build/man")
    target.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (target / name).write_text(text)
    print(f"{len(pages())} pages in {target}")


if __name__ == "__main__":
    main()
