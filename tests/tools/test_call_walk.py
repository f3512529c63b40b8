"""A call takes no more steps than were agreed on: whoever adds some sees it here."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("flags", "most"), [([], 250), (["--stream"], 330)])
def test_a_call_takes_at_most_so_many_python_calls(flags: list[str], most: int) -> None:
    command = [sys.executable, "-m", "tools.call_walk", *flags]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"(\d+) files, \d+ functions, (\d+) calls", said)
    assert found is not None, said
    assert int(found[2]) <= most, f"{said}`{' '.join(command[1:])} --where` says where they are"
