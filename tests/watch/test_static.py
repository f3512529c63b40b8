"""What the page is made of: the library that was looked at, and the project's own verifier."""

from __future__ import annotations

import hashlib
from pathlib import Path

import docket.watch

ROOT = Path(__file__).parents[2]
STATIC = Path(docket.watch.__file__).parent / "static"
VENDORED = {
    "uPlot.mjs": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uPlot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def test_the_vendored_library_is_byte_for_byte_the_published_one() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").iterdir()}
    assert found == VENDORED


def test_the_verifier_in_the_page_is_the_projects_own() -> None:
    for path in (ROOT / "verify-js").glob("*.mjs"):
        assert (STATIC / "verifier" / path.name).read_bytes() == path.read_bytes()
