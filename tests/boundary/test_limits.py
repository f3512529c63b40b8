"""The limits that the page states are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "boundary.md"
LINE = re.compile(r"^([\w.]+)\.([A-Z_]+) +(\d+)(?: (KiB|MiB))? ", re.MULTILINE)
UNITS = {"": 1, "KiB": 1024, "MiB": 1024 * 1024}


def test_the_page_states_the_limits_of_the_code() -> None:
    stated = LINE.findall(PAGE.read_text())
    assert len(stated) == 18
    for module, name, number, unit in stated:
        value = getattr(importlib.import_module(f"docket.boundary.{module}"), name)
        assert value == int(number) * UNITS[unit], f"{module}.{name}"
