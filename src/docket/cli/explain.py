"""``docket explain``: what in a run cost money for little, or must not have happened, by rules over its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import exit_codes, options, output
from docket.errors import FormatError, UsageError

if TYPE_CHECKING:
    from docket.findings.fold import Findings

SEVERITIES = ("info", "warning", "error")


@click.command("explain")
@options.docket_dir
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
@options.as_json
@click.option("--rule", "rules", multiple=True, metavar="NAME", help="Only this rule; may be given more than once.")
@click.option("--threshold", "settings", multiple=True, metavar="NAME=NUMBER", help="Another threshold for this look.")
@click.option("--thresholds", "table", is_flag=True, help="Print every threshold, its value and what it counts.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    help="Exit with 1 where a finding is of this severity or a graver one, for CI.",
)
def command(
    docket_dir: Path,
    runs: tuple[Path, ...],
    as_json: bool,
    rules: tuple[str, ...],
    settings: tuple[str, ...],
    table: bool,
    fail_on: str | None,
) -> int:
    """Say what in each RUN cost money for little, or must not have happened, and what would help.

    RUN is a run directory, a docket number, latest (the default), an archive or a ledger. A finding names its rule and
    severity (info, warning, error), the events that it rests on, and what it cost: a figure that is exact or a bound,
    or unknown. deterministic: the events show it by themselves. heuristic: it looks like it, and you have to judge.
    What a rule could not see is said too. docket show RUN SEQ shows an event.

    \b
    docket explain                                      the newest run
    docket explain --rule cache-miss .docket/runs/*     one rule over every run
    docket explain --threshold runaway-loop.repeats=3   look closer
    docket explain --fail-on warning                    a gate in CI: exit status 1
    """
    from docket.findings.fold import NAMES, Findings
    from docket.findings.thresholds import with_settings

    values = with_settings(settings)
    unknown = sorted(set(rules) - set(NAMES))
    if unknown:
        raise UsageError(f"no rule {unknown[0]!r}", hint=f"the rules are {', '.join(NAMES)}")
    if table:
        _thresholds(values, as_json)
        return exit_codes.OK
    told, worst = [], -1
    for run in runs or (Path("latest"),):
        read = _read(docket_dir, run, Findings(values, rules or NAMES))
        if as_json:
            told.append(_document(read))
        else:
            _tell(read)
        worst = max([worst, *(SEVERITIES.index(finding.severity) for finding in read.found.found())])
    if as_json:
        output.document(told)
    return exit_codes.FAILED if fail_on is not None and worst >= SEVERITIES.index(fail_on) else exit_codes.OK


@dataclass(frozen=True, slots=True)
class _Read:
    """A run, as far as its ledger could be read."""

    run: str
    found: Findings
    events: int
    live: bool
    problem: str | None
    """Why the ledger was not read to its end, if it was not."""


def _read(docket_dir: Path, run: Path, found: Findings) -> _Read:
    """Fold the ledger of ``run`` into ``found``. Raises UsageError, FormatError where there is none."""
    from docket.ledger.scan import Scanner
    from docket.storage.documents import documents_at
    from docket.storage.paths import find_run

    where = run if run.is_file() else find_run(docket_dir, run)
    live = where.is_dir() and _goes_on(where)
    ledger = documents_at(where).ledger
    if ledger is None:
        raise FormatError(f"{run} has no ledger", hint="docket report --json shows the findings that a receipt holds")
    scanner, events, problem = Scanner(), 0, None
    try:
        for part in ledger:
            for entry in scanner.feed(part):
                found.add(entry)
                events += 1
        fault = scanner.finish().fault
        if fault is not None and not (live and fault.kind == "cut"):
            problem = fault.message
    except FormatError as error:
        problem = f"event {events}: {error}"
    if problem is not None:
        problem = f"read up to here only: {problem}; docket verify says more"
    return _Read(str(run), found, events, live, problem)


def _goes_on(where: Path) -> bool:
    from docket.storage.lock import holder_of
    from docket.storage.paths import RunDirectory

    opened = RunDirectory.open(where)
    try:
        return holder_of(opened) is not None
    finally:
        opened.close()


def _document(read: _Read) -> dict[str, Any]:
    return {
        "run": read.run,
        "live": read.live,
        "events": read.events,
        "problem": read.problem,
        "findings": [finding.to_json() for finding in read.found.found()],
        "needs": [{"rule": need.rule, "text": need.text} for need in read.found.needs()],
    }


def _tell(read: _Read) -> None:
    from docket.findings import text

    findings, lacking = read.found.found(), read.found.needs()
    many = "no finding" if not findings else "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    said = [f"{read.run}: {many} in {read.events:,} events" + (", and the run goes on" if read.live else "")]
    if read.problem is not None:
        said.append(read.problem)
    for finding in findings:
        said += ["", *text.lines([finding])]
    if lacking:
        said += ["", "What could not be seen:", *text.needs(lacking)]
    for line in said:
        output.result(output.one_line(line))


def _thresholds(values: Mapping[str, int], as_json: bool) -> None:
    from docket.findings.thresholds import TABLE

    if as_json:
        output.document(dict(values))
        return
    for row in TABLE:
        output.result(f"{row.name:<35} {values[row.name]:>7}  {row.meaning}")
