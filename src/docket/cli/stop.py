"""``docket stop``: ask the docket that holds a run to end it, in order."""

from __future__ import annotations

import os
import select
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import exit_codes, options, output
from docket.errors import ProcessError, UsageError

if TYPE_CHECKING:
    from docket.storage.lock import Holder
    from docket.storage.paths import RunDirectory


@click.command("stop")
@options.docket_dir
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the run's end. How long the agent has is the policy's [caps] grace_seconds.",
)
@click.argument("run", type=click.Path(path_type=Path), metavar="[RUN]", default=Path("latest"))
def command(docket_dir: Path, grace: float, run: Path) -> int:
    """Ask the docket that holds RUN (a directory, a docket number or latest) to end it, and wait until it has.

    From that moment no new call is let through; the agent is asked to end, then ended, and the receipt is written. Exit
    status 0: it has ended; 1: it goes on after the grace; 2: nobody holds the run.
    """
    from docket.storage.paths import RunDirectory, find_run

    directory = RunDirectory.open(find_run(docket_dir, run))
    try:
        holder = _holder(directory)
        ended = _ask(directory, holder, grace)
    finally:
        directory.close()
    if not ended:
        output.failure(f"{directory.name} was asked to end and goes on after {grace:g} s", "docket watch shows it")
        return exit_codes.FAILED
    output.result(f"{directory.name} has ended")
    return exit_codes.OK


def _holder(run: RunDirectory) -> Holder:
    from docket.storage.lock import holder_of

    holder = holder_of(run)
    if holder is None:
        raise UsageError(f"nobody holds {run.name}: it has ended", hint="docket doctor says what state it is in")
    if holder.host != socket.gethostname():
        raise UsageError(f"{run.name} is held on {holder.host}", hint="stop it there")
    return holder


def _ask(run: RunDirectory, holder: Holder, grace: float) -> bool:
    """Send SIGTERM to ``holder``, which cannot be another process by then; return whether it ended in time."""
    from docket.storage.lock import holder_of

    try:
        process = os.pidfd_open(holder.pid)
    except ProcessLookupError:
        return True
    try:
        if holder_of(run) != holder:
            raise ProcessError(f"{run.name} has changed hands meanwhile", hint="look again with docket ls")
        signal.pidfd_send_signal(process, signal.SIGTERM)
        return bool(select.select([process], [], [], grace)[0])
    except PermissionError as error:
        raise ProcessError(f"{holder} is another user's process", hint="ask as that user") from error
    finally:
        os.close(process)
