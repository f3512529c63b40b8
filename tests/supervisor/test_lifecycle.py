from __future__ import annotations

import signal

import pytest

from docket.supervisor.lifecycle import ENDS, NEXT, Ending, Lifecycle, Phase, Stop, end_of, exit_status, outcome

ROWS = [
    ("exit 0", Ending(code=0), "completed", 0),
    ("exit 7", Ending(code=7), "failed", 7),
    ("exit 255", Ending(code=255), "failed", 255),
    ("crash", Ending(signal=signal.SIGSEGV), "failed", 139),
    ("killed from outside", Ending(signal=signal.SIGKILL), "failed", 137),
    ("stopped by the user", Ending(signal=signal.SIGINT, stop=Stop.SIGNAL), "interrupted", 130),
    ("the user stopped it and it exited 0", Ending(code=0, stop=Stop.SIGNAL), "interrupted", 0),
    ("stopped by a cap", Ending(signal=signal.SIGTERM, stop=Stop.CAP, breached=True), "breached", 42),
    ("a cap, ignored, killed", Ending(signal=signal.SIGKILL, stop=Stop.CAP, breached=True), "breached", 42),
    ("refused and it says it succeeded", Ending(code=0, breached=True), "breached", 42),
    ("the user stopped it after a breach", Ending(code=0, stop=Stop.SIGNAL, breached=True), "breached", 42),
    ("the record broke", Ending(signal=signal.SIGTERM, stop=Stop.EVIDENCE), "failed", 125),
    ("the guardian died", Ending(stop=Stop.GUARDIAN_LOST), "lost", 125),
    ("the record broke after a breach", Ending(code=0, stop=Stop.EVIDENCE, breached=True), "breached", 42),
    ("docket's own bug", Ending(signal=signal.SIGTERM, stop=Stop.INTERNAL), "failed", 125),
]


@pytest.mark.parametrize(("ending", "called", "status"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_every_way_to_end_has_an_outcome_and_a_status(ending: Ending, called: str, status: int):
    assert outcome(ending) == called
    assert exit_status(ending) == status


def test_every_row_decides_over_some_end_of_this_table():
    assert {end_of(row[1]).name for row in ROWS} == {end.name for end in ENDS if end.name != "nobody saw the agent end"}
    assert end_of(Ending()).name == "nobody saw the agent end"


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("wanted", list(Phase))
def test_a_phase_is_entered_only_along_the_table_and_whoever_listens_is_told(phase: Phase, wanted: Phase):
    told: list[Phase] = []
    life = Lifecycle(told.append)
    life.phase = phase
    if wanted in NEXT[phase]:
        life.enter(wanted)
        assert (life.phase, told) == (wanted, [wanted])
    else:
        with pytest.raises(AssertionError, match=f"{phase} cannot become {wanted}"):
            life.enter(wanted)
        assert (life.phase, told) == (phase, [])
