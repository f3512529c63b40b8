"""A sample of ``make fuzz``: no mutant makes a verifier fail by itself, and all verifiers give one answer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from conformance import fuzz
from conformance.fuzz import draw, ours
from conformance.verifiers import verifier
from kit.recordings import write

SEED = int(os.environ.get("SEED", "20261130"))


def test_no_mutant_makes_the_verifier_fail_by_itself(tmp_path: Path) -> None:
    for number in range(600):
        files, path = draw(SEED, number)
        verdict, checks = ours(write(files, tmp_path / str(number)) / path)
        assert sum(status == "fail" for _, status in checks) == (verdict == "failed"), f"SEED={SEED} number {number}"


@pytest.mark.parametrize("program", ["js", "go"])
def test_a_sample_of_mutants_gets_one_answer(program: str, tmp_path: Path) -> None:
    tried = verifier(program)
    paths = []
    for number in range(250):
        files, path = draw(SEED + 1, number)
        paths.append(write(files, tmp_path / str(number)) / path)
        paths[-1].parent.mkdir(exist_ok=True)
    differing = [
        f"SEED={SEED + 1} number {number}: {left[0]} {right[0]}"
        for number, (left, right) in enumerate(zip(map(ours, paths), tried.batch(paths), strict=True))
        if left != right
    ]
    assert differing == []


@pytest.mark.long
@pytest.mark.timeout(6000)
def test_five_hundred_thousand_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    status = fuzz.main(5400, SEED, fuzz.ENOUGH)
    log = json.loads(capsys.readouterr().out)
    assert log["disagreements"] == []
    assert log["documents"] >= fuzz.ENOUGH
    assert log["never_hit"] == []
    assert status == 0
