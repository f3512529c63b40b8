"""A restore that is killed, wherever that happens, and run again gives the same tree as one that was not."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.changes import NOBODY, in_child, status_of
from kit.files import MEMORY, Sight, put_back, record, restore, sight

CHANGING = (
    "write,pwrite64,ftruncate,fsync,fdatasync,syncfs,ioctl,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,"
    "mkdir,mkdirat,symlink,symlinkat,chmod,fchmod,fchmodat,utimensat,chown,lchown,fchown,fchownat"
)
"""The system calls that change anything; between two of them a kill finds the same state."""
SEED = int(os.environ.get("DOCKET_SEED", "10"))
"""Chooses where the sampled restores are killed."""
EVENTS = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime", "os.chown", "os.symlink", "os.link"}
    | {"open", "ctypes.dlsym", "fcntl.ioctl"}
)
"""Audit events of the calls that change anything, and of those that come between."""


def build(root: Path) -> None:
    """One of everything that a restore has to do with."""
    for folder in ("kept", "gone/deep", "locked/inner", "swapped", "turned"):
        (root / folder).mkdir(parents=True)
    for name in ("kept/text", "gone/deep/file", "locked/inner/file", "swapped/file", "mode", "plain"):
        (root / name).write_text(f"{name}\n" * 50)
    (root / "link").symlink_to("kept/text")
    (root / "turned/x").write_text("x")
    (root / "gone/deep").chmod(0o555)
    (root / "locked/inner").chmod(0o555)
    (root / "kept").chmod(0o750)


def attack(root: Path) -> None:
    """Change all of it."""
    (root / "kept/text").write_text("other\n")
    (root / "kept/new").write_text("new")
    (root / "gone/deep").chmod(0o755)
    shutil.rmtree(root / "gone")
    (root / "locked/inner").chmod(0o755)
    (root / "locked/inner/file").unlink()
    (root / "locked/inner/other").write_text("other")
    (root / "locked/inner").chmod(0o555)
    shutil.rmtree(root / "swapped")
    (root / "swapped").symlink_to("/etc")
    shutil.rmtree(root / "turned")
    (root / "turned").write_text("a file now")
    (root / "mode").chmod(0o600)
    (root / "plain").unlink()
    (root / "plain").mkdir()
    (root / "plain/inside").mkdir()
    (root / "link").unlink()
    (root / "link").symlink_to("/etc/passwd")
    (root / "kept").chmod(0o700)


class Scene:
    """A changed tree with its run, which can be laid out again and again in one place."""

    def __init__(self, user: int | None) -> None:
        self.user = user
        self.place = Path(tempfile.mkdtemp(prefix="docket-kill-", dir=MEMORY if MEMORY.is_dir() else None))
        self.root, self._kept = self.place / "work", self.place / "kept"
        self.root.mkdir()
        self.place.chmod(0o755)
        if user is not None:
            os.chown(self.root, user, user)
        in_child(lambda: build(self.root), user=user)
        self.before = sight(self.root, times=True)
        run = in_child(lambda: record(self.root, lambda: attack(self.root))[0], user=user)
        self.run = run
        self.root.rename(self._kept)

    def lay_out(self) -> None:
        """The tree as the run left it."""
        if self.root.exists():
            subprocess.run(["chmod", "-R", "u+rwX", str(self.root)], check=True)  # else its owner cannot remove it
            shutil.rmtree(self.root)
        subprocess.run(["cp", "-a", str(self._kept), str(self.root)], check=True)

    def check(self, where: object) -> None:
        """Restore again; the tree is as it was, whatever happened before."""
        _, results = in_child(lambda: put_back(self.run), user=self.user)
        assert {result.outcome for result in results} <= {"done", "already there"}, (where, results)
        assert sight(self.root, times=True) == self.before, where


@pytest.fixture(params=[None, NOBODY], ids=["root", "nobody"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    if request.param is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    scene = Scene(request.param if os.geteuid() == 0 else None)
    yield scene
    shutil.rmtree(scene.place, ignore_errors=True)


def killed_at(event: int, work: Callable[[], object], user: int | None) -> bool:
    """Call ``work`` in a child that is killed right before its ``event``-th changing call; whether it came to that."""

    def run() -> object:
        count = 0

        def hook(name: str, _: object) -> None:
            nonlocal count
            if name in EVENTS:
                count += 1
                if count == event:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        return work()

    return status_of(lambda: run() is None, user=user) == -signal.SIGKILL


def kill_by_hook(scene: Scene, first: int, step: int) -> None:
    event = first
    while True:
        scene.lay_out()
        if not killed_at(event, lambda: put_back(scene.run), scene.user):
            break
        scene.check(event)
        event += step
    assert event > 100


def test_killed_before_some_calls_and_run_again(scene: Scene) -> None:
    kill_by_hook(scene, random.Random(SEED).randint(1, 9), 9)


@pytest.mark.long
def test_killed_before_every_call_and_run_again(scene: Scene) -> None:
    kill_by_hook(scene, 1, 1)


def test_killed_twice_in_different_places(scene: Scene) -> None:
    for first, second in ((60, 40), (75, 75), (90, 20), (110, 85)):
        scene.lay_out()
        assert killed_at(first, lambda: put_back(scene.run), scene.user)
        killed_at(second, lambda: put_back(scene.run), scene.user)
        scene.check((first, second))


def traced(scene: Scene, kill: tuple[str, int] | None) -> tuple[int, Counter[str]]:
    """``docket restore --apply`` under strace, killed at the n-th call of a name; its status, and the calls by name."""
    log = scene.place / "strace"
    inject = ["-e", f"inject={kill[0]}:signal=KILL:when={kill[1]}"] if kill is not None else []
    command = [sys.executable, "-m", "docket", "restore", str(scene.run), "--apply"]
    done = subprocess.run(
        ["strace", "-f", "-o", str(log), "-e", f"trace={CHANGING}", *inject, *command],
        capture_output=True,
        check=False,
        timeout=100,
    )
    names = re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
    return done.returncode, Counter(names)


def kill_by_strace(first: int, step: int) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not here: no restore was killed from outside")
    scene = Scene(None)
    try:
        scene.lay_out()
        status, calls = traced(scene, None)
        assert status == 0
        assert calls.keys() >= {"mkdirat", "renameat", "unlinkat", "symlinkat", "fchmod", "utimensat", "fdatasync"}
        assert sight(scene.root, times=True) == scene.before
        points = [(name, number) for name, count in sorted(calls.items()) for number in range(1, count + 1)]
        for point in points[first::step]:
            scene.lay_out()
            status, _ = traced(scene, point)
            assert status == -signal.SIGKILL, point
            scene.check(point)
            assert restore(scene.run).returncode == 0
    finally:
        shutil.rmtree(scene.place, ignore_errors=True)


def test_killed_from_outside_at_some_system_calls() -> None:
    kill_by_strace(random.Random(SEED).randint(0, 29), 30)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_from_outside_at_every_system_call() -> None:
    kill_by_strace(0, 1)


def test_sight_sees_times(tmp_path: Path) -> None:
    """The comparison above would notice a directory whose time was not put back."""
    (tmp_path / "d").mkdir()
    before: Sight = sight(tmp_path, times=True)
    os.utime(tmp_path / "d", ns=(1, 1))
    assert sight(tmp_path, times=True) != before
