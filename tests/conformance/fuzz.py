"""``make fuzz``: mutants of the vectors to every verifier there is; they must give one answer, check by check.

Prints one JSON document: how many documents, how often each check failed first, and every disagreement by seed and
number. Exit status 1 where there was one, or where a check was never hit in a run of 500,000 documents.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic  # noqa: TID251 - a deadline of this command

from conformance.catalog import catalogue
from conformance.mutate import mutant
from conformance.scene import OPERATOR, short
from conformance.verifiers import Answer, Verifier, answer_of, go, javascript
from docket.errors import FormatError
from docket.primitives.canonical import encode
from docket.storage.documents import documents_at
from docket.verify.context import Pins
from docket.verify.verifier import CHECKS, unreadable, verify
from kit.recordings import Files, write

BATCH = 1000
"""Mutants on disk at once."""
ENOUGH = 500_000
"""Documents after which every check must have been hit."""


def ours(path: Path, pins: dict[str, str] | None = None) -> Answer:
    """The answer of this process; ``pins`` are values by the name of their flag."""
    try:
        report = verify(
            documents_at(path), Pins(**{name[2:].replace("-", "_"): pin for name, pin in (pins or {}).items()})
        )
    except FormatError as error:
        report = unreadable(str(error))
    return answer_of(report.to_json())


def draw(seed: int, number: int) -> tuple[Files, str]:
    """Mutant ``number`` of ``seed``, and the path in it to verify."""
    dice = random.Random(f"{seed} {number}")
    vector = dice.choice([each for each in catalogue() if not each.args and "beyond-256" not in each.name])
    return mutant(_files(vector.name), dice), vector.path


def _files(name: str, made: dict[str, Files] = {}) -> Files:  # noqa: B006 - the memory of this process
    if name not in made:
        made[name] = next(each for each in catalogue() if each.name == name).make()
    return made[name]


def pins_of(batch: int) -> dict[str, str]:
    """What is pinned in a batch: nothing in most, in three of ten one value that most vectors have or lack."""
    run = short(signed=True)
    values = (
        ("--run-key", run.sessions[0].key.public.hex()),
        ("--root", run.root),
        ("--operator", OPERATOR.public.hex()),
    )
    return dict(values[batch % 10 : batch % 10 + 1])


def main(seconds: float, seed: int, limit: int) -> int:
    """Fuzz until time or number is reached; the exit status."""
    others = [each for each in (javascript(), go()) if each is not None]
    hits: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    disagreements: list[str] = []
    number, ends = 0, monotonic() + seconds
    while monotonic() < ends and number < limit:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
            paths = []
            for at in range(BATCH):
                files, path = draw(seed, number + at)
                paths.append(write(files, Path(directory) / str(at)) / path)
                paths[-1].parent.mkdir(exist_ok=True)
            pins = pins_of(number // BATCH)
            answers = [ours(path, pins) for path in paths]
            for answer in answers:
                verdicts[answer[0]] += 1
                hits.update(check for check, status in answer[1] if status == "fail")
            for other in others:
                disagreements += _compare(other, paths, pins, answers, f"{seed} {number}")
            for path in Path(directory).iterdir():
                shutil.rmtree(path, ignore_errors=True)
        number += BATCH
    missed = sorted({check for check, _ in CHECKS} - set(hits))
    sys.stdout.write(
        encode(
            {
                "seed": seed,
                "documents": number,
                "verifiers": ["python", *(other.name for other in others)],
                "verdicts": dict(verdicts),
                "first_failures": dict(hits),
                "never_hit": list(missed),
                "disagreements": list(disagreements),
            }
        ).decode()
        + "\n"
    )
    return int(bool(disagreements) or (number >= ENOUGH and bool(missed)))


def _compare(other: Verifier, paths: list[Path], pins: dict[str, str], answers: list[Answer], place: str) -> list[str]:
    found = []
    args = [each for pair in pins.items() for each in pair]
    for at, (left, right) in enumerate(zip(answers, other.batch(paths, args), strict=True)):
        if left != right:
            pairs = [pair for pair in zip(left[1], right[1], strict=False) if pair[0] != pair[1]]
            found.append(f"{place} + {at}: python {left[0]}, {other.name} {right[0]}: {pairs[:3]}")
    return found


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
