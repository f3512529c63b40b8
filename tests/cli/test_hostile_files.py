"""Every command on directories that somebody prepared: none hangs, ends in a fault of docket, or writes through a link.

The sentinel outside is what nobody may change; each command runs as a process, with a limit of time and of memory.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docket.cli.main import main

HANG_SECONDS = 60
MEMORY = 1 << 30
NUMBER = "DKT-20260101-AAAAAAAAAA"
COMMANDS: dict[str, list[str]] = {
    "ls": ["ls"],
    "doctor": ["doctor"],
    "doctor of it": ["doctor", "RUN"],
    "close": ["doctor", "--close", "RUN"],
    "quarantine": ["doctor", "--quarantine-torn-tail", "RUN"],
    "prune": ["prune", "--keep-last", "0"],
    "verify": ["verify", "RUN"],
    "verify the receipt": ["verify", "RUN/receipt.json"],
    "verify latest": ["verify", ".docket/latest"],
    "report": ["report", "RUN"],
    "report as a page": ["report", "--html", "RUN"],
    "restore": ["restore", "RUN", "--apply"],
    "redact": ["redact", "RUN", "--out", "copy", "--withhold", "argv"],
    "prove": ["prove", "RUN", "--seq", "0"],
    "archive": ["archive", "RUN", "-o", "it.tar"],
    "watch": ["watch", "--once", "RUN"],
    "watch as JSON": ["watch", "--once", "--json", "RUN"],
    "explain": ["explain", "RUN"],
    "diff": ["diff", "RUN", ".docket/latest"],
    "show": ["show", "RUN", "1"],
    "show of the ledger": ["show", "RUN/ledger.jsonl", "1"],
    "tail": ["tail", "RUN"],
    "tail as JSON": ["tail", "--json", "-f", "RUN"],
    "resume": ["run", "--resume", "RUN", "--", "true"],
    "run": ["run", "--", "true"],
    "snapshot": ["run", "--snapshot", "--", "true"],
    "init": ["init"],
    "prices": ["prices"],
}


def _in_place(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def lay(root: Path) -> None:
        path = root / name.replace("RUN", f".docket/runs/{NUMBER}")
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path)

    return lay


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def _link(path: Path) -> None:
    path.symlink_to(outside(path) / "sentinel")


def _link_to_directory(path: Path) -> None:
    path.symlink_to(outside(path))


def outside(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == "work").with_name("outside")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _socket(path: Path) -> None:
    os.mknod(path, 0o140600)


FILES = ("RUN/receipt.json", "RUN/ledger.jsonl", "RUN/checkpoints", "RUN/lock", "docket.toml")
KINDS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
    "link": _link,
    "loop": _loop,
    "sparse": _sparse,
    "socket": _socket,
}
LAYOUTS = {f"{name} as {kind}": _in_place(name, make) for name in FILES for kind, make in KINDS.items()} | {
    "latest as directory": _in_place(".docket/latest", Path.mkdir),
    "latest as fifo": _in_place(".docket/latest", os.mkfifo),
    "latest to nowhere": _in_place(".docket/latest", lambda path: path.symlink_to("runs/DKT-20260101-ZZZZZZZZZZ")),
    "latest to itself": _in_place(".docket/latest", _loop),
    "a run that is a link": _in_place("RUN", _link_to_directory),
    "runs that are a link": _in_place(".docket/runs", _link_to_directory),
    "snapshot as fifo": _in_place("RUN/snapshot", os.mkfifo),
    "snapshot as link": _in_place("RUN/snapshot", _link_to_directory),
    "restores as link": _in_place("RUN/restores", _link_to_directory),
    "blobs with a fifo": _in_place("RUN/blobs", lambda path: (path.mkdir(), os.mkfifo(path / ("a" * 64)))),
    "blobs as link": _in_place("RUN/blobs", _link_to_directory),
    ".docket as file": _in_place(".docket", Path.touch),
    ".docket as fifo": _in_place(".docket", os.mkfifo),
}
CELLS = [(layout, command) for layout in LAYOUTS for command in COMMANDS]
SAMPLE = [
    *random.Random(17).sample(CELLS, 30),
    ("docket.toml as fifo", "run"),
    ("RUN/receipt.json as fifo", "ls"),
    ("RUN/receipt.json as sparse", "ls"),
    ("latest as directory", "run"),
    ("a run that is a link", "prune"),
    ("RUN/lock as link", "prune"),
    ("RUN/receipt.json as sparse", "redact"),
    ("RUN/ledger.jsonl as sparse", "redact"),
    ("RUN/ledger.jsonl as sparse", "report as a page"),
    ("RUN/checkpoints as sparse", "report as a page"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a snapshot, under a known number."""
    work = tmp_path_factory.mktemp("whole") / "work"
    work.mkdir()
    (work / "file").write_text("x")
    subprocess.run(
        [sys.executable, "-m", "docket", "run", "--quiet", "--snapshot", "--", "sh", "-c", "echo y >file"],
        cwd=work,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (run,) = (work / ".docket/runs").iterdir()
    run.rename(run.with_name(NUMBER))
    (work / ".docket/latest").unlink()
    (work / ".docket/latest").symlink_to(f"runs/{NUMBER}")
    return work


def command_in(directory: Path, words: list[str], log: Path) -> tuple[int, str]:
    """Run a command line in a fork of this process: its status, minus the signal of a hang, and what it printed."""
    pid = os.fork()
    if not pid:
        status = 99
        try:
            signal.alarm(HANG_SECONDS)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            os.chdir(directory)
            said, null = os.open(log, os.O_CREAT | os.O_WRONLY, 0o600), os.open(os.devnull, os.O_RDONLY)
            for descriptor, source in ((0, null), (1, said), (2, said)):
                os.dup2(source, descriptor)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            main(words)
        except SystemExit as left:
            status = int(left.code or 0)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), log.read_text()


@pytest.mark.parametrize(
    ("layout", "command"),
    [pytest.param(*cell, marks=() if cell in SAMPLE else pytest.mark.long) for cell in CELLS],
)
def test_no_command_hangs_fails_or_writes_outside(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, command: str
) -> None:
    work, out = tmp_path / "work", tmp_path / "outside"
    shutil.copytree(whole, work, symlinks=True)
    out.mkdir()
    (out / "sentinel").write_text("theirs")
    LAYOUTS[layout](work)
    words = [word.replace("RUN", f".docket/runs/{NUMBER}") for word in COMMANDS[command]]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    status, said = command_in(work, words, tmp_path / "said")
    assert "fault of docket" not in said, said
    assert "Traceback" not in said
    assert status in (0, 1, 2, 3, 125), said
    assert [path.name for path in out.iterdir()] == ["sentinel"] or layout == "runs that are a link"
    assert (out / "sentinel").read_text() == "theirs"


@pytest.mark.parametrize("command", ["ls", "verify", "doctor", "report", "run", "prune", "init", "prices"])
def test_in_a_working_directory_that_is_gone_every_command_says_so(tmp_path: Path, command: str) -> None:
    words = [word.replace("RUN", f".docket/runs/{NUMBER}") for word in COMMANDS[command]]
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'rmdir "$PWD"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", line, "sh", sys.executable, "-m", "docket", *words],
        cwd=gone,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert "fault of docket" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 2)
