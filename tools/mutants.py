"""A mutation run over the core: change one operator or constant at a time, and see whether a test notices.

Use: ``python -m tools.mutants [--each N] [--seed S] [--package NAME ...] > mutants.json``. For each package a seeded
sample of N mutants is tried, two at a time, each in an environment with its own copy of the source, against the tests
that belong to that package. What no test notices has *survived*: a test is missing, or the change means nothing.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from kit.installed import environment_with_a_copy

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/docket"
TESTS = {
    "primitives": ["tests/primitives"],
    "ledger": ["tests/ledger"],
    "policy": ["tests/policy", "tests/docs/test_pages.py"],
    "pricing": ["tests/pricing", "tests/control"],
    "providers": ["tests/providers"],
    "control": ["tests/control"],
    "receipt": ["tests/receipt"],
    "verify": ["tests/verify"],
}
WORKERS = 2
TIMEOUT_SECONDS = 240.0
"""A mutant that makes a loop endless ends by this, and so does a test on a machine that is too busy."""
COMPARE = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in"}
COMPARE |= {ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "*", ast.BitAnd: "|"}


Outcome = Literal["noticed", "survived", "timed out"]


@dataclass(frozen=True)
class Mutant:
    """One change: replace the source text from ``start`` to ``end`` (offsets in bytes) by ``new``."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in order of appearance; docstrings and annotations stay."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr, *, end: bool = False) -> int:
        if end:
            return starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return starts[node.lineno - 1] + node.col_offset

    def between(node: ast.AST, left: ast.expr, right: ast.expr, new: str) -> Mutant | None:
        start, end = place(left, end=True), place(right)
        old = text[start:end].decode()
        if any(mark in old for mark in "()\n#"):
            return None
        return Mutant(str(path.relative_to(SOURCE)), left.lineno, start, end, old.strip(), f" {new} ")

    tree = ast.parse(text)
    declared = {id(inner) for node in ast.walk(tree) for call in _decorators(node) for inner in ast.walk(call)}
    for node in ast.walk(tree):
        found: Mutant | None = None
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARE:
                found = between(node, left, right, COMPARE[type(op)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not _is_text(left, right):
                found = between(node, left, right, ARITHMETIC[type(op)])
            case ast.BoolOp(op=op, values=[left, right, *_]):
                found = between(node, left, right, "or" if isinstance(op, ast.And) else "and")
            case ast.Constant(value=bool() as value):
                start, end = place(node), place(node, end=True)
                found = Mutant(str(path.relative_to(SOURCE)), node.lineno, start, end, str(value), str(not value))
            case ast.Constant(value=int() as value):
                start, end = place(node), place(node, end=True)
                found = Mutant(str(path.relative_to(SOURCE)), node.lineno, start, end, str(value), str(value + 1))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                start, end = place(node), place(operand)
                found = Mutant(str(path.relative_to(SOURCE)), node.lineno, start, end, "not", "")
        if found is not None and id(node) not in declared:
            yield found


def _decorators(node: ast.AST) -> list[ast.expr]:
    """Decorators, whose arguments (``frozen=True``) are declarations that no run depends on."""
    return node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []


def _is_text(*nodes: ast.expr) -> bool:
    """Whether one of ``nodes`` is a string, whose ``+`` and ``%`` are no arithmetic."""
    return any(isinstance(node, ast.JoinedStr | ast.Constant) and not _is_number(node) for node in nodes)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def sample(package: str, each: int, seed: int) -> list[Mutant]:
    """A seeded sample of ``each`` mutants of a package."""
    found = [mutant for path in sorted((SOURCE / package).rglob("*.py")) for mutant in mutants_of(path)]
    return sorted(
        random.Random(f"{seed}/{package}").sample(found, min(each, len(found))), key=lambda m: (m.file, m.start)
    )


def outcome_of(mutant: Mutant, tests: list[str], python: Path, copy: Path) -> Outcome:
    """What the tests say with the mutant in place of the original."""
    path = copy / mutant.file
    original = path.read_bytes()
    path.write_bytes(original[: mutant.start] + mutant.new.encode() + original[mutant.end :])
    try:
        return ask(tests, python)
    finally:
        path.write_bytes(original)


def ask(tests: list[str], python: Path) -> Outcome:
    """Run ``tests`` in the environment of ``python``."""
    command = [str(python), "-m", "pytest", "-x", "-q", "-m", "not long", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "timed out"
    return "noticed" if done.returncode else "survived"


def run(packages: list[str], each: int, seed: int) -> dict[str, object]:
    """Try the samples of ``packages``; survivors and mutants that timed out are listed."""
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as room, ThreadPoolExecutor(WORKERS) as pool:
        free: SimpleQueue[tuple[Path, Path]] = SimpleQueue()
        for number in range(WORKERS):
            free.put(environment_with_a_copy(Path(room) / str(number)))

        def attempt(mutant: Mutant, tests: list[str]) -> Outcome:
            python, copy = free.get()
            try:
                return outcome_of(mutant, tests, python, copy)
            finally:
                free.put((python, copy))

        for package in packages:
            python, copy = free.get()
            unchanged = ask(TESTS[package], python)
            free.put((python, copy))
            if unchanged != "survived":
                results[package] = {"tried": 0, "why": f"its tests give {unchanged!r} without any mutant"}
                continue
            chosen = sample(package, each, seed)
            said = list(pool.map(lambda mutant, tests=TESTS[package]: attempt(mutant, tests), chosen))
            counts = {outcome: said.count(outcome) for outcome in ("noticed", "survived", "timed out")}
            others = [asdict(m) | {"outcome": o} for m, o in zip(chosen, said, strict=True) if o != "noticed"]
            results[package] = {"tried": len(chosen)} | counts | {"others": others}
            print(f"{package}: {counts}", file=sys.stderr, flush=True)
    return {"seed": seed, "each": each, "packages": results}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", action="append", choices=sorted(TESTS))
    options = parser.parse_args()
    report = run(options.package or list(TESTS), options.each, options.seed)
    print(json.dumps(report, indent=1))  # noqa: TID251 a report, not canonical
