"""``docket show``: one event of a run, as it stands in the ledger."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import options, output
from docket.cli.ledger import directory
from docket.errors import FormatError, UsageError


@click.command("show")
@options.docket_dir
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("seq", type=click.IntRange(min=0), metavar="SEQ")
@options.as_json
def command(docket_dir: Path, run: Path, seq: int, as_json: bool) -> None:
    """Show event SEQ of RUN: a directory, a docket number, latest, an archive or a ledger.

    The numbers are those that docket explain, tail and report name. Shown is what stands there; docket prove writes an
    event with its proof, and docket verify says whether to believe the record.
    """
    import orjson

    content = _in_file(run, seq) if run.is_file() else _in_run(docket_dir, run, seq)
    try:
        event = orjson.loads(content)
        lines = [] if as_json else list(_details(event))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"line {seq} of {run} is no event", hint="docket verify says what happened") from error
    if as_json:
        output.document(event)
    for line in lines:
        output.result(output.one_line(line))


def _details(event: object) -> list[str]:
    from docket.watch.event import details

    if not isinstance(event, dict):
        raise TypeError("no object")
    return list(details(event))


def _in_run(docket_dir: Path, run: Path, seq: int) -> bytes:
    from docket.clock import SystemClock
    from docket.watch.tail import LedgerTail

    tail = LedgerTail(directory(docket_dir, run), SystemClock())
    try:
        line = tail.line(seq)
        if line is None:
            raise UsageError(f"{run} has no event {seq}", hint=_bounds(tail.last, tail.live))
        return line.content
    finally:
        tail.close()


def _in_file(path: Path, seq: int) -> bytes:
    """The line ``seq`` of an archive or of a ledger by itself, which is read up to there."""
    from docket.ledger.chain import MAX_LINE
    from docket.storage.documents import documents_at

    ledger = documents_at(path).ledger
    if ledger is None:
        raise FormatError(f"{path} has no ledger", hint="docket report shows a receipt")
    at, rest = 0, b""
    for part in ledger:
        *lines, rest = (rest + part).split(b"\n")
        if seq < at + len(lines):
            return lines[seq - at]
        at += len(lines)
        if len(rest) > MAX_LINE:
            raise FormatError(f"line {at} of {path} is no event", hint="docket verify says what happened")
    raise UsageError(f"{path} has no event {seq}", hint=_bounds(at - 1, live=False))


def _bounds(last: int, live: bool) -> str:
    if last < 0:
        return "there is no durable event yet"
    return f"events go from 0 to {last}" + (", and the run goes on" if live else "")
