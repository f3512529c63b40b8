"""The matrix: every vector by every verifier, compared check by check; and the vectors themselves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import ROOT, VECTORS, catalogue
from conformance.verifiers import PYTHON, Answer, verifier
from conformance.write import SPEC, table
from docket.verify.verifier import CHECKS

EXITS = {"verified": 0, "failed": 1, "unreadable": 2}
IDS = tuple(check["id"] for check in tomllib.loads((ROOT / "spec" / "checks.toml").read_text())["check"])


def committed() -> list[tuple[str, dict[str, Any], Path]]:
    """Every committed vector: its name, what it expects, and the path to verify."""
    found = []
    for expect in sorted(VECTORS.glob("*/*/expect.toml")):
        wanted = tomllib.loads(expect.read_text())
        name = str(expect.parent.relative_to(VECTORS))
        found.append((name, wanted, expect.parent / wanted.get("path", ".")))
    return found


def first_failure(answer: Answer) -> str:
    return next((check for check, status in answer[1] if status == "fail"), "")


@pytest.mark.parametrize("program", ["python", "js", "go"])
def test_every_vector_gets_its_verdict_and_its_first_failing_check(program: str) -> None:
    tried = verifier(program)
    plain = [each for each in committed() if "args" not in each[1]]
    answers = dict(zip((name for name, _, _ in plain), tried.batch([path for _, _, path in plain]), strict=True))
    for name, wanted, path in committed():
        if "args" in wanted:
            answers[name] = tried.batch([path], wanted["args"])[0]
    wrong = {
        name: (answers[name][0], first_failure(answers[name]))
        for name, wanted, _ in committed()
        if (answers[name][0], first_failure(answers[name])) != (wanted["verdict"], wanted["check"])
    }
    assert wrong == {}
    assert {tuple(check for check, _ in answer[1]) for answer in answers.values()} == {IDS}


@pytest.mark.parametrize("program", ["js", "go"])
def test_every_verifier_agrees_with_the_first_check_by_check(program: str) -> None:
    tried = verifier(program)
    differing = {}
    plain = [(name, path) for name, wanted, path in committed() if "args" not in wanted]
    paths = [path for _, path in plain]
    for (name, _), ours, theirs in zip(plain, PYTHON.batch(paths), tried.batch(paths), strict=True):
        if ours != theirs:
            pairs = zip(ours[1], theirs[1], strict=True)
            differing[name] = [(left, right) for left, right in pairs if left != right]
    assert differing == {}


@pytest.mark.parametrize("program", ["python", "js", "go"])
def test_a_single_call_exits_by_its_verdict(program: str) -> None:
    tried = verifier(program)
    seen: set[str] = set()
    for _, wanted, path in committed():
        if wanted["verdict"] not in seen and "args" not in wanted:
            seen.add(wanted["verdict"])
            answer, status = tried.once(path)
            assert (answer[0], status) == (wanted["verdict"], EXITS.get(wanted["verdict"], 3))
    assert seen == {"verified", "failed", "unreadable", "incomplete", "recovered", "unsealed", "unfinished"}


def test_the_generators_reproduce_the_committed_bytes() -> None:
    wanted = {f"{vector.name}/{name}": data for vector in catalogue() for name, data in vector.files().items()}
    found = {str(path.relative_to(VECTORS)): path.read_bytes() for path in VECTORS.rglob("*") if path.is_file()}
    assert sorted(found) == sorted(wanted)
    assert [name for name in found if found[name] != wanted[name]] == []


def test_the_specification_lists_the_vectors_of_its_rules() -> None:
    assert SPEC.read_text().endswith(table())


def test_every_rule_that_a_vector_or_a_check_names_exists() -> None:
    rules = set(re.findall(r"\*\*([A-Z]-[0-9]+)\*\*", SPEC.read_text()))
    checks = tomllib.loads((ROOT / "spec" / "checks.toml").read_text())["check"]
    named = {rule for vector in catalogue() for rule in vector.rules.split()}
    named |= {rule for check in checks for rule in check["rule"].split()}
    assert named <= rules


def test_there_are_enough_vectors_and_every_check_fails_in_one() -> None:
    vectors = catalogue()
    accepted = [vector for vector in vectors if "/accept-" in vector.name[3:] or "-accept-" in vector.name]
    assert len(vectors) >= 150
    assert len(accepted) >= 20
    assert {vector.check for vector in vectors} - {""} == set(IDS)


def test_the_checks_of_the_specification_are_those_of_the_verifier() -> None:
    assert tuple(check for check, _ in CHECKS) == IDS
