"""Reading a tree: what is read again, what is named and not read, what is left out."""

from __future__ import annotations

import io
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from docket.snapshot.capture import (
    OPEN_DIRECTORY,
    RACY_NS,
    Capture,
    CaptureStopped,
    TreeTooLarge,
    Walk,
)
from docket.snapshot.capture import Tree as Root
from docket.snapshot.content import HashOnly, digest
from docket.snapshot.file_reader import Found, read_file
from docket.snapshot.manifest import MAX_FILE_BYTES, Entry, Reader
from docket.snapshot.previous_manifest import Earlier
from docket.snapshot.scope import Scope, rules_above
from kit.changes import NOBODY, in_child

LATER_NS = 10**18
"""Added to a time of capture so that everything in the tree is long past."""


def capture(
    root: Path,
    scope: Scope | None = None,
    earlier: bytes | None = None,
    *,
    late: bool = True,
    **options: object,
) -> tuple[Capture, bytes]:
    """Walk ``root``; the capture and its manifest."""
    fd = os.open(root, OPEN_DIRECTORY)
    now = os.stat(root).st_ctime_ns
    out = io.BytesIO()
    try:
        walk = Walk(
            Root(fd, str(root), options.pop("own", None), None),  # type: ignore[arg-type]
            scope or Scope(gitignore=False),
            HashOnly(),
            out,
            taken_ns=now + (LATER_NS if late else 0),
            stored=bool(options.pop("stored", False)),
            earlier=Earlier(io.BytesIO(earlier)) if earlier is not None else None,
            **options,  # type: ignore[arg-type]
        )
        return walk.run(), out.getvalue()
    finally:
        os.close(fd)


def entries(manifest: bytes) -> dict[str, Entry]:
    """The entries by path."""
    return {entry.path: entry for entry in Reader(io.BytesIO(manifest))}


def test_an_unchanged_tree_is_not_read_again_and_gives_the_same_digest(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"d{number % 7}").mkdir(exist_ok=True)
        (tmp_path / f"d{number % 7}/{number}").write_bytes(os.urandom(number))
    first, manifest = capture(tmp_path)
    second, again = capture(tmp_path, earlier=manifest)
    assert (first.reused, second.reused) == (0, 200)
    assert second.totals.tree == first.totals.tree
    assert list(Reader(io.BytesIO(again))) == list(Reader(io.BytesIO(manifest)))


def test_a_change_that_keeps_size_and_time_is_found(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    _, manifest = capture(tmp_path)
    before = file.stat()
    with file.open("r+") as open_file:
        open_file.write("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    second, again = capture(tmp_path, earlier=manifest)
    assert second.reused == 0
    assert entries(again)["file"].sha256 != entries(manifest)["file"].sha256


def test_a_file_as_young_as_the_first_reading_is_read_again(tmp_path: Path) -> None:
    """git's racy-clean rule: within the same tick of the clock a change leaves no trace in a stat."""
    (tmp_path / "file").write_text("one")
    _, manifest = capture(tmp_path, late=False)
    second, _ = capture(tmp_path, earlier=manifest)
    assert second.reused == 0
    assert RACY_NS >= 2 * 10**9


def test_special_files_and_links_are_named_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.chdir(here)
    result, manifest = capture(tmp_path, stored=True)
    kinds = {path: entry.kind for path, entry in entries(manifest).items()}
    assert kinds == {".": "dir", "fifo": "fifo", "link": "link", "loop": "link", "socket": "socket"}
    assert dict(result.uncovered.named) == {"fifo": "fifo", "socket": "socket"}


def test_a_file_too_large_to_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", MAX_FILE_BYTES + 1)
    result, manifest = capture(tmp_path)
    assert entries(manifest)["sparse"].gap == "too-large"
    assert result.uncovered.named == [("sparse", "too-large")]


def test_a_tree_deeper_than_descriptors_go_is_named_where_it_ends(tmp_path: Path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(400):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    result, manifest = capture(tmp_path)
    assert [reason for _, reason in result.uncovered.named] == ["too-deep"]
    assert len(entries(manifest)) == 257


def test_names_that_are_no_text_come_through(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b'/\xff\n"\\'
    with open(name, "wb") as file:
        file.write(b"x")
    os.symlink(b"\xfe", os.fsencode(tmp_path) + b"/link")
    _, manifest = capture(tmp_path)
    found = entries(manifest)
    assert os.fsencode(found[os.fsdecode(b'\xff\n"\\')].path) == b'\xff\n"\\'
    assert os.fsencode(found["link"].target or "") == b"\xfe"
    second, _ = capture(tmp_path, earlier=manifest)
    assert second.reused == 1


def test_dockets_own_directory_is_left_out_by_name_and_by_identity(tmp_path: Path) -> None:
    (tmp_path / ".docket/runs").mkdir(parents=True)
    (tmp_path / "a").touch()
    _, manifest = capture(tmp_path, own=".docket")
    assert entries(manifest).keys() == {".", "a"}


def test_gitignore_files_of_the_first_walk_decide(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n/build/\n")
    for name in ("build/x", "sub/build/y", "sub/run.log", "sub/keep.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "sub/.gitignore").write_text("!keep.log\n")
    scope = Scope()
    _, manifest = capture(tmp_path, scope)
    assert entries(manifest).keys() == {
        ".", ".gitignore", "sub", "sub/.gitignore", "sub/build", "sub/build/y", "sub/keep.log",
    }  # fmt: skip
    scope.freeze()
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/.gitignore").write_text("*\n")
    (tmp_path / "new/hidden").touch()
    _, manifest = capture(tmp_path, scope)
    assert {"new/hidden", "new/.gitignore", "sub/keep.log"} <= entries(manifest).keys()


def test_a_repository_keeps_its_hooks_and_configuration_in_sight(tmp_path: Path) -> None:
    for name in (".git/HEAD", ".git/config", ".git/hooks/pre-commit", ".git/objects/ab/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*\n")
    _, manifest = capture(tmp_path, Scope())
    assert entries(manifest).keys() == {".", ".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit"}


def test_a_guarded_path_is_watched_whatever_leaves_it_out(tmp_path: Path) -> None:
    for name in ("vendor/deep/key.pem", "vendor/deep/other", "vendor/x", "elsewhere/key.pem", "src/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    scope = Scope(watch=("src",), ignore=("vendor/",), deny_write=("*.pem",), gitignore=False)
    _, manifest = capture(tmp_path, scope)
    files = {path for path, entry in entries(manifest).items() if entry.kind == "file"}
    assert files == {"vendor/deep/key.pem", "elsewhere/key.pem", "src/a"}
    assert "vendor/deep" in entries(manifest)


def test_rules_of_the_repository_above_the_root_hold_below_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/packages/a/dist\n*.log\n")
    (tmp_path / "packages/a/dist").mkdir(parents=True)
    (tmp_path / "packages/a/x.log").touch()
    (tmp_path / "packages/a/x.py").touch()
    root = tmp_path / "packages/a"
    _, manifest = capture(root, Scope(above=rules_above(str(root))))
    assert entries(manifest).keys() == {".", "x.py"}


def test_a_budget_is_held_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 600)
    (tmp_path / "b").write_bytes(b"x" * 600)
    with pytest.raises(TreeTooLarge):
        capture(tmp_path, stored=True, max_bytes=1000)


def test_a_walk_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(CaptureStopped):
        capture(tmp_path, stop=stop)


def test_progress_is_told(tmp_path: Path) -> None:
    for number in range(1100):
        (tmp_path / str(number)).touch()
    told: list[int] = []
    capture(tmp_path, progress=lambda entries, _: told.append(entries))
    assert told == [1024]


def test_what_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    place = Path(tempfile.mkdtemp(prefix="docket-modes-"))
    place.chmod(0o755)
    try:
        (place / "secret").touch(mode=0o000)
        (place / "closed").mkdir(mode=0o000)
        result, manifest = in_child(lambda: capture(place), user=NOBODY)
        found = entries(manifest)
        assert (found["secret"].gap, found["closed"].gap) == ("unreadable", "unreadable")
        assert dict(result.uncovered.named) == {"secret": "unreadable", "closed": "unreadable"}
    finally:
        shutil.rmtree(place)


class _Meddler:
    """Reads a file while somebody writes to it, or after somebody took it away."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, fd: int) -> tuple[str, int]:
        with self._path.open("ab") as file:
            file.write(b"more")
        return digest(fd)


def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "busy").write_text("x")
    fd = os.open(tmp_path, OPEN_DIRECTORY)
    found = Found("busy", "busy", (tmp_path / "busy").stat())
    entry = read_file(fd, found, _Meddler(tmp_path / "busy"), threading.Event())
    assert (entry.gap, entry.sha256) == ("changing", None)
    (tmp_path / "busy").unlink()
    assert read_file(fd, found, HashOnly(), threading.Event()).gap == "vanished"
    os.mkfifo(tmp_path / "busy")
    assert read_file(fd, found, HashOnly(), threading.Event()).gap == "changing"
    os.close(fd)
