"""``docket explain``: what in a run cost money for little, or must not have happened, by rules over its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import exit_codes, options, output
from docket.cli.ledger import Walked, walk
from docket.errors import UsageError

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
        found = Findings(values, rules or NAMES)
        read = _Read(walk(docket_dir, run, found.add), found)
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
    """What was found in a run, and how far it could be read."""

    walked: Walked
    found: Findings


def _document(read: _Read) -> dict[str, Any]:
    walked = read.walked
    return {
        "run": walked.run,
        "live": walked.live,
        "events": walked.events,
        "problem": walked.problem,
        "findings": [finding.to_json() for finding in read.found.found()],
        "needs": [{"rule": need.rule, "text": need.text} for need in read.found.needs()],
    }


def _tell(read: _Read) -> None:
    from docket.findings import text

    findings, lacking = read.found.found(), read.found.needs()
    many = "no finding" if not findings else "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    walked = read.walked
    said = [f"{walked.run}: {many} in {walked.events:,} events" + (", and the run goes on" if walked.live else "")]
    if walked.problem is not None:
        said.append(walked.problem)
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
