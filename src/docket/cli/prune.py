"""``docket prune``: remove old runs, whole."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import exit_codes, options, output
from docket.errors import UsageError


@click.command("prune")
@options.docket_dir
@click.option("--keep-days", type=click.IntRange(0), metavar="N", help="Keep runs whose last event is younger.")
@click.option("--keep-last", type=click.IntRange(0), metavar="N", help="Keep the N newest runs.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
def command(docket_dir: Path, keep_days: int | None, keep_last: int | None, dry_run: bool) -> int:
    """Remove whole runs that no --keep rule keeps; a run that is going on is never touched.

    \b
      docket prune --keep-days 30 --keep-last 20 --dry-run
    """
    if keep_days is None and keep_last is None:
        raise click.UsageError("say what to keep: --keep-days N, --keep-last N, or both")
    from docket.clock import SystemClock
    from docket.storage.lock import holder_of
    from docket.storage.paths import RunDirectory
    from docket.storage.retention import removable, remove

    now_us = SystemClock().unix_us()
    count = size = 0
    for removal in removable(docket_dir, keep_days=keep_days, keep_last=keep_last, now_us=now_us):
        try:
            run = RunDirectory.open(removal.path)
        except UsageError:
            continue  # another prune was quicker
        held = holder_of(run) is not None
        run.close()
        if held or not (dry_run or remove(docket_dir, removal)):
            if removal.path.exists():
                output.remark(f"{removal.path.name}: still running, kept")
            continue
        count, size = count + 1, size + removal.bytes
        output.result(f"{removal.path.name}: {removal.files} files, {removal.bytes} bytes, {removal.age_days} days old")
    output.remark(f"{count} runs, {size} bytes {'would be removed' if dry_run else 'removed'}")
    return exit_codes.OK
