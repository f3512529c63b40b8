"""docs/security.md: every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`(tests/[a-z_/0-9]+\.py)::(test_[a-z0-9_]+)`", (ROOT / "docs/security.md").read_text())


def test_the_page_names_tests() -> None:
    assert len(NAMED) >= 13


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_trial_on_the_page_is_a_test_that_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
