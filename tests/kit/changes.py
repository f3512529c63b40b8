"""What an agent may do to files, as data: operations drawn by Hypothesis and carried out by a child process."""

from __future__ import annotations

import os
import pickle
import shutil
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st

NOBODY = 65534
"""The unprivileged user of the tests that must not be root."""
NAMES = st.sampled_from(["a", "b", "c.txt", "ü", "\udcff\udcfe", "x y", "new\nline", "-rf", ".gitignore", "*"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(st.sampled_from([b"", b"one\n", b"two\n", b"*\n", b"\x00" * 5000]), st.binary(max_size=40))
MODES = st.sampled_from([0o644, 0o600, 0o755, 0o700, 0o444, 0o555, 0o500, 0o000, 0o4755, 0o1777])
TARGETS = st.sampled_from(["a", "../a", "/etc/passwd", "..", ".", "b/c.txt", "\udcff", "nowhere"])

T = TypeVar("T")
Operation = tuple[object, ...]
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("append"), PATHS, CONTENTS),
    st.tuples(st.just("mkdir"), PATHS),
    st.tuples(st.just("mkdir"), PATHS),
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("symlink"), PATHS, TARGETS),
    st.tuples(st.just("chmod"), PATHS, MODES),
    st.tuples(st.just("hardlink"), PATHS, PATHS),
    st.tuples(st.just("fifo"), PATHS),
    st.tuples(st.just("disguise"), PATHS, CONTENTS),
)
TREES = st.lists(OPERATIONS, min_size=3, max_size=14)


def carry_out(root: Path, operations: list[Operation]) -> None:
    """Do what can be done of ``operations`` below ``root``; never outside it."""
    os.chdir(root)
    for operation in operations:
        with suppress(OSError):
            _one(*operation)  # type: ignore[arg-type]


def _one(kind: str, path: str, other: object = None) -> None:
    if kind != "symlink" and os.path.islink(os.path.dirname(path) or "."):
        return  # the operations are about the tree itself
    if kind in ("write", "append"):
        assert isinstance(other, bytes)
        if os.path.islink(path):
            os.unlink(path)
        if os.path.lexists(path) and not os.path.isfile(path):
            return  # a FIFO would wait for its other end
        with open(path, "wb" if kind == "write" else "ab") as file:
            file.write(other)
    elif kind == "mkdir":
        os.makedirs(path)
    elif kind == "remove":
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    elif kind == "rename":
        os.rename(path, str(other))
    elif kind == "symlink":
        os.symlink(str(other), path)
    elif kind == "chmod":
        assert isinstance(other, int)
        if not os.path.islink(path):
            os.chmod(path, other)
    elif kind == "hardlink":
        os.link(path, str(other), follow_symlinks=False)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "disguise":
        assert isinstance(other, bytes)
        _disguise(path, other)


def _disguise(path: str, content: bytes) -> None:
    """Change a file's bytes and give it its old size and time of change back."""
    if os.path.islink(path) or not os.path.isfile(path):
        return
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(content[: before.st_size])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def in_child(work: Callable[[], T], *, user: int | None = None) -> T:
    """What ``work`` gives in a child process, as ``user`` where given. Raises AssertionError where it raised."""
    status, data = _forked(work, user)
    assert status == 0, f"the child ended with {status}"
    result: T = pickle.loads(data)
    return result


def status_of(work: Callable[[], object], *, user: int | None = None) -> int:
    """As ``in_child``; the child's status, or minus the signal that ended it."""
    return _forked(work, user)[0]


def _forked(work: Callable[[], object], user: int | None) -> tuple[int, bytes]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            data = file.read()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), data
    status = 1
    try:
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        with os.fdopen(writing, "wb") as file:
            pickle.dump(work(), file)
        status = 0
    except BaseException:  # noqa: BLE001 a child must not run the parent's test
        traceback.print_exc()
    finally:
        os._exit(status)
