"""``docket doctor``: what state runs are in, and the two repairs there are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import exit_codes, options, output

if TYPE_CHECKING:
    from docket.supervisor.doctor import Diagnosis


@click.command("doctor")
@options.docket_dir
@click.option("--quarantine-torn-tail", "torn", is_flag=True, help="Move the bytes of a torn write to a file beside.")
@click.option("--close", "closing", is_flag=True, help="End a run whose supervisor died; it gets a recovered receipt.")
@click.option(
    "--fallback-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="With --close: where the run may have left its receipt, beside the user's state directory.",
)
@options.as_json
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN ...]")
def command(
    docket_dir: Path, torn: bool, closing: bool, fallback_dir: Path | None, as_json: bool, runs: tuple[Path, ...]
) -> int:
    """Say what state runs are in, what that means and which command deals with it.

    RUN is a directory that holds a run, whatever its name, or a docket number; without one, all runs of the docket
    directory are looked at, and what this machine offers. Exit status 0: healthy; 1: something to do; 2: unreadable.
    """
    from docket.cli import machine_facts
    from docket.storage.paths import runs_in
    from docket.supervisor import doctor

    repairs = torn or closing
    chosen = [_find(docket_dir, name, repairs=repairs) for name in runs] or ([] if repairs else runs_in(docket_dir))
    if repairs and not chosen:
        raise click.UsageError("name the run to repair")
    if repairs:
        for path in chosen:
            _repair(path, closing=closing, fallback=fallback_dir)
    diagnoses = [doctor.diagnose(path) for path in chosen]
    facts = {} if runs else machine_facts.facts()
    if as_json:
        output.document({"runs": [diagnosis.to_json() for diagnosis in diagnoses], "machine": facts})
    else:
        _show(diagnoses, facts)
    if any(diagnosis.state in doctor.UNREADABLE for diagnosis in diagnoses):
        return exit_codes.USAGE
    return exit_codes.OK if all(diagnosis.healthy for diagnosis in diagnoses) else exit_codes.FAILED


def _find(docket_dir: Path, name: Path, *, repairs: bool) -> Path:
    """The directory that ``name`` means: one that holds a run, whatever it is called, or a run of ``docket_dir``.

    A repair writes the docket number, which is the directory's name: there it must be one. Raises UsageError.
    """
    from docket.errors import UsageError
    from docket.storage.paths import LEDGER, NUMBER, RECEIPT, find_run

    if name.is_dir() and any(os.path.lexists(name / held) for held in (LEDGER, RECEIPT)):
        found = name.resolve()
        if repairs and not NUMBER.fullmatch(found.name):
            raise UsageError(f"{name} is not called by its docket number", hint="rename it to that, then repair it")
        return found
    return find_run(docket_dir, name)


def _repair(path: Path, *, closing: bool, fallback: Path | None) -> None:
    from docket.clock import SystemClock
    from docket.storage.paths import RunDirectory
    from docket.supervisor.dead_run import close, quarantine_torn_tail
    from docket.supervisor.second_place import places
    from docket.supervisor.settlement import settle_after_close

    run = RunDirectory.open(path)
    try:
        if closing:
            closed = close(run, SystemClock(), elsewhere=places(fallback, os.environ))
            kind = "its own receipt, put back" if closed.from_memory else "recovered receipt"
            output.remark(f"{run.name}: {closed.lost_calls} open calls lost, {closed.events} events, {kind}")
            output.remark(f"{run.name} root {closed.root}")
            moved = closed.quarantined
            if (told := settle_after_close(path, os.environ)) is not None:
                output.remark(f"{run.name}: {told}")
        else:
            moved = quarantine_torn_tail(run, SystemClock())
        if moved is not None:
            output.remark(f"{run.name}: {moved.bytes} bytes from byte {moved.offset} on moved to {moved.sidecar}")
    finally:
        run.close()


def _show(diagnoses: list[Diagnosis], facts: dict[str, str]) -> None:
    for diagnosis in diagnoses:
        output.result(f"{diagnosis.path.name}: {diagnosis.state}: {output.one_line(diagnosis.detail)}")
        if not diagnosis.healthy:
            output.result(f"  {output.one_line(diagnosis.meaning)}")
            if diagnosis.command:
                output.result(f"  do: {diagnosis.command}")
        for trouble in diagnosis.troubles:
            output.result(f"  {trouble.kind}: {output.one_line(trouble.detail)}")
            if trouble.command:
                output.result(f"  do: {trouble.command}")
    for name, value in facts.items():
        output.result(f"{name}: {value}")
