"""Every way an agent can end, each with a real process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from docket.process.outcome import ExecFailed, ExitStatus, Spawned
from docket.process.supervision import Guardian
from tests.process.conftest import CASES

SEED = 20261130
IGNORED_BY_DEFAULT = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
FATAL = sorted(set(signal.valid_signals()) - IGNORED_BY_DEFAULT - STOPPING)
CORE = (signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV, signal.SIGBUS, signal.SIGTRAP)


def ended(argv: list[str], cwd: Path | None = None, path: str | None = None) -> ExitStatus | ExecFailed:
    """The end of one agent, under a guardian of its own."""
    guardian = Guardian.start()

    async def supervise() -> ExitStatus | ExecFailed:
        env = {**os.environ, **({"PATH": path} if path is not None else {})}
        started = await guardian.spawn(argv, env, str(cwd or Path.cwd()))
        try:
            if isinstance(started, ExecFailed):
                return started
            status = await guardian.exited()
            reaped = await guardian.reap(0)
            assert reaped.orphans == ()
            return status
        finally:
            await guardian.close()

    return asyncio.run(supervise())


def exits(codes: Iterable[int]) -> None:
    for code in codes:
        status = ended(["sh", "-c", f"exit {code}"])
        assert status == ExitStatus(code=code)
        assert isinstance(status, ExitStatus)
        assert status.shell_status == code


def signals(numbers: Iterable[int]) -> None:
    for number in numbers:
        status = ended(["sh", "-c", f"ulimit -c 0; kill -{int(number)} $$"])
        assert status == ExitStatus(signal=int(number))
        assert isinstance(status, ExitStatus)
        assert status.shell_status == 128 + number


def test_exit_codes_are_the_agent_s_own() -> None:
    """The edges and docket's own statuses, and a seeded sample of the rest."""
    exits([0, 1, 2, 42, 125, 126, 127, 128, 255, *random.Random(SEED).sample(range(256), 8)])


@pytest.mark.long
def test_all_exit_codes() -> None:
    exits(range(256))


def test_fatal_signals_are_reported_as_such() -> None:
    signals([1, 2, 3, 6, 9, 11, 13, 15, *random.Random(SEED).sample(FATAL, 4)])


@pytest.mark.long
def test_all_fatal_signals() -> None:
    signals(FATAL)


def test_the_reported_table() -> None:
    """The table of endings as it was reported."""
    rows = json.loads((CASES / "exit.json").read_bytes())["rows"]
    for row in rows:
        status = ended([sys.executable, str(CASES / "exit.py"), *row["argv"]])
        assert isinstance(status, ExitStatus)
        assert status.shell_status == row["status"]


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_CORE)[1] == 0
    or Path("/proc/sys/kernel/core_pattern").read_text().strip() != "core",
    reason="core dumps cannot be made here (hard limit 0, or a core_pattern that is no file)",
)
def test_a_core_dump_is_told_apart(tmp_path: Path) -> None:
    for number in CORE:
        status = ended(["sh", "-c", f"ulimit -c unlimited; kill -{int(number)} $$"], cwd=tmp_path)
        assert status == ExitStatus(signal=int(number), core_dumped=True)


def test_a_command_that_does_not_exist_is_127() -> None:
    failed = ended(["no-such-command-anywhere"])
    assert failed == ExecFailed(127, "no-such-command-anywhere: command not found")
    failed = ended(["./no/such/file"])
    assert failed == ExecFailed(127, "./no/such/file: command not found")


def test_a_command_that_cannot_be_run_is_126_and_says_why(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("data")
    lost = tmp_path / "lost"
    lost.write_text("#!/no/such/interpreter\n")
    lost.chmod(0o755)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF" + bytes(60))
    binary.chmod(0o755)
    for argv, reason in (
        ([str(plain)], "Permission denied"),
        ([str(tmp_path)], "Permission denied"),
        ([str(lost)], "the interpreter named in its first line does not exist"),
        (["true", "x" * 200_000], "Argument list too long"),
    ):
        failed = ended(argv)
        assert isinstance(failed, ExecFailed)
        assert failed.status == 126
        assert reason in failed.reason


def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    failed = ended(["true"], cwd=tmp_path / "missing")
    assert isinstance(failed, ExecFailed)
    assert failed.status == 126
    assert f"{tmp_path}/missing: cannot change to this directory" in failed.reason


def test_the_command_is_looked_up_in_the_agent_s_own_path(tmp_path: Path) -> None:
    """A file that cannot be run is passed over for a later one that can, as a shell does."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, mode in ((first, 0o644), (second, 0o755)):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\nexit 9\n")
        (folder / "tool").chmod(mode)
    assert ended(["tool"], path=f"{first}:{second}") == ExitStatus(code=9)
    failed = ended(["tool"], path=str(first))
    assert isinstance(failed, ExecFailed)
    assert failed.status == 126


def test_a_script_without_a_header_line_runs_in_the_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('exit "$1"\n')
    script.chmod(0o755)
    assert ended([str(script), "5"]) == ExitStatus(code=5)


def test_arguments_and_environment_arrive_byte_for_byte(tmp_path: Path) -> None:
    """Also what is no UTF-8, and what is empty."""
    odd = os.fsdecode(b"\xff\xfe caf\xe9")
    guardian = Guardian.start()

    async def supervise() -> None:
        code = "import os, sys; open('out', 'wb').write(repr((sys.argv[1:], os.environb[b'ODD'])).encode())"
        env = {"PATH": os.environ["PATH"], "ODD": odd}
        started = await guardian.spawn([sys.executable, "-c", code, odd, ""], env, str(tmp_path))
        assert isinstance(started, Spawned)
        assert await guardian.exited() == ExitStatus(code=0)
        await guardian.reap(0)
        await guardian.close()

    asyncio.run(supervise())
    assert (tmp_path / "out").read_text() == repr(([odd, ""], os.fsencode(odd)))
