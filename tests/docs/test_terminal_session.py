"""The recorded terminal session in the docs is the recording, and is an asciicast."""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_shows_what_was_recorded() -> None:
    assert (DOCS / "terminal-session.txt").read_text() in (DOCS / "supervision.md").read_text()


def test_the_recording_is_an_asciicast_with_time_that_only_grows() -> None:
    head, *events = map(json.loads, (DOCS / "terminal-session.cast").read_text().splitlines())
    assert head["version"] == 2
    assert [kind for _, kind, _ in events] == ["o"] * len(events)
    moments = [moment for moment, _, _ in events]
    assert moments == sorted(moments)
    shown = "".join(text for _, _, text in events)
    for part in ("^C", "^Z", "Stopped", "back in the foreground", "verified"):
        assert part in shown
