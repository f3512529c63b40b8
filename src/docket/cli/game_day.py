"""``docket game-day``: play the failures on this machine, and read the verdict from what they left."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import exit_codes, output

if TYPE_CHECKING:
    from docket.chaos.report import PhaseReport


@click.command("game-day")
@click.option("--phases", metavar="ID,...", default="", help="Only these phases; all of them by default.")
@click.option("--list", "only_list", is_flag=True, help="List the phases and what each expects.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the report (game-day.md, game-day.json, plots) and keep every run here.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(phases: str, only_list: bool, out: Path | None, as_json: bool) -> int:
    """Drill this docket on this machine: provider failures, an outage, a full disk, killed processes, a lying clock.

    Offline, on loopback, with scripted providers and agents. Every phase states what it expects and reads ledger,
    receipt, metrics, disk and processes. Takes about a minute.

    Exit status: 0 every phase passed, 1 some did not.
    """
    from docket.chaos import gameday, report
    from docket.primitives.canonical import encode

    if only_list:
        output.table(("phase", "expects"), [(phase.id, phase.expectation) for phase in gameday.PHASES])
        return exit_codes.OK
    picked = gameday.chosen([one.strip() for one in phases.split(",") if one.strip()])
    words = "docket game-day" + (f" --phases {phases}" if phases else "")
    if out is not None:
        out = out.absolute()
        out.mkdir(parents=True, exist_ok=True)
    with nullcontext(str(out)) if out is not None else tempfile.TemporaryDirectory(prefix="docket-game-day-") as room:
        scratch = Path(tempfile.mkdtemp(prefix="runs-", dir=room))
        day = gameday.play(picked, scratch, command=words, told=lambda done: _tell(done, quiet=as_json))
    if out is not None:
        (out / "game-day.md").write_text(report.to_markdown(day))
        (out / "game-day.json").write_bytes(encode(report.to_json(day)) + b"\n")
        for name, text in report.plot_files(day).items():
            (out / name).write_text(text)
    if as_json:
        output.document(report.to_json(day))
    return exit_codes.OK if day.passed else exit_codes.FAILED


def _tell(done: PhaseReport, *, quiet: bool) -> None:
    say = output.remark if quiet else output.result
    say(f"{done.verdict}  {done.id:<18} {done.seconds:5.1f} s  {done.skipped or f'{len(done.checks)} checks'}")
    for check in done.checks:
        if not check.ok:
            say(f"      {check.what} ({check.where}): expected {check.expected}, observed {check.observed}")
