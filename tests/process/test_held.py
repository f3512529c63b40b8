"""A signal that comes before the run can take it is not lost: the run ends in order, with a receipt that says so."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docket.process.held import ENDING, FORWARDED, held_back, let_through
from docket.storage.documents import documents_at
from docket.verify.verifier import verify
from kit.barrier import STOPPED_AT, docket_at
from kit.processes import argument_holders, gone
from kit.pseudoterminal import PseudoTerminal

PLACES = (
    ("docket.cli.run:request_of", signal.SIGTERM),
    ("docket.supervisor.run:hide_memory", signal.SIGINT),
    ("docket.supervisor.run:RunDirectory.create", signal.SIGHUP),
    ("docket.supervisor.run:LedgerWriter.append_watched", signal.SIGTERM),
    ("docket.supervisor.run:Guardian.spawn", signal.SIGINT),
)


@pytest.mark.parametrize(("place", "number"), PLACES)
def test_a_run_that_is_asked_to_end_before_it_has_an_agent_ends_with_a_receipt(
    place: str, number: signal.Signals, tmp_path: Path
) -> None:
    with docket_at(place, tmp_path) as docket:
        docket.send_signal(number)
        docket.communicate(b".", timeout=30)
    assert docket.returncode == 128 + number
    (run,) = (tmp_path / ".docket/runs").iterdir()
    assert verify(documents_at(run)).verdict == "verified"
    receipt = json.loads((run / "receipt.json").read_text())
    assert receipt["end"]["event"]["data"]["outcome"] == "interrupted"
    assert receipt["totals"]["calls"] == 0


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("docket.supervisor.run:take_up", signal.SIGTERM),
        ("docket.supervisor.run:LedgerWriter.resume", signal.SIGHUP),
        ("docket.supervisor.run:LedgerWriter.append_watched", signal.SIGINT),
    ],
)
def test_a_resumed_run_that_is_asked_to_end_before_it_has_an_agent_keeps_its_first_session(
    place: str, number: signal.Signals, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "docket", "run", "--quiet", "--", "true"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    with docket_at(place, tmp_path, options=["--resume", "latest"]) as docket:
        docket.send_signal(number)
        docket.communicate(b".", timeout=30)
    assert docket.returncode == 128 + number
    (run,) = (tmp_path / ".docket/runs").iterdir()
    assert verify(documents_at(run)).verdict in ("verified", "incomplete")
    receipt = json.loads((run / "receipt.json").read_text())
    assert receipt["end"]["event"]["data"]["outcome"] == "interrupted"
    assert len(receipt["starts"]) == 2


def test_asked_twice_before_there_is_an_agent_docket_ends_at_once(tmp_path: Path) -> None:
    """The relay stands, and what goes on does not come to an end: the first signal waits, the second does not."""
    with docket_at("docket.supervisor.run:RunFiles.before", tmp_path) as docket:
        for number in (signal.SIGINT, signal.SIGTERM):
            docket.send_signal(number)
        docket.communicate(b".", timeout=30)
    assert docket.returncode in (-signal.SIGINT, -signal.SIGTERM)
    (run,) = (tmp_path / ".docket/runs").iterdir()
    assert not (run / "receipt.json").exists()


ASKED_WHILE_ALIVE = ("docket.supervisor.run:Guardian.reap",)
ASKED_TOO_LATE = (
    "docket.supervisor.run:RunFiles.after",
    "docket.supervisor.run:seal",
    "docket.supervisor.seal:replace_file",
    "docket.supervisor.run:tell",
    "docket.storage.writer:LedgerWriter.close",
    "docket.process.supervision:Guardian.close",
    "docket.supervisor.announce:Announcer.close",
    "docket.cli.run:too_late",
    "docket.cli.standard_streams:settle",
)


ASKED = [
    pytest.param(place, number, marks=[] if (row + column) % 3 == 0 else [pytest.mark.long])
    for row, place in enumerate([*ASKED_WHILE_ALIVE, *ASKED_TOO_LATE])
    for column, number in enumerate([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
]
"""Every place with every signal; in ``make test`` each place with one of them."""


@pytest.mark.parametrize(("place", "number"), ASKED)
def test_a_run_that_is_asked_to_end_while_it_ends_keeps_the_agent_s_status_and_its_receipt(
    place: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The agent ends by itself with 3; it was interrupted only if something of it could still be running."""
    with docket_at(place, tmp_path, "sh", "-c", "exit 3") as docket:
        docket.send_signal(number)
        docket.send_signal(number)
        _, said = docket.communicate(b".", timeout=30)
    assert docket.returncode == 3, said
    (run,) = (tmp_path / ".docket/runs").iterdir()
    assert verify(documents_at(run)).verdict == "verified"
    receipt = json.loads((run / "receipt.json").read_text())
    assert receipt["end"]["event"]["data"]["outcome"] == ("interrupted" if place in ASKED_WHILE_ALIVE else "failed")


@pytest.mark.parametrize("place", ["docket.supervisor.run:seal", "docket.process.supervision:Guardian.close"])
def test_no_thread_but_the_main_one_takes_a_signal(place: str, tmp_path: Path) -> None:
    """One that did would act on the process by its default while the main thread holds it back."""
    held = sum(1 << number - 1 for number in ENDING)
    with docket_at(place, tmp_path, "true") as docket:
        tasks = Path(f"/proc/{docket.pid}/task")
        for task in tasks.iterdir():
            blocked = re.search(r"SigBlk:\t(\w+)", (task / "status").read_text())
            assert blocked is not None
            assert int(task.name) == docket.pid or int(blocked[1], 16) & held == held
        docket.communicate(b".", timeout=30)


def test_what_was_blocked_before_is_so_again() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        with held_back() as before:
            assert before >= {signal.SIGUSR2}
            assert set(ENDING + FORWARDED) <= signal.pthread_sigmask(signal.SIG_BLOCK, ())
            let_through()
            assert set(ENDING + FORWARDED).isdisjoint(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGUSR2}
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})


def test_a_usage_error_under_a_pending_signal_still_ends_the_process_by_it(tmp_path: Path) -> None:
    (tmp_path / "docket.toml").write_text("no such policy")
    with docket_at("docket.cli.run:request_of", tmp_path) as docket:
        docket.send_signal(signal.SIGTERM)
        docket.communicate(b".", timeout=30)
    assert docket.returncode == -signal.SIGTERM
    assert not (tmp_path / ".docket").exists()
    assert os.listdir(tmp_path) == ["docket.toml"]


@pytest.mark.parametrize("place", ["docket.supervisor.run:LedgerWriter.create", "docket.supervisor.run:seal"])
def test_a_terminal_that_vanishes_before_or_after_the_agent_leaves_a_receipt(place: str, tmp_path: Path) -> None:
    terminal = PseudoTerminal([sys.executable, "-c", STOPPED_AT, place, "--", "true"], cwd=str(tmp_path))
    terminal.expect("here")
    terminal.hang_up()
    assert gone(terminal.process.pid)
    terminal.process.wait()
    (run,) = (tmp_path / ".docket/runs").iterdir()
    assert verify(documents_at(run)).verdict == "verified"


VANISHING = {
    "ignores every signal": "trap '' HUP TERM INT; echo ready; while :; do sleep 0.2; done",
    "is stopped": "echo ready; kill -STOP $$; sleep 60",
    "left its session": "setsid sh -c 'trap \"\" HUP TERM; echo ready; sleep 100' & wait",
    "writes without end": "echo ready; while :; do echo x; echo y >&2; done",
    "reads": "echo ready; cat; sleep 60",  # the end of its input may come before the signal
}


@pytest.mark.parametrize("agent", VANISHING)
def test_whatever_an_agent_does_while_its_terminal_vanishes_the_run_ends_and_nothing_is_left(
    agent: str, tmp_path: Path
) -> None:
    (tmp_path / "docket.toml").write_text("[caps]\ngrace_seconds = 0.5\n")
    words = [sys.executable, "-m", "docket", "run", "--docket-dir", str(tmp_path / "d"), "--"]
    terminal = PseudoTerminal([*words, "sh", "-c", f": {tmp_path}; {VANISHING[agent]}"], cwd=str(tmp_path))
    terminal.expect("ready\r")
    terminal.hang_up()
    assert gone(terminal.process.pid)
    assert terminal.process.wait() in (128 + signal.SIGHUP, 128 + signal.SIGKILL)
    (run,) = (tmp_path / "d/runs").iterdir()
    assert verify(documents_at(run)).verdict == "verified"
    receipt = json.loads((run / "receipt.json").read_text())
    assert receipt["end"]["event"]["data"]["outcome"] == "interrupted"
    assert argument_holders(str(tmp_path)) == []


def test_under_nohup_an_agent_outlives_its_terminal_and_its_status_is_the_run_s(tmp_path: Path) -> None:
    script = "echo ready; read x; echo lost; echo lost >&2; exit 5"
    line = "trap '' HUP; exec \"$@\""
    words = [sys.executable, "-m", "docket", "run", "--", "sh", "-c", script]
    terminal = PseudoTerminal(["sh", "-c", line, "sh", *words], cwd=str(tmp_path))
    terminal.expect("ready\r")
    terminal.hang_up()
    assert gone(terminal.process.pid)
    assert terminal.process.wait() == 5
    (run,) = (tmp_path / ".docket/runs").iterdir()
    assert verify(documents_at(run)).verdict == "verified"
