"""``docket archive``: one run as one file."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import exit_codes, options, output


@click.command("archive")
@options.docket_dir
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="The file; <docket number>.tar here.")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
def command(docket_dir: Path, target: Path | None, run: Path) -> int:
    """Write RUN (a directory, a docket number or latest) to one tar file, the same bytes whoever does it.

    The archive holds everything of the run and verifies as it is: docket verify FILE.
    """
    from docket.errors import LedgerError
    from docket.storage.archive import write_archive
    from docket.storage.lock import holder_of
    from docket.storage.paths import RunDirectory, find_run

    directory = RunDirectory.open(find_run(docket_dir, run))
    try:
        holder = holder_of(directory)
        if holder is not None:
            raise LedgerError(f"{directory.name} is still running: held by {holder}", hint="archive it when it ended")
        chosen = target or Path(f"{directory.name}.tar")
        size = write_archive(directory, chosen)
    finally:
        directory.close()
    output.result(str(chosen))
    output.remark(f"{size} bytes; docket verify {chosen}")
    return exit_codes.OK
