"""Whatever an agent does to a tree, a restore gives it back; what it does not give back it says."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from docket.snapshot.manifest import ROOT
from docket.snapshot.plan import Do
from docket.snapshot.restore import Plan
from kit.changes import NOBODY, TREES, Operation, carry_out, in_child
from kit.files import MEMORY, Sight, put_back, record, sight


def roundtrip(root: Path, tree: list[Operation], changes: list[Operation], user: int | None = None) -> None:
    """Build ``tree`` below ``root``, record ``changes``, restore, compare; all of it as ``user``."""
    in_child(lambda: carry_out(root, tree), user=user)
    before = sight(root)
    run = in_child(lambda: record(root, lambda: in_child(lambda: carry_out(root, changes)))[0], user=user)
    after = sight(root)
    plan, results = in_child(lambda: put_back(run), user=user)
    assert {result.outcome for result in results} <= {"done", "already there", "left"}, results
    assert covered(sight(root), plan) == covered(before, plan), (before, after, results)
    again, _ = in_child(lambda: put_back(run), user=user)
    assert not [step for step in again.steps if step.do.acts or step.do is Do.REFUSE]


def covered(tree: Sight, plan: Plan) -> Sight:
    """``tree`` without set-id bits, and without the paths that a restore says it does not give back."""
    left = {step.path for step in plan.steps if step.do is Do.LEAVE}
    left |= {path for path, reason in plan.left_out if reason in ("fifo", "socket", "char", "block")}
    hidden = tuple(path + "/" for path, reason in plan.left_out if reason == "unreadable")
    return {
        path: (kind, mode & ~0o6000 if kind == stat.S_IFREG else mode, *rest)  # type: ignore[operator]
        for path, (kind, mode, *rest) in tree.items()
        if path not in left and not path.startswith(hidden)
    }


def _new_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="docket-tree-", dir=MEMORY if MEMORY.is_dir() else None))
    root.chmod(0o755)
    return root


def _examples(default: int) -> settings:
    return settings(
        max_examples=int(os.environ.get("DOCKET_TREES", default)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look into every tree to compare it")
@_examples(50)
@given(tree=TREES, changes=TREES)
def test_any_tree_comes_back_from_any_changes(tree: list[Operation], changes: list[Operation]) -> None:
    root = _new_root()
    try:
        roundtrip(root, tree, changes)
    finally:
        shutil.rmtree(root, ignore_errors=True)


UNSEARCHABLE: list[Operation] = [("write", "a", b""), ("chmod", ".gitignore", 0o644)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@example(tree=[("mkdir", ".gitignore/a")], changes=UNSEARCHABLE)
@_examples(30)
@given(tree=TREES, changes=TREES)
def test_a_user_without_privileges_gets_read_only_trees_back_too(
    tree: list[Operation], changes: list[Operation]
) -> None:
    root = _new_root()
    os.chown(root, NOBODY, NOBODY)
    try:
        roundtrip(root, tree, changes, NOBODY)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES, changes=TREES, user=st.sampled_from([None, NOBODY]))
def test_three_thousand_trees(tree: list[Operation], changes: list[Operation], user: int | None) -> None:
    root = _new_root()
    if user is not None:
        os.chown(root, NOBODY, NOBODY)
    try:
        roundtrip(root, tree, changes, user)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_the_root_itself_is_part_of_the_tree(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir(mode=0o750)
    run, _ = record(root, lambda: root.chmod(0o711))
    plan, _ = put_back(run)
    assert [(step.path, step.do) for step in plan.steps] == [(ROOT, Do.RESTORE)]
    assert stat.S_IMODE(root.stat().st_mode) == 0o750
