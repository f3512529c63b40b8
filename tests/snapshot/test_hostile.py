"""Hostile trees and hostile run directories, restored while strace looks on: nothing outside the root is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.changes import status_of
from kit.files import MEMORY, put_back, record, sight
from kit.hostile import SCENES, Scene, lay_out
from kit.observed import Seen, below, observe


@dataclass(frozen=True)
class Watched:
    """All scenes, restored in one watched process."""

    scenes: dict[str, Scene]
    seen: dict[str, Seen]
    outside: dict[str, object]


@pytest.fixture(scope="module", params=["openat2", pytest.param("walk", marks=pytest.mark.long)])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    if shutil.which("strace") is None:
        pytest.skip("strace is not here: no restore was observed from outside")
    if os.geteuid() != 0:
        pytest.skip("only root can lay out every scene")
    place = Path(tempfile.mkdtemp(prefix="docket-hostile-", dir=MEMORY if MEMORY.is_dir() else None))
    scenes = {name: lay_out(place / name, name) for name in SCENES}
    before = {name: _state(scene.outside) for name, scene in scenes.items()}
    restores = {
        name: [str(place), str(scene.run), "--apply", "--no-diff", *scene.arguments] for name, scene in scenes.items()
    }
    seen = observe(restores, place / "strace.log", openat2=request.param == "openat2")
    yield Watched(scenes, seen, before)
    shutil.rmtree(place, ignore_errors=True)


def _state(outside: Path) -> dict[str, object]:
    """Everything that a change of any kind below ``outside`` would change."""
    out: dict[str, object] = {}
    for path in [outside, *sorted(outside.rglob("*"))]:
        status = path.lstat()
        out[str(path)] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, status.st_ino)
    return out


def test_there_are_forty_scenes_and_more() -> None:
    assert len(SCENES) >= 60


@pytest.mark.parametrize("name", SCENES)
def test_nothing_outside_the_root_is_touched(watched: Watched, name: str) -> None:
    scene, seen = watched.scenes[name], watched.seen[name]
    assert not below(seen.opened, scene.outside)
    work = [scene.work, scene.place / "moved", scene.run]
    strange = [path for path in seen.changed if path != "/dev/null" and not any(below([path], each) for each in work)]
    assert not strange
    assert _state(scene.outside) == watched.outside[name]


@pytest.mark.parametrize("name", SCENES)
def test_the_outcome_is_the_right_one(watched: Watched, name: str) -> None:
    scene = watched.scenes[name]
    assert watched.seen[name].status in scene.expected
    scene.after()


@pytest.mark.parametrize("name", SCENES)
def test_nothing_is_left_lying_about(watched: Watched, name: str) -> None:
    scene = watched.scenes[name]
    found = ["find", str(scene.work), "-name", ".docket-restore-*", "-not", "-type", "d"]
    assert subprocess.run(found, capture_output=True, check=False).stdout == b""


def test_the_observer_sees_what_it_must_not_see(tmp_path: Path) -> None:
    """A restore that did go outside would be noticed: here the tree itself is called the outside."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not here")
    scene = lay_out(tmp_path / "file_is_a_link_forced", "file_is_a_link_forced")
    restores = {"x": [str(tmp_path), str(scene.run), "--apply", "--no-diff", "--force"]}
    seen = observe(restores, tmp_path / "strace.log")["x"]
    assert seen.status == 0
    assert below(seen.opened, scene.work / "sub")
    assert str(scene.work / "top") in seen.changed
    assert str(scene.work / "added") in seen.changed


# ── a tree that changes during the restore ──


def _swap_at(event: int, scene: Scene) -> None:
    """Restore; right before the ``event``-th audited call a directory of the tree becomes a link out of it."""
    count = 0

    def hook(name: str, _: object) -> None:
        nonlocal count
        if not name.startswith(("os.", "open")):
            return
        count += 1
        if count == event:
            (scene.work / "sub").rename(scene.work / "moved-away")
            (scene.work / "sub").symlink_to("../outside")

    sys.addaudithook(hook)
    put_back(scene.run)


@pytest.mark.parametrize("use_openat2", [True, False])
def test_a_directory_that_becomes_a_link_at_any_moment(tmp_path: Path, use_openat2: bool) -> None:
    place = Path(tempfile.mkdtemp(prefix="docket-race-", dir=MEMORY if MEMORY.is_dir() else tmp_path))
    try:
        for event in range(1, 400, 13):
            scene = lay_out(place / f"directory_is_a_link@{event}", "added_directory_is_a_link_forced")
            before = _state(scene.outside)

            def swapped(event: int = event, scene: Scene = scene) -> None:
                if not use_openat2:
                    from docket.snapshot import confined

                    confined.openat2 = lambda root, path: None  # type: ignore[assignment]
                _swap_at(event, scene)

            assert status_of(swapped) == 0
            assert _state(scene.outside) == before, event
            assert (scene.outside / "keep").read_text() == "outside and untouched\n"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_a_file_written_meanwhile_is_refused_and_kept(tmp_path: Path) -> None:
    """What the plan saw is looked at once more right before it is replaced."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "file").write_text("before")
    run, _ = record(root, lambda: (root / "file").write_text("after"))

    def late() -> None:
        def hook(name: str, arguments: tuple[object, ...]) -> None:
            if name == "os.rename" and str(arguments[0]).startswith(".docket-restore-"):
                raise AssertionError("the check comes before the rename")
            if name == "os.chmod" or (name == "open" and str(arguments[0]).startswith(".docket-restore-")):
                (root / "file").write_text("a person's")

        sys.addaudithook(hook)
        _, results = put_back(run)
        assert [(result.outcome, result.reason) for result in results] == [("refused", "changed during the restore")]

    assert status_of(late) == 0
    assert (root / "file").read_text() == "a person's"
    assert sight(root).keys() == {".", "file"}
    records = [json.loads(path.read_text()) for path in (run / "restores").iterdir()]
    assert [record["state"] for record in records] == ["finished"]
