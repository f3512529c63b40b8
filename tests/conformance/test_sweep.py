"""Every single-byte change of a committed run directory changes the verdict, in every verifier."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from conformance.catalog import VECTORS
from conformance.verifiers import verifier
from kit.recordings import Files, write

FLIPS = (0x01, 0x20, 0x80)
BATCH = 1000
"""Changed directories on disk at once."""


def run() -> Files:
    """The committed run directory."""
    (directory,) = VECTORS.glob("receipt/*-accept-with-operator")
    return {name: (directory / name).read_bytes() for name in ("ledger.jsonl", "checkpoints", "receipt.json")}


def changes() -> list[tuple[str, int, int]]:
    """Every file, place and flip."""
    return [(name, at, flip) for name, data in run().items() for at in range(len(data)) for flip in FLIPS]


def surviving(program: str, chosen: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Those of the ``chosen`` changes after which ``program`` still says verified."""
    tried, files, found = verifier(program), run(), []
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    for first in range(0, len(chosen), BATCH):
        batch = chosen[first : first + BATCH]
        with tempfile.TemporaryDirectory(dir=shared) as directory:
            paths = []
            for number, (name, at, flip) in enumerate(batch):
                data = bytearray(files[name])
                data[at] ^= flip
                paths.append(write({**files, name: bytes(data)}, Path(directory) / str(number)))
            answers = tried.batch(paths)
        found += [change for change, answer in zip(batch, answers, strict=True) if answer[0] == "verified"]
    return found


@pytest.mark.parametrize("program", ["python", "js", "go"])
def test_a_sample_of_single_byte_changes_is_found_out(program: str) -> None:
    assert surviving(program, random.Random(20261130).sample(changes(), 300)) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", ["python", "js", "go"])
def test_every_single_byte_change_is_found_out(program: str) -> None:
    assert surviving(program, changes()) == []
