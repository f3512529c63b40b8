"""``docket report``: a run for people, from its receipt, or from its ledger where it has none yet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import options, output
from docket.errors import FormatError, UsageError
from docket.storage.paths import CHECKPOINTS, LEDGER, RECEIPT

if TYPE_CHECKING:
    from docket.primitives.canonical import JsonObject


MAX_HELD = 8 << 20
"""Bytes of a ledger that an HTML report holds: what a mail and a browser take; a longer one is verified by itself."""


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The receipt itself as indented JSON; else the ledger's figures.")
@click.option("--markdown", is_flag=True, help="Markdown, for a pull request or a job summary.")
@click.option("--html", is_flag=True, help="One HTML file with the documents and a verifier over them, for an auditor.")
@options.new_file
@options.docket_dir
def command(docket_dir: Path, path: Path, as_json: bool, markdown: bool, html: bool, out: Path | None) -> None:
    """Show the receipt at PATH: a run directory (also .docket/latest), a docket number, or a receipt.json.

    With the ledger beside it, what acted on the calls is shown with its times. A run without a receipt, because it goes
    on or because it died, is told from its ledger. Shows what the documents say; `docket verify` says whether to
    believe them.

    The HTML file needs nothing but a browser, asks no server, and holds receipt, checkpoints and ledger with every
    private value that they disclose: docket redact makes a copy to hand over without them.
    """
    if as_json + markdown + html > 1:
        raise UsageError("--json, --markdown and --html exclude one another", hint="name one of them")
    if out is not None and not html:
        raise UsageError("--out is for --html", hint="other forms go to stdout")
    where = _directory(docket_dir, path)
    receipt = None if where is not None and not (where / RECEIPT).exists() else _receipt(where or path)
    if as_json:
        if receipt is None and where is not None:
            output.document(_without_receipt(docket_dir, where))
            return
        output.document(receipt)
        return
    documents, without = _documents(where or path) if html else ({}, [])
    lines = _from_ledger(where) if receipt is None and where is not None else _from_receipt(receipt or {}, where)
    lines = [output.one_line(line) for line in lines]
    if html:
        title = f"docket report: {where.resolve().name if where is not None else path.name}"
        output.to_new_file(_page(output.one_line(title), lines, documents, without), out)
        return
    for line in _as_markdown(lines) if markdown else lines:
        output.result(line)


def _page(title: str, lines: list[str], documents: dict[str, bytes], without: list[str]) -> str:
    from importlib.resources import files

    from docket.receipt.page import page, verifier_of

    verifier = (files("docket.watch") / "static/verifier/index.html").read_text(encoding="utf-8")
    made = page(title=title, lines=lines, documents=documents, without=without, verifier=verifier_of(verifier))
    return made.removesuffix("\n")


def _documents(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """What the page holds of the run, and what it does not: notes first, so that none is ahead of the events."""
    from docket.storage.documents import documents_at

    documents = documents_at(path)
    held, without = {}, []
    if documents.receipt is not None:
        held[RECEIPT] = documents.receipt
    if documents.ledger is not None:
        notes = _whole(documents.checkpoints or ())
        ledger = _whole(documents.ledger) if notes is not None else None
        if notes is not None and ledger is not None:
            held |= {CHECKPOINTS: notes, LEDGER: ledger}
        else:
            name = "ledger is" if notes is not None else "checkpoints are"
            without.append(
                f"The {name} longer than {MAX_HELD >> 20} MiB, and the ledger is not in this page: only the receipt is."
            )
    else:
        without.append("The ledger is not in this page: only the receipt is verified.")
    return held, without


def _whole(parts: Iterable[bytes]) -> bytes | None:
    """All of ``parts``, or None where they are longer than a page holds."""
    found, length = [], 0
    for part in parts:
        found.append(part)
        length += len(part)
        if length > MAX_HELD:
            return None
    return b"".join(found)


def _directory(docket_dir: Path, path: Path) -> Path | None:
    """The run directory that ``path`` means, or None where it names a document by itself."""
    from docket.storage.paths import find_run

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
        *(["", "Findings:", *found] if (found := _found(where)) else []),
        *(["", "What acted:", *acted] if acted else []),
    ]


def _without_receipt(docket_dir: Path, where: Path) -> dict[str, Any]:
    """The figures of a run without a receipt, by its ledger; `format` says that this is none."""
    from docket.cli.ledger import walk
    from docket.receipt.difference import Profile

    profile = Profile()
    walked = walk(docket_dir, where, profile.add)
    return {
        "format": "no receipt", "vouched": "nobody", "run": where.resolve().name, "state": walked.state,
        "events": walked.events, "problem": walked.problem, **profile.to_json(),
    }  # fmt: skip


def _found(where: Path) -> list[str]:
    """What the rules find in the ledger of a run without a receipt, a line each."""
    from docket.cli.ledger import walk
    from docket.findings.fold import Findings
    from docket.receipt.report import finding_line

    found = Findings()
    walk(where.parent, where, found.add)
    return [finding_line(finding.to_json()) for finding in found.found()]


def _as_markdown(lines: list[str]) -> list[str]:
    """The same lines in a fenced block, which no text of a run can leave."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]
