"""Every attack on a real run of the installed docket gets its verdict and first failing check from every verifier."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from conformance.attacks import event_edits, event_order, foreign_documents, note_edits, receipt_members
from conformance.attacks.attack import Attack, Runs, real_runs
from conformance.verifiers import Answer, verifier
from kit.installed import Installed, installed_once, started_provider
from kit.recordings import write

KINDS = (event_edits, event_order, foreign_documents, note_edits, receipt_members)
LEAST = 120


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    here = installed_once(tmp_path_factory.getbasetemp()) / "bin"
    with started_provider(here / "python") as provider:
        return real_runs(Installed(here / "python", here / "docket", tmp_path_factory.mktemp("attacked")), provider)


@pytest.fixture(scope="module")
def laid_out(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Attack, Path]]:
    """Every attack, and the directory that it leaves."""
    root = tmp_path_factory.mktemp("attacks")
    found = []
    for number, attack in enumerate(each for kind in KINDS for each in kind.attacks(runs)):
        path = write(attack.files, root / str(number))
        if attack.special is not None:
            attack.special(path)
        found.append((attack, path))
    return found


def said(answer: Answer) -> tuple[str, str]:
    return answer[0], next((check for check, status in answer[1] if status == "fail"), "")


def test_there_are_many_attacks_and_each_changes_something(laid_out: list[tuple[Attack, Path]], runs: Runs) -> None:
    names = [attack.name for attack, _ in laid_out]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert len(names) >= LEAST
    untouched = (runs.plain, runs.signed, runs.resumed)
    assert [attack.name for attack, _ in laid_out if attack.files in untouched and not attack.args] == []


@pytest.mark.parametrize("program", ["python", "js", "go"])
def test_every_attack_gets_its_verdict_and_its_first_failing_check(
    program: str, laid_out: list[tuple[Attack, Path]], runs: Runs, tmp_path: Path
) -> None:
    tried = verifier(program)
    unharmed = [write(getattr(runs, name), tmp_path / name) for name in ("plain", "signed", "resumed")]
    assert [said(answer) for answer in tried.batch(unharmed)] == [("verified", "")] * len(unharmed)
    plain = [(attack, path) for attack, path in laid_out if not attack.args]
    answers = list(zip(plain, tried.batch([path for _, path in plain]), strict=True))
    for attack, path in laid_out:
        if attack.args:
            answers.append(((attack, path), tried.batch([path], attack.args)[0]))
    wrong = [
        f"{attack.name}: {said(answer)}, not {(attack.verdict, attack.check)}"
        for (attack, _), answer in answers
        if said(answer) != (attack.verdict, attack.check)
    ]
    assert not wrong, "\n".join(wrong)
