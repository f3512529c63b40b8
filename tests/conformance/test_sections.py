"""The table of spec/README.md that says which module of which verifier follows which section of the text."""

from __future__ import annotations

import re

from conformance.catalog import ROOT

ROW = re.compile(r"^\| (\d+) ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "spec/README.md").read_text())
PLACES = {"verify-js/*.mjs": 2, "verify-go/*.go": 2, "src/docket/verify/*.py": 3}
COMMON = {"verify", "checks", "limits", "main", "__init__"}
"""Modules of every section: the command line, the ids of the checks, the limits."""


def test_every_section_has_its_row_by_its_title() -> None:
    titles = re.findall(r"^## (\d+)\. (.+)$", (ROOT / "spec/docket-receipt-1.md").read_text(), re.MULTILINE)
    assert [(number, title) for number, title, *_ in ROWS] == [each for each in titles if int(each[0]) <= 10]


def test_every_module_is_named_for_its_sections_and_every_name_is_a_module() -> None:
    for place, column in PLACES.items():
        modules = {path.stem for path in ROOT.glob(place) if not path.stem.endswith("_test")} - COMMON
        assert modules == {name for row in ROWS for name in row[column].split(", ")}, place


def test_a_module_in_javascript_and_go_says_its_section_first() -> None:
    numbers = {name: number for number, _, names, _ in reversed(ROWS) for name in names.split(", ")}
    for name, number in numbers.items():
        for path in (ROOT / f"verify-js/{name}.mjs", ROOT / f"verify-go/{name}.go"):
            first = next(line for line in path.read_text().splitlines() if line.startswith("// "))
            assert first.startswith(f"// Section {number}") or name in {"shapes", "hashing"}, path
