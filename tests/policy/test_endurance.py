"""``[endurance]``: off unless asked for, within range."""

from __future__ import annotations

import pytest

from docket.errors import PolicyError
from docket.policy.parse import parse
from docket.policy.render import render


def test_what_is_written_reads_back() -> None:
    policy = parse("[endurance]\nattempts = 4\nbase_seconds = 0.5\nmax_seconds = 20\noutage_seconds = 7200\n")
    assert policy.endurance.on
    assert parse(render(policy)) == policy


@pytest.mark.parametrize(
    "line", ["attempts = 0", "attempts = 101", "base_seconds = 0", "outage_seconds = 0", 'x = "1"']
)
def test_what_is_out_of_range_is_refused_by_name(line: str) -> None:
    with pytest.raises(PolicyError, match=r"endurance\."):
        parse(f"[endurance]\n{line}\n", "docket.toml")
