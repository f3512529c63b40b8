"""One writer a run, told apart by real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docket.errors import LedgerLockedError
from docket.storage.lock import Lock, holder_of
from docket.storage.paths import LEDGER, RunDirectory
from docket.storage.reader import read_ledger
from kit.runs import new_run

WRITER = """
import asyncio, sys
from pathlib import Path
from docket.clock import SystemClock
from docket.errors import DocketError
from docket.ledger.events import Note
from docket.storage.keys import new_run_key
from docket.storage.paths import RunDirectory
from docket.storage.writer import LedgerWriter

async def main():
    run = RunDirectory.open(Path(sys.argv[1]))
    try:
        writer = LedgerWriter.create(run, key=new_run_key(), clock=SystemClock())
    except DocketError as error:
        sys.exit(str(error))
    for number in range(20):
        await writer.append(Note(private={"text": number}))
    print("ready", flush=True)
    sys.stdin.readline()
    await writer.close()

asyncio.run(main())
"""


def start(run: RunDirectory) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_second_of_two_processes_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with start(run) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        with start(run) as second:
            _, complaint = second.communicate(timeout=30)
        assert second.returncode == 1
        assert f"pid {first.pid}, docket {run.name}, host {os.uname().nodename}" in complaint
        first.communicate("\n", timeout=30)
    assert first.returncode == 0
    assert read_ledger(run).scan.chain.size == 20


def test_a_stopped_holder_still_holds(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with start(run) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        os.kill(first.pid, signal.SIGSTOP)
        with pytest.raises(LedgerLockedError, match=f"pid {first.pid}"):
            Lock(run)
        holder = holder_of(run)
        assert holder is not None
        assert holder.pid == first.pid
        os.kill(first.pid, signal.SIGCONT)
        first.communicate("\n", timeout=30)
    assert (run.path / LEDGER).read_bytes().count(b"\n") == 20


def test_the_kernel_drops_the_lock_of_a_killed_holder(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with start(run) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        first.kill()
        first.wait(timeout=30)
    assert holder_of(run) is None
    Lock(run).release()


def test_of_two_that_start_at_once_exactly_one_writes(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with start(run) as first, start(run) as second:
        outcomes = [process.communicate("\n", timeout=60) for process in (first, second)]
    assert sorted(process.returncode for process in (first, second)) == [0, 1]
    assert sum("ready" in out for out, _ in outcomes) == 1
    assert read_ledger(run).scan.chain.size == 20
