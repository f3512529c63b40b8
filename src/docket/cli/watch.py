"""``docket watch``: a run while it goes on, in a terminal, as lines, as JSON, or served to a browser."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from docket.cli import exit_codes, options, output

if TYPE_CHECKING:
    from rich.console import Console

    from docket.watch.saved import SavedView
    from docket.watch.tail import LedgerTail

LOOK_SECONDS = 0.25
"""How often the run is looked at."""
NICE = 10
"""How far --serve stands back when agent and docket want the processors (nice(2)): watching must cost them nothing."""
LINES_SECONDS = 5.0
"""How often plain lines say what changed, where there is no terminal to draw on."""


@click.command("watch")
@options.docket_dir
@click.argument("run", type=click.Path(path_type=Path), metavar="[RUN]", default=Path("latest"))
@click.option("--all", "every", is_flag=True, help="Every run that goes on, instead of one.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON, from the first one on.")
@click.option("--since", metavar="SEQ", help="With --json: only events after this one; latest means from now on.")
@click.option("--once", is_flag=True, help="Show what there is now, and end.")
@click.option("--serve", is_flag=True, help="Serve the page and the event stream on loopback.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of --serve; any free one unless named.")
def command(
    docket_dir: Path, run: Path, every: bool, as_json: bool, since: str | None, once: bool, serve: bool, port: int
) -> int:
    """Watch RUN (a directory, a docket number or latest) while it goes on: money, calls, breaker, files.

    Reads the run's files and writes nothing there; the agent does not notice. Ends with the run, or at Ctrl-C.
    """
    try:
        if serve:
            return _serve(docket_dir, port)
        if as_json:
            return _events(docket_dir, run, since, once)
        return _show(docket_dir, run, every, once)
    except KeyboardInterrupt:
        return exit_codes.OK


def _show(docket_dir: Path, run: Path, every: bool, once: bool) -> int:
    from rich.console import Console

    console = Console(file=sys.stdout)
    watched = _open(docket_dir, run, every)
    try:
        if once or not console.is_terminal or "NO_COLOR" in os.environ:
            return _as_lines(watched, once)
        return _on_screen(watched, console)
    finally:
        for tail, saved in watched:
            saved.save()
            tail.close()


def _on_screen(watched: list[tuple[LedgerTail, SavedView]], console: Console) -> int:
    from docket.clock import SystemClock
    from docket.errors import LedgerError
    from docket.watch.terminal import Screen

    clock, wait = SystemClock(), threading.Event()
    seen_us = dict.fromkeys(range(len(watched)), clock.monotonic_us())
    failures = dict.fromkeys(range(len(watched)), 0)
    with Screen(console, output.one_line) as screen:
        while True:
            more = False
            for number, (tail, saved) in enumerate(watched):
                try:
                    tail.refresh()
                    more |= saved.catch_up(most=50_000)
                    seen_us[number], failures[number] = clock.monotonic_us(), 0
                except LedgerError:
                    failures[number] += 1
            now = clock.monotonic_us()
            screen.draw(
                [
                    (saved.view, tail.live, (now - seen_us[number]) / 1e6 if failures[number] > 1 else None)
                    for number, (tail, saved) in enumerate(watched)
                ]
            )
            if not more and not any(tail.live for tail, _ in watched) and not any(failures.values()):
                return exit_codes.OK
            wait.wait(0 if more else LOOK_SECONDS)


def _as_lines(watched: list[tuple[LedgerTail, SavedView]], once: bool) -> int:
    from docket.watch.lines import summary

    wait = threading.Event()
    said: dict[int, list[str]] = {}
    while True:
        for number, (tail, saved) in enumerate(watched):
            tail.refresh()
            saved.catch_up()
            lines = [output.one_line(line) for line in summary(saved.view, live=tail.live)]
            for line in lines:
                if line not in said.get(number, []):
                    output.result(line)
            said[number] = lines
        sys.stdout.flush()
        if once or not any(tail.live for tail, _ in watched):
            return exit_codes.OK
        wait.wait(LINES_SECONDS)


def _events(docket_dir: Path, run: Path, since: str | None, once: bool) -> int:
    from docket.clock import SystemClock
    from docket.errors import UsageError
    from docket.storage.paths import find_run
    from docket.watch.stream import place
    from docket.watch.tail import LedgerTail

    tail, wait = LedgerTail(find_run(docket_dir, run), SystemClock()), threading.Event()
    try:
        begun = place(tail, since)
        if begun.reset is not None:
            raise UsageError(f"--since {since}: {begun.reset}", hint="name an event of this run, or latest")
        cursor = begun.after
        while True:
            tail.refresh()
            while lines := tail.read(cursor):
                output.json_lines(line.content for line in lines)
                cursor = lines[-1].seq
            sys.stdout.flush()
            if once or not tail.live:
                return exit_codes.OK
            wait.wait(LOOK_SECONDS)
    finally:
        tail.close()


def _open(docket_dir: Path, run: Path, every: bool) -> list[tuple[LedgerTail, SavedView]]:
    from docket.clock import SystemClock
    from docket.errors import UsageError
    from docket.storage.lock import holder_of
    from docket.storage.paths import RunDirectory, find_run, runs_in
    from docket.watch.saved import SavedView, directory
    from docket.watch.tail import LedgerTail

    paths = [find_run(docket_dir, run)] if not every else []
    for path in runs_in(docket_dir) if every else ():
        opened = RunDirectory.open(path)
        try:
            if holder_of(opened) is not None:
                paths.append(path)
        finally:
            opened.close()
    if not paths:
        raise UsageError(f"no run goes on in {docket_dir}", hint="docket watch RUN shows one that has ended")
    tails = [LedgerTail(path, SystemClock()) for path in paths]
    return [(tail, SavedView(tail, directory())) for tail in tails]


def _serve(docket_dir: Path, port: int) -> int:
    import asyncio
    import secrets
    import signal
    import socket

    from docket.clock import SystemClock
    from docket.errors import UsageError
    from docket.watch.saved import directory
    from docket.watch.server import WatchServer

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise UsageError(f"--port {port}: {error.strerror}", hint="name another port, or none") from error
    token = secrets.token_urlsafe(24)

    os.nice(NICE)

    async def serve() -> None:
        server, stop = WatchServer(docket_dir, token, SystemClock(), directory()), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        bound = await server.start(listener)
        output.result(f"http://127.0.0.1:{bound}/?token={token}")
        sys.stdout.flush()
        await stop.wait()
        await server.close()

    asyncio.run(serve())
    return exit_codes.OK
