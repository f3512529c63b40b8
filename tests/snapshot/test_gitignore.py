"""gitignore semantics, with git itself as the oracle."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.snapshot.gitignore import Patterns, parse

NAMES = st.sampled_from(
    ["a", "b", "ab", "a.log", "log", "node_modules", "x y", "A", "-", "a]", "[a", "!a", "#a", "a\\"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PIECES = st.sampled_from(
    [
        *"ab/*?!# -]",
        "**",
        "**/",
        "/**",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-b]",
        "[[:alpha:]]",
        "[]a]",
        ".log",
        "\\",
        "\\ ",
        "x y",
    ]
)
BEYOND_THE_MANUAL = re.compile(r"[^/!]\*\*|\*\*[^/]")
"""``a**/b``: the manual says a plain star; git's code cuts the literal prefix first and then sees a ``**/``."""
LINE = st.lists(PIECES, min_size=1, max_size=6).map("".join).filter(lambda line: not BEYOND_THE_MANUAL.search(line))
LINES = st.lists(LINE, min_size=1, max_size=4)


def _git_says(directory: Path, path: str) -> bool:
    """Whether git ignores ``path`` (never in the index) or a directory above it."""
    run = subprocess.run(
        ["git", "check-ignore", "-q", "--no-index", "--", path],
        cwd=directory,
        env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(directory)},
        capture_output=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr
    return run.returncode == 0


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not here: gitignore semantics were not compared with it")
    directory = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    return directory


@settings(max_examples=int(os.environ.get("DOCKET_GIT_EXAMPLES", "250")), deadline=None)
@given(lines=LINES, path=PATHS)
def test_every_verdict_is_gits(repository: Path, lines: list[str], path: str) -> None:
    (repository / ".gitignore").write_text("\n".join(lines) + "\n")
    assert Patterns(lines).covers(path, is_dir=False) == _git_says(repository, path)


@pytest.mark.parametrize(
    ("lines", "path", "is_dir", "ignored"),
    [
        (["*.log"], "deep/run.log", False, True),
        (["/run.log"], "deep/run.log", False, False),
        (["build/"], "build", False, False),
        (["build/"], "build", True, True),
        (["build/"], "build/x", False, True),
        (["*", "!keep"], "keep", False, False),
        (["d/", "!d/keep"], "d/keep", False, True),
        (["a/**/z"], "a/b/c/z", False, True),
        (["a/**/z"], "a/z", False, True),
        (["a/**"], "a", True, False),
        (["\\!a"], "!a", False, True),
        (["\\#a"], "#a", False, True),
        (["a\\ "], "a ", False, True),
        (["a  "], "a", False, True),
        (["a\r"], "a", False, True),
    ],
)
def test_the_manual_page_by_example(lines: list[str], path: str, is_dir: bool, ignored: bool) -> None:
    assert Patterns(lines).covers(path, is_dir) == ignored


@pytest.mark.parametrize("line", ["", "#comment", "   ", "!", "/"])
def test_lines_that_are_no_pattern(line: str) -> None:
    assert parse(line) is None


def test_a_hostile_pattern_stays_cheap() -> None:
    """Plain backtracking would need longer than the age of the universe; the test's timeout is the assertion."""
    stars = Patterns(["*a" * 60 + "b", "**/a/" * 60 + "b"])
    assert stars.verdict("a" * 255, False) is None
    assert stars.verdict("/".join(["a"] * 250), False) is None
