"""``docket tail``: the last events of a run, one a line, and those that follow."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import exit_codes, options, output
from docket.cli.ledger import directory

if TYPE_CHECKING:
    from docket.watch.tail import LedgerTail, Line

LOOK_SECONDS = 0.25
"""How often the run is looked at."""


@click.command("tail")
@options.docket_dir
@click.argument("run", type=click.Path(path_type=Path), metavar="[RUN]", default=Path("latest"))
@click.option("-f", "--follow", is_flag=True, help="Go on with what is recorded later, until the run ends or Ctrl-C.")
@click.option("-n", "--events", type=click.IntRange(min=0), default=10, show_default=True, help="Events to begin with.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON, as it stands.")
def command(docket_dir: Path, run: Path, follow: bool, events: int, as_json: bool) -> int:
    """Print the last events of RUN (a directory, a docket number or latest), one a line.

    Only durable events, whole ones: of a run that goes on, those that its last checkpoint covers (at most two seconds
    behind); afterwards every line but a torn one. docket show RUN SEQ shows one of them with every member.
    """
    from docket.clock import SystemClock
    from docket.errors import LedgerError
    from docket.watch.tail import START, LedgerTail

    tail, wait = LedgerTail(directory(docket_dir, run), SystemClock()), threading.Event()
    cursor, gone = max(START, tail.last - events), False
    try:
        while True:
            cursor = _print(tail, cursor, as_json)
            if not follow or not tail.live:
                break
            wait.wait(LOOK_SECONDS)
            try:
                tail.refresh()
                gone = False
            except LedgerError as error:
                if gone:
                    raise
                gone = True  # a directory on a network may be away for a moment
                output.remark(f"docket: {error}; looking once more")
    except KeyboardInterrupt:
        pass
    finally:
        tail.close()
    return exit_codes.OK


def _print(tail: LedgerTail, cursor: int, as_json: bool) -> int:
    """Print every durable event behind ``cursor``, and return the new one."""
    while lines := tail.read(cursor):
        if as_json:
            output.json_lines(line.content for line in lines)
        else:
            output.result("\n".join(output.one_line(_said(line)) for line in lines))
        cursor = lines[-1].seq
    sys.stdout.flush()
    return cursor


def _said(line: Line) -> str:
    import orjson

    from docket.watch import event

    try:
        return event.line(orjson.loads(line.content))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError):
        return f"{line.seq:>6}  no event: docket verify says what happened"
