"""The files of a run beside the event loop: what a person is told while they are read."""

from __future__ import annotations

import io

from docket.supervisor.announce import Announcer
from docket.supervisor.files import progress


class _Clock:
    """Goes on by as much as the test says."""

    now_us = 0

    def monotonic_us(self) -> int:
        return self.now_us

    def unix_us(self) -> int:
        return 0


def test_a_walk_says_how_far_it_is_once_it_takes_over_a_second_and_then_every_second() -> None:
    said, clock = io.StringIO(), _Clock()
    tell = progress(Announcer(quiet=False, stream=said), clock)
    for now_us in (200_000, 999_999, 1_000_000, 1_500_000, 2_000_001):
        clock.now_us = now_us
        tell(now_us // 1000, 5_000_000)
    assert said.getvalue().splitlines() == [
        "docket: reading files: 1,000 entries, 5 MB",
        "docket: reading files: 2,000 entries, 5 MB",
    ]
    quiet = io.StringIO()
    tell = progress(Announcer(quiet=True, stream=quiet), clock)
    clock.now_us = 9_000_000
    tell(1, 1)
    assert quiet.getvalue() == ""
