from __future__ import annotations

import signal

import pytest

from docket.supervisor.lifecycle import Ending, Stop, exit_status, outcome

ROWS = [
    ("exit 0", Ending(code=0), "completed", 0),
    ("exit 7", Ending(code=7), "failed", 7),
    ("exit 255", Ending(code=255), "failed", 255),
    ("crash", Ending(signal=signal.SIGSEGV), "failed", 139),
    ("killed from outside", Ending(signal=signal.SIGKILL), "failed", 137),
    ("stopped by the user", Ending(signal=signal.SIGINT, stop=Stop.SIGNAL, stop_signal=2), "interrupted", 130),
    ("the user stopped it and it exited 0", Ending(code=0, stop=Stop.SIGNAL, stop_signal=15), "interrupted", 0),
    ("stopped by a cap", Ending(signal=signal.SIGTERM, stop=Stop.CAP, breached=True), "breached", 42),
    ("a cap, ignored, killed", Ending(signal=signal.SIGKILL, stop=Stop.CAP, breached=True), "breached", 42),
    ("refused and it says it succeeded", Ending(code=0, breached=True), "breached", 42),
    ("the user stopped it after a breach", Ending(code=0, stop=Stop.SIGNAL, breached=True), "breached", 42),
    ("the record broke", Ending(signal=signal.SIGTERM, stop=Stop.EVIDENCE), "failed", 125),
    ("the guardian died", Ending(stop=Stop.GUARDIAN_LOST), "lost", 125),
    ("docket's own bug", Ending(signal=signal.SIGTERM, stop=Stop.INTERNAL), "failed", 125),
]


@pytest.mark.parametrize(("ending", "called", "status"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_every_way_to_end_has_an_outcome_and_a_status(ending: Ending, called: str, status: int):
    assert outcome(ending) == called
    assert exit_status(ending) == status
