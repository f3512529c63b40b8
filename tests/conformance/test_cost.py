"""What a verification may cost: 256 MiB and 3 s of CPU for any receipt that is small enough to be read, and no path on
which time grows faster than what is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import heavy
from conformance.scene import short
from conformance.verifiers import verifier
from kit.recordings import write

PROGRAMS = ("python", "js", "go")
MOST_MIB = 256
MOST_SECONDS = 3.0
SAMPLE = ("objects each with a private member",)


METER = """
import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
_, status, used = os.wait4(os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet), 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss, used.ru_utime + used.ru_stime)
"""
"""A small process of its own: a child counts the memory of whoever started it as its own."""


def cost(program: str, path: Path) -> tuple[int, float]:
    """MiB at the most, and seconds of CPU, of one verification."""
    command = [sys.executable, "-S", "-c", METER, *verifier(program).command, "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, kibibytes, seconds = done.stdout.split()
    assert status in "012"
    return int(kibibytes) // 1024, float(seconds)


def _measure(program: str, names: tuple[str, ...], place: Path) -> dict[str, tuple[int, float]]:
    found = {}
    for name in names:
        path = place / "receipt.json"
        path.write_bytes(heavy.receipt_with(heavy.largest(heavy.VALUES[name])))
        found[name] = cost(program, path)
    return {name: each for name, each in found.items() if each[0] > MOST_MIB or each[1] > MOST_SECONDS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_heavy_receipt_costs_what_it_may(program: str, tmp_path: Path) -> None:
    assert _measure(program, SAMPLE, tmp_path) == {}


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_heavy_receipt_costs_what_it_may(program: str, tmp_path: Path) -> None:
    assert _measure(program, tuple(heavy.VALUES), tmp_path) == {}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ["receipt.json", "ledger.jsonl", "checkpoints"])
def test_two_gibibytes_of_zeros_cost_what_a_receipt_may(program: str, name: str, tmp_path: Path) -> None:
    run = write(short().files(), tmp_path / "run")
    (run / name).write_bytes(b"")
    os.truncate(run / name, 2 << 30)
    (tmp_path / "zeros").symlink_to(run / name)
    for path in (run, tmp_path / "zeros"):
        mebibytes, seconds = cost(program, path)
        assert mebibytes <= MOST_MIB, path
        assert seconds <= MOST_SECONDS, path
