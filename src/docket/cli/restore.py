"""``docket restore``: show what a run changed and put it back. What a restore may do is the plan's to say."""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import exit_codes, options, output

if TYPE_CHECKING:
    from docket.primitives.canonical import JsonObject
    from docket.snapshot.apply import Result
    from docket.snapshot.plan import Step
    from docket.snapshot.restore import Plan, Restore

MAX_DIFF_BYTES = 256 * 1024
"""A longer file is not shown line by line."""
MAX_DIFF_LINES = 200
"""Lines of one file's difference; the rest are counted."""
MAX_DIFFS = 100
"""Files that are shown line by line in one call."""
MAX_OUTPUTS = 100
"""Outputs that are named in one call."""
_SIGNS = {"restore": "~", "recreate": "+", "remove": "-", "already there": "=", "leave": ".", "refuse": "!"}


@click.command("restore")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--apply", "apply_it", is_flag=True, help="Do it. Without this nothing is changed.")
@click.option(
    "--only",
    multiple=True,
    metavar="GLOB",
    help="Only these paths: a pattern as in .gitignore, relative to the root. Repeatable.",
)
@click.option("--force", is_flag=True, help="Also paths that changed again after the run; what they hold now is lost.")
@click.option(
    "--root", type=click.Path(path_type=Path), help="The directory that the run was of, where docket cannot tell."
)
@click.option(
    "--clean-outputs",
    is_flag=True,
    help="Also remove what was written during the run in ignored places, such as build outputs: it looks up to date.",
)
@click.option("--diff/--no-diff", default=True, show_default=True, help="Show text line by line.")
@options.as_json
def command(
    run: Path,
    apply_it: bool,
    only: tuple[str, ...],
    force: bool,
    root: Path | None,
    clean_outputs: bool,
    diff: bool,
    as_json: bool,
) -> int:
    """Put back what RUN changed in its working directory: a plan first, the tree only with --apply.

    RUN is a run directory, such as .docket/latest, of a run made with --snapshot. Only paths that the run changed are
    touched, and only where they still are as the run left them. Stop any process that writes there first.

    \b
      docket restore .docket/latest                        what would be done, with differences
      docket restore .docket/latest --only 'src/**' --apply

    Exit status: 0 done, or nothing to do; 1 something was refused or failed; 2 the record cannot be read.
    """
    from docket.clock import SystemClock
    from docket.errors import FormatError, LedgerError, UsageError
    from docket.snapshot.gitignore import Patterns
    from docket.snapshot.outputs import remove_all
    from docket.snapshot.restore import Request, RootError, opened
    from docket.storage.lock import holder_of, restore_alone
    from docket.storage.paths import RunDirectory

    patterns = Patterns(only)
    request = Request(
        selected=lambda entry: not only or patterns.covers(entry.path, entry.kind == "dir"),
        force=force,
        root=root,
        clean_outputs=clean_outputs,
    )
    directory = RunDirectory.open(run)
    try:
        holder = holder_of(directory)
        if holder:
            raise UsageError(f"{directory.name} is still going on ({holder})", hint="restore it when it has ended")
        if apply_it and not restore_alone(directory):
            raise UsageError(f"{directory.name} is being restored by another process", hint="wait for its end")
        with opened(directory, request) as (restore, plan):
            results = None
            record = None
            cleaned: list[tuple[str, str]] = []
            cleans = apply_it and clean_outputs and plan.outputs is not None and bool(plan.outputs.paths)
            if apply_it and (cleans or any(step.do.acts for step in plan.steps)):
                results, record = restore.apply(plan, request, SystemClock().unix_us())
            if cleans and plan.outputs is not None:
                cleaned = remove_all(plan.outputs)
            if as_json:
                output.document(_document(directory.name, plan, results, record, cleaned))
            else:
                _show(restore, plan, results, record, diff=diff and results is None)
                _show_outputs(plan, cleaned)
            bad = any(outcome != "removed" for _, outcome in cleaned)
            return exit_codes.FAILED if bad else _status(plan, results)
    except RootError as error:
        output.failure(str(error), error.hint)
        return exit_codes.FAILED
    except (FormatError, LedgerError) as error:
        output.failure(f"cannot restore {directory.name}: {error}", error.hint)
        return exit_codes.USAGE
    finally:
        directory.close()


def _status(plan: Plan, results: list[Result] | None) -> int:
    if results is not None:
        bad = any(result.outcome in ("refused", "failed") for result in results)
    else:
        bad = any(step.do.value == "refuse" for step in plan.steps)
    return exit_codes.FAILED if bad else exit_codes.OK


def _document(
    run: str, plan: Plan, results: list[Result] | None, record: str | None, cleaned: list[tuple[str, str]]
) -> JsonObject:
    from docket.primitives.canonical import Json
    from docket.snapshot.manifest import text_to_json
    from docket.snapshot.restore import FORMAT, plan_to_json, results_to_json

    left_out: list[Json] = [{"path": text_to_json(path), "reason": reason} for path, reason in plan.left_out]
    found = plan.outputs.paths if plan.outputs is not None else ()
    became = cleaned or [(path, "left") for path in found]
    outputs: list[Json] = [{"path": text_to_json(path), "outcome": outcome} for path, outcome in became]
    document: JsonObject = {
        "format": FORMAT,
        "run": run,
        "root": text_to_json(plan.root),
        "state": "planned" if results is None else "finished",
        "plan": plan_to_json(plan.steps),
        "left_out": left_out,
        "outputs": outputs,
    }
    if results is not None:
        document["outcomes"] = results_to_json(results)
        document["record"] = record
    return document


def _show(restore: Restore, plan: Plan, results: list[Result] | None, record: str | None, *, diff: bool) -> None:
    shown = 0
    for position, step in enumerate(plan.steps):
        word, reason = step.do.value, step.reason
        if results is not None:
            word, reason = results[position].outcome, results[position].reason
        output.result(f"{_SIGNS[step.do.value]} {word:<13} {_name(step.path)}  ({output.one_line(reason)})")
        if diff and step.do.acts and shown < MAX_DIFFS and (lines := _difference(restore, step)):
            shown += 1
            for line in lines:
                output.result(f"    {line}")
    for path, reason in plan.left_out:
        output.result(f". left out      {_name(path)}  ({output.one_line(reason)})")
    output.remark(_summary(plan, results, record))


def _show_outputs(plan: Plan, cleaned: list[tuple[str, str]]) -> None:
    """Name what was written during the run where it was not watched: it looks up to date to whatever compares times."""
    if plan.outputs is None:
        return
    found = cleaned or [(path, "written during the run, and not watched") for path in plan.outputs.paths]
    for path, what in found[:MAX_OUTPUTS]:
        output.result(f"! output        {_name(path)}  ({output.one_line(what)})")
    if len(found) > MAX_OUTPUTS:
        output.result(f"! output        {len(found) - MAX_OUTPUTS} more (--json lists them)")
    for path in plan.outputs.unseen:
        output.result(f"! not looked at {_name(path)}")
    if found and not cleaned:
        output.remark(
            f"{len(found)} files of the run stay in ignored places and look up to date beside what is put back: "
            "build anew, or remove them with --clean-outputs --apply"
        )


def _summary(plan: Plan, results: list[Result] | None, record: str | None) -> str:
    if not plan.steps:
        return "nothing to do: the run changed nothing that was asked for"
    words = [step.do.value for step in plan.steps] if results is None else [result.outcome for result in results]
    counts = ", ".join(f"{count} {word}" for word, count in Counter(words).items())
    if record is not None:
        return f"{counts}; recorded in restores/{record}"
    if any(step.do.acts for step in plan.steps):
        return f"{counts}; nothing was changed: --apply does it"
    return f"{counts}; nothing to do"


def _name(path: str) -> str:
    """A path on one line, whatever bytes it is made of."""
    return output.printable(path.encode("utf-8", "backslashreplace").decode().replace("\n", "\\n"))


def _difference(restore: Restore, step: Step) -> list[str]:
    """From what stands there now to what a restore gives back; empty where either is no text."""
    old, new = restore.text_now(step, MAX_DIFF_BYTES), restore.text_before(step, MAX_DIFF_BYTES)
    if old is None or new is None or old == new:
        return []
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), "now", "restored", lineterm="", n=2))
    shown = [output.printable(line) for line in lines[:MAX_DIFF_LINES]]
    if len(lines) > MAX_DIFF_LINES:
        shown.append(f"... {len(lines) - MAX_DIFF_LINES} more lines")
    return shown
