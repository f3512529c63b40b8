"""``docket report``: a run for people, from its receipt, or from its ledger where it has none yet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import options, output
from docket.errors import FormatError
from docket.storage.paths import RECEIPT

if TYPE_CHECKING:
    from docket.primitives.canonical import JsonObject


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the receipt itself as indented JSON.")
@click.option("--markdown", is_flag=True, help="Markdown, for a pull request or a job summary.")
@options.docket_dir
def command(docket_dir: Path, path: Path, as_json: bool, markdown: bool) -> None:
    """Show the receipt at PATH: a run directory (also .docket/latest), a docket number, or a receipt.json.

    With the ledger beside it, what acted on the calls is shown with its times. A run without a receipt, because it goes
    on or because it died, is told from its ledger. Shows what the documents say; `docket verify` says whether to
    believe them.
    """
    where = _directory(docket_dir, path)
    receipt = None if where is not None and not (where / RECEIPT).exists() else _receipt(where or path)
    if as_json:
        if receipt is None:
            raise FormatError(
                f"{path} has no receipt", hint="docket watch --json prints the events of a run without one"
            )
        output.document(receipt)
        return
    lines = _from_ledger(where) if receipt is None and where is not None else _from_receipt(receipt or {}, where)
    for line in _as_markdown(lines) if markdown else lines:
        output.result(output.one_line(line))


def _directory(docket_dir: Path, path: Path) -> Path | None:
    """The run directory that ``path`` means, or None where it names a document by itself."""
    from docket.storage.paths import LEDGER, find_run

    if path.is_dir() and ((path / LEDGER).exists() or (path / RECEIPT).exists()):
        return path
    if path.exists() and not path.is_dir():
        return None
    return find_run(docket_dir, path)


def _receipt(path: Path) -> JsonObject:
    from docket.primitives.canonical import decode_object
    from docket.storage.documents import documents_at
    from docket.verify import canonical, receipt_shape
    from docket.verify.report import Violation

    data = documents_at(path).receipt
    if data is None:
        raise FormatError(f"{path} has no receipt", hint="docket verify says what a ledger alone shows")
    receipt = decode_object(data.removesuffix(b"\n"))
    try:
        receipt_shape.check(canonical.seal(receipt), [])
    except Violation as violation:
        raise FormatError(f"{path}: {violation.detail}", hint="docket verify names the first failing check") from None
    return receipt


def _from_receipt(receipt: JsonObject, where: Path | None) -> list[str]:
    from docket.receipt.report import lines

    acted = _acted(where) if where is not None else []
    return [*lines(receipt), *(["", "What acted:", *acted] if acted else [])]


def _acted(where: Path) -> list[str]:
    """What acted on the calls of the run, by its ledger; nothing where that is not at hand or cannot be read."""
    from docket.errors import LedgerError
    from docket.receipt.actions import Actions
    from docket.storage.paths import RunDirectory
    from docket.storage.reader import read_ledger

    actions = Actions()
    run = RunDirectory.open(where)
    try:
        read_ledger(run, actions.add)
    except LedgerError:
        return []
    except FormatError as error:
        return [*actions.lines(), f"  the rest of the ledger could not be read: {error}"]
    finally:
        run.close()
    return list(actions.lines())


def _from_ledger(where: Path) -> list[str]:
    """A run without a receipt, from what its ledger holds, and that this is so."""
    from docket.clock import SystemClock
    from docket.watch.lines import summary
    from docket.watch.tail import LedgerTail
    from docket.watch.view import View

    tail, view = LedgerTail(where, SystemClock()), View()
    try:
        while lines := tail.read(view.cursor):
            view.feed(lines)
        live = tail.live
    finally:
        tail.close()
    why = "the run goes on" if live else "the run died, or was never sealed: docket doctor says what can be done"
    acted = _acted(where)
    return [
        f"no receipt: {why}. What follows is what its ledger holds so far, vouched for by nobody.",
        "",
        *summary(view, live=live),
        *(["", "What acted:", *acted] if acted else []),
    ]


def _as_markdown(lines: list[str]) -> list[str]:
    """The same lines in a fenced block, which no text of a run can leave."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]
