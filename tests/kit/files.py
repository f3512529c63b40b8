"""Recorded trees: a real run directory and ledger around whatever changes the files between two snapshots."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from docket.clock import SystemClock
from docket.ledger.events import Event
from docket.snapshot.apply import Result
from docket.snapshot.restore import Plan, Request, opened
from docket.snapshot.scope import Scope
from docket.snapshot.watch import FileWatch, Watched
from docket.storage.paths import RunDirectory
from docket.storage.writer import LedgerWriter
from kit.runs import KEY, new_run, session_end, session_start

FIXTURES = Path(__file__).parent.parent / "fixtures" / "fs"
MEMORY = Path("/dev/shm")
"""Thousands of small trees are about their content, not about a disk."""
Sight = dict[str, tuple[object, ...]]


def record(
    root: Path,
    agent: Callable[[], object],
    *,
    stored: bool = True,
    scope: Scope | None = None,
    docket_dir: Path | None = None,
    ends: bool = True,
) -> tuple[Path, list[Event]]:
    """Watch ``root`` while ``agent`` is called; the run's directory and the events of its files."""
    return asyncio.run(_record(root, agent, stored, scope, docket_dir or root, ends))


async def _record(
    root: Path, agent: Callable[[], object], stored: bool, scope: Scope | None, above: Path, ends: bool
) -> tuple[Path, list[Event]]:
    run = new_run(above)
    writer = LedgerWriter.create(run, key=KEY, clock=SystemClock())
    await writer.append_watched(session_start(run.name))
    watch = FileWatch(
        run,
        Watched(
            cwd=root,
            docket_dir=above / ".docket",
            scope=scope or Scope(gitignore=not stored),
            stored=stored,
        ),
    )
    events: list[Event] = [watch.before()]
    agent()
    if ends:
        events += watch.after()
    for event in events:
        await writer.append(event)
    await writer.append_watched(session_end())
    await writer.close()
    watch.close()
    path = run.path
    run.close()
    return path, events


def restore(
    run: Path, *args: str, user: int | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """``docket restore`` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "docket", "restore", str(run), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        user=user,
        group=user,
        cwd=cwd or run,
    )


def put_back(run: Path, request: Request | None = None) -> tuple[Plan, list[Result]]:
    """Apply the restore of ``run`` in this process."""
    directory = RunDirectory.open(run)
    try:
        with opened(directory, request or Request()) as (restore, plan):
            return plan, restore.apply(plan, request or Request(), 0)[0]
    finally:
        directory.close()


def script(name: str, step: str, directory: Path) -> None:
    """One step of a case's script; raises where a check fails."""
    subprocess.run(["sh", str(FIXTURES / name), step, str(directory)], check=True, timeout=60)


def sight(root: Path, *, times: bool = False) -> Sight:
    """Every path below ``root`` but docket's own: kind, permissions, content or target."""
    out: Sight = {}
    for directory, folders, files in os.walk(root):
        if ".docket" in folders:
            folders.remove(".docket")
        for name in [*folders, *files, "."]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content: object = None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            mode = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
            shown = (stat.S_IFMT(status.st_mode), mode, content, status.st_uid, status.st_gid)
            key = os.path.relpath(path, root)
            out[key] = (*shown, status.st_mtime_ns) if times and key != "." else shown
    return out


def wipe(path: Path) -> None:
    """Remove whatever stands at ``path``."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
