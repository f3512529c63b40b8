"""What starting costs: libraries that only some runs need are imported by those alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from docket.cli.main import status_of
status = status_of(sys.argv[2:])
print("\\nIMPORTED", status, *(name for name in sys.argv[1].split(",") if name in sys.modules))
"""


def imported(names: str, *arguments: str, cwd: Path) -> tuple[int, set[str]]:
    """Which of ``names`` a command imports, by its exit status."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, names, *arguments], cwd=cwd, capture_output=True, text=True, check=True
    )
    _, _, line = done.stdout.rpartition("\nIMPORTED ")
    status, *found = line.split()
    return int(status), set(found)


def test_a_plain_run_imports_no_library_that_only_others_need(tmp_path: Path) -> None:
    names = "aiohttp,rich,cryptography.x509,docket.watch,docket.chaos,docket.sim,tomli_w"
    assert imported(names, "run", "--quiet", "--", "true", cwd=tmp_path) == (0, set())


def test_a_run_that_serves_health_imports_what_serves_it(tmp_path: Path) -> None:
    found = imported("aiohttp", "run", "--quiet", "--health-listen", "127.0.0.1:0", "--", "true", cwd=tmp_path)
    assert found == (0, {"aiohttp"}), "the test above can fail"


@pytest.mark.parametrize("command", ["run", "verify", "watch", "ls", "doctor"])
def test_help_imports_neither_the_network_nor_keys(command: str, tmp_path: Path) -> None:
    assert imported("aiohttp,cryptography,asyncio,rich", command, "--help", cwd=tmp_path) == (0, set())
