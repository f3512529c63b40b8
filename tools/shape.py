"""Report the shape of the code: module and function lengths, branching, docstrings, comments. Never a gate.

Use: ``python -m tools.shape DIRECTORY``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

LONG_MODULE = 400
"""Lines; about what one sitting reads."""
LONG_FUNCTION = 45
"""Lines; about a screen."""
MANY_BRANCHES = 10
_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.BoolOp,
    ast.comprehension,
    ast.match_case,
)


@dataclass(frozen=True)
class Function:
    """One function or method."""

    place: str
    lines: int
    branches: int
    public: bool
    documented: bool


def functions(path: Path, tree: ast.Module) -> Iterator[Function]:
    """Every function of a module, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(
                place=f"{path}:{node.lineno} {node.name}",
                lines=(node.end_lineno or node.lineno) - node.lineno + 1,
                branches=1 + sum(isinstance(inner, _BRANCHES) for inner in ast.walk(node)),
                public=not node.name.startswith("_"),
                documented=ast.get_docstring(node) is not None,
            )


def comment_share(text: str) -> float:
    """Part of the non-empty lines that begin with a comment."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return sum(line.startswith("#") for line in lines) / len(lines) if lines else 0.0


def report(root: Path) -> Iterator[str]:
    """The lines of the report on the Python files under ``root``."""
    paths = sorted(path for path in root.rglob("*.py") if path.stat().st_size)
    texts = {path: path.read_text() for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lengths = {path: text.count("\n") for path, text in texts.items()}
    found = [function for path in paths for function in functions(path, trees[path])]
    yield f"{len(paths)} modules, {sum(lengths.values())} lines; median {median(lengths.values()):.0f}"
    yield f"{len(found)} functions; median {median(f.lines for f in found):.0f} lines"
    public = [function for function in found if function.public]
    yield f"{sum(f.documented for f in public)} of {len(public)} public functions have a docstring"
    yield f"comment lines: {100 * comment_share(''.join(texts.values())):.1f} %"
    missing = [str(path) for path in paths if ast.get_docstring(trees[path]) is None]
    yield from (f"no module docstring: {path}" for path in missing)
    for path, lines in sorted(lengths.items(), key=lambda item: -item[1]):
        if lines > LONG_MODULE:
            yield f"long module: {path} {lines} lines"
    for function in sorted(found, key=lambda function: -function.lines):
        if function.lines > LONG_FUNCTION or function.branches > MANY_BRANCHES:
            yield f"look at: {function.place} {function.lines} lines, {function.branches} branches"


if __name__ == "__main__":
    print("\n".join(report(Path(sys.argv[1]))))
