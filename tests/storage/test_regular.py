"""Files of a run are opened in one way: it never waits, follows no link, and nothing beside it opens any."""

from __future__ import annotations

import ast
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from docket.storage.regular import open_regular, read_regular

SOURCE = Path(__file__).parents[2] / "src/docket"
ELSEWHERE = {
    "storage/regular.py": "the one way",
    "cli/standard_streams.py": "the null device",
    "cli/output.py": "a new file that the caller names",
    "cli/init.py": "a policy file that is written new",
    "cli/prices.py": "a price table that is written",
    "cli/game_day.py": "a report that is written",
    "cli/demo.py": "the demonstration changes its own run",
    "client/follow.py": "the state of a client library, where its user wants it",
    "client/outbox.py": "the outbox of a client library, where its user wants it",
    "fleet/database.py": "the lock beside a store of shared budgets",
    "storage/volume.py": "/proc",
    "storage/keys.py": "the trial of /proc/PID/mem",
    "storage/price_file.py": "the shipped table, a resource of the package",
    "supervisor/key_sources.py": "docket's own /proc/self, and the environments that /proc shows",
    "supervisor/processes.py": "/proc",
    "supervisor/agent_setup.py": "the private settings home that docket made",
    "supervisor/unblocked_stream.py": "the pipe or terminal behind stderr",
    "supervisor/announce.py": "the summary file that the caller names",
    "supervisor/run_observers.py": "the metrics file that the caller names",
    "watch/server.py": "the page, a resource of the package",
    "cli/report.py": "the verifier of the page, a resource of the package",
    "process/": "/proc, /sys and the terminal",
    "snapshot/": "the agent's tree, by descriptor (tests/snapshot)",
    "chaos/": "drills in directories of their own",
    "sim/": "stand-ins",
}
"""What may open a file otherwise, and which: no file of a run is among them."""
CALLS = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}
DIRECTORIES = ("O_DIRECTORY", "_DIRECTORY", "OPEN_DIRECTORY", "O_PATH")


def opens(path: Path) -> Iterator[int]:
    """The lines in which ``path`` opens a file by a call of the standard library; directories are none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        words = ast.unparse(node)
        if name not in CALLS or "open_regular(" in words or any(word in words for word in DIRECTORIES):
            continue
        if name == "open" and owner not in ("", "os", "io") and owner[:1].isupper():
            continue  # RunDirectory.open and the like: classes of ours
        if name == "open" and owner.split(".")[-1] in ("disk", "_disk", "contents", "_contents", "upstream", "run"):
            continue  # storage's own disk, which opens in the one way
        if name == "read_text" and re.fullmatch(r"((self|key)\.)?kind|(Size|Amount|Count)\(.*\)", owner):
            continue  # kinds of policy values, no files
        if owner == "tarfile" and "fileobj=" in words:
            continue  # over a file that is open
        yield node.lineno


def test_nothing_else_opens_a_file_of_a_run() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        lines = list(opens(path))
        if lines and not any(name == known or (known.endswith("/") and name.startswith(known)) for known in ELSEWHERE):
            found[name] = lines
    assert found == {}


def test_the_list_of_exceptions_holds_no_file_that_opens_nothing() -> None:
    for known in ELSEWHERE:
        paths = SOURCE.joinpath(known).rglob("*.py") if known.endswith("/") else [SOURCE / known]
        assert known == "storage/regular.py" or any(list(opens(path)) for path in paths), known


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    "make",
    [_fifo, _socket, Path.mkdir, lambda path: path.symlink_to("file"), lambda path: path.symlink_to(path.name)],
    ids=["fifo", "socket", "directory", "link", "loop"],
)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None], flags: int) -> None:
    (tmp_path / "file").write_text("x")
    make(tmp_path / "name")
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=r"link|regular"):
        open_regular("name", flags, directory=directory)
    assert os.listdir("/proc/self/fd") == before
    os.close(directory)
    assert (tmp_path / "file").read_text() == "x"


def test_a_name_that_a_caller_gave_may_be_a_link_but_has_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "link", 4)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_a_third_user_is_no_file_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    os.close(open_regular("file", directory=directory))
    os.chown(tmp_path / "file", 65534, 65534)
    with pytest.raises(PermissionError, match="another user"):
        open_regular("file", directory=directory)
    os.chown(tmp_path, 65534, 65534)
    os.close(open_regular("file", directory=directory))
    os.close(directory)
