"""docs/security.md: every row of its trials names a test, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
TRIALS = ("Ways past a cap that were tried", "Trials of the wire", "Trials of the machine")
NAMED = re.findall(r"`(tests/[a-z_/0-9]+\.py)::(test_[a-z0-9_]+)`", PAGE)


def rows(heading: str) -> list[str]:
    """The rows of the table below a heading, without its own heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("heading", TRIALS)
def test_every_trial_on_the_page_names_the_test_that_holds_it(heading: str) -> None:
    found = rows(heading)
    assert len(found) >= 10
    assert [row for row in found if not re.search(r"\| `tests/[a-z_/0-9]+\.py::test_[a-z0-9_]+` \|$", row)] == []


def test_no_trial_stands_on_the_page_twice() -> None:
    tried = [row.split(" | ")[0] for heading in TRIALS for row in rows(heading)]
    assert sorted(tried) == sorted(set(tried))


def test_the_page_names_tests() -> None:
    assert len(NAMED) >= 13


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_trial_on_the_page_is_a_test_that_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
