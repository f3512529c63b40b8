"""A number in the documents is a default of the code, or stands beside a link to the measurement that gave it."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from docket.policy.keys import Key, keys_of
from docket.policy.model import TABLES

ROOT = Path(__file__).parents[2]
PAGES = [path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")] if path.name != "policy.md"]
NUMBER = re.compile(
    r"(?<![\w.\-])\d[\d,]*(?:\.\d+)?\s?(?:ns|µs|ms|s|seconds?|minutes?|hours?|[KMG]i?B|bytes|%|times|calls/s)(?!\w)"
)
KEYS: dict[str, Key] = {key.name: key for _, cls in TABLES.values() for key in keys_of(cls)}
ROW = re.compile(r"^\| `([a-z_]+)` \| ([^|]*) \|", re.MULTILINE)


def _spelled(default: object) -> str:
    """A default as the pages write it."""
    match default:
        case None:
            return "none"
        case bool():
            return str(default).lower()
        case int() if default and default % 2**30 == 0:
            return f"{default // 2**30} GiB"
        case int() if default and default % 2**20 == 0:
            return f"{default // 2**20} MiB"
        case tuple():
            return ", ".join(f"`{word}`" for word in default)
        case str():
            return f"`{default}`"
        case _:
            return str(default)


# ARCHITECTURE.md has a table of packages, one of which is called as a key is.
@pytest.mark.parametrize("path", [path for path in PAGES if path.name != "ARCHITECTURE.md"], ids=lambda path: path.name)
def test_a_table_of_keys_states_their_defaults(path: Path) -> None:
    wrong = [
        f"{name}: {stated} is {_spelled(KEYS[name].default)}"
        for name, stated in ROW.findall(path.read_text())
        if name in KEYS and stated != _spelled(KEYS[name].default)
    ]
    assert not wrong


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_measured_number_stands_beside_its_measurement(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    unfounded = [
        paragraph
        for paragraph in re.split(r"\n\s*\n|\n(?=\| )", text)
        if NUMBER.search(paragraph) and "measurements/" not in paragraph and not ROW.match(paragraph)
    ]
    assert not unfounded


def test_every_measurement_says_how_where_and_when() -> None:
    for path in (ROOT / "docs/measurements").glob("*.md"):
        if path.name == "README.md":
            continue
        text = path.read_text()
        assert re.search(r"20\d\d-\d\d-\d\d", text), f"{path.name}: no date"
        assert re.search(r"core|CPU|machine", text, re.IGNORECASE), f"{path.name}: no machine"
        assert re.search(r"`[^`]*(make|python|docket|bench|bash|go|node)[^`]*`", text), f"{path.name}: no command"


def test_decimals_are_spelled_as_the_pages_write_them() -> None:
    assert [_spelled(value) for value in (Decimal("0.8"), 16 * 2**20, None, True, 5)] == [
        "0.8",
        "16 MiB",
        "none",
        "true",
        "5",
    ]
