"""Job control in a real pseudo-terminal under a real interactive shell: docket is as natural as the agent itself."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from kit.processes import gone, state, until
from kit.pseudoterminal import PseudoTerminal
from tests.process.conftest import CASES, ROOT, Shell, agent


def test_an_agent_that_reads_the_terminal_is_the_foreground_group(shell: Shell) -> None:
    """The child is in the foreground, reads a line, and the terminal goes back to its caller."""
    shell.start(sys.executable, str(CASES / "read_tty.py"))
    shell.terminal.expect("tty True fg True")
    shell.terminal.send("hello\n")
    shell.terminal.expect("got hello")
    assert shell.status() == 0
    shell.prompt()
    assert shell.terminal.foreground() == shell.terminal.process.pid


def test_each_ctrl_c_reaches_the_agent_exactly_once(shell: Shell) -> None:
    shell.start(*agent("lines"))
    shell.terminal.expect("ready foreground=True leader=True")
    for _ in range(2):
        shell.terminal.send("\x03")
        shell.terminal.expect("<SIGINT>")
    shell.terminal.send("q\n")
    assert shell.status() == 7
    assert shell.terminal.transcript.count(b"<SIGINT>") == 2


def test_a_ctrl_c_that_ends_the_agent_is_docket_s_status(shell: Shell) -> None:
    shell.start("sh", "-c", "echo ready; exec tail -f /dev/null")
    shell.terminal.expect(r"\nready\r\n")  # not the echo of the command line
    shell.terminal.send("\x03")
    assert shell.status() == 130


def test_ctrl_z_stops_both_and_fg_resumes_both(shell: Shell) -> None:
    docket, _guardian, child = shell.start(*agent("lines"))
    shell.terminal.expect("ready foreground=True")
    for _ in range(2):
        shell.terminal.send("\x1a")
        shell.terminal.expect("Stopped")
        shell.prompt()
        assert (state(docket), state(child)) == ("T", "T")
        shell.terminal.send("fg\n")
        shell.terminal.expect("<SIGCONT>")
        shell.terminal.send("back\n")
        shell.terminal.expect("line back")
    shell.terminal.send("q\n")
    assert shell.status() == 7
    assert shell.terminal.transcript.count(b"<SIGCONT>") == 2


def test_a_raw_mode_agent_that_stops_itself_finds_its_modes_again(shell: Shell) -> None:
    """Full-screen agents read Ctrl-Z as a byte and stop themselves: then each side has its own modes."""
    shell.start(*agent("raw", "wait"))
    shell.terminal.expect("raw\r\n")
    shell.terminal.send("\x1a")
    shell.terminal.expect("Stopped")
    shell.prompt()  # typed text is echoed by the shell's own editor
    shell.terminal.send("stty -a | grep -o ' .echo ' | tr -d ' '; stty -a | grep -ow 'icanon'; fg\n")
    shell.terminal.expect(r"\nicanon\r\n")
    shell.terminal.expect("resumed echo=False")
    shell.terminal.send("q")
    assert shell.status() == 0


@pytest.mark.parametrize("victim", ["agent", "docket", "guardian"])
def test_modes_are_restored_whoever_is_killed(shell: Shell, victim: str) -> None:
    """Raw mode, then SIGKILL for the agent, docket or the guardian: the shell's terminal is as it was."""
    shell.terminal.send("stty -a > " + str(shell.report) + ".before\n")
    shell.prompt()
    pids = dict(zip(("docket", "guardian", "agent"), shell.start(*agent("raw", "wait")), strict=True))
    shell.terminal.expect("raw\r\n")
    os.kill(pids[victim], signal.SIGKILL)
    assert gone(pids["agent"], 5)
    assert gone(pids["guardian"], 5)
    assert gone(pids["docket"], 5)
    shell.prompt()
    shell.terminal.send("stty -a > " + str(shell.report) + ".after\n")
    shell.prompt()
    assert Path(f"{shell.report}.after").read_text() == Path(f"{shell.report}.before").read_text()


def test_a_new_window_size_reaches_the_agent(shell: Shell) -> None:
    shell.start(*agent("lines"))
    shell.terminal.expect("ready foreground=True")
    shell.terminal.resize(31, 97)
    shell.terminal.expect("<SIGWINCH>")
    shell.terminal.send("size\n")
    shell.terminal.expect("size 31x97")
    shell.terminal.send("q\n")
    assert shell.status() == 7


def test_a_run_in_the_background_does_not_steal_the_terminal(shell: Shell) -> None:
    """It stops when it wants to read, as any job does, and ``fg`` gives it the terminal."""
    _docket, _guardian, child = shell.start(*agent("lines"), suffix=" &")
    shell.terminal.expect("ready foreground=False")
    shell.prompt()
    assert shell.terminal.foreground() == shell.terminal.process.pid
    assert until(lambda: shell.job() == "Stopped")  # the shell hears of it once the last thread has stopped
    assert state(child) == "T"
    shell.terminal.send("fg\n")
    shell.terminal.expect("<SIGCONT>")
    shell.terminal.send("hello\n")
    shell.terminal.expect("line hello")
    shell.terminal.send("\x03")
    shell.terminal.expect("<SIGINT>")
    shell.terminal.send("q\n")
    assert shell.status() == 7


def test_fg_on_a_running_job_gives_the_agent_the_terminal_when_it_wants_it(shell: Shell) -> None:
    """A shell sends no SIGCONT to a job that runs already: docket is in the foreground without being told."""
    _docket, _guardian, child = shell.start(
        "sh",
        "-c",
        "trap 'read line </dev/tty; echo got $line; exit 3' USR1; echo; echo waiting; while :; do sleep 0.05; done",
        suffix=" &",
    )
    shell.terminal.expect(r"\nwaiting\r\n")
    shell.prompt()
    shell.terminal.send("fg\n")
    shell.terminal.expect("-m (docket|tests)")
    os.kill(child, signal.SIGUSR1)
    shell.terminal.send("hello\n")
    shell.terminal.expect("got hello")
    assert shell.status() == 3


def test_bg_lets_a_stopped_run_go_on_behind_the_shell(shell: Shell) -> None:
    docket, _guardian, child = shell.start(*agent("signals", "SIGCONT", "SIGUSR1"))
    shell.terminal.expect(r"\nready\r\n")  # not the echo of the command line
    shell.terminal.send("\x1a")
    shell.terminal.expect("Stopped")
    shell.prompt()
    shell.terminal.send("bg\n")
    shell.terminal.expect("SIGCONT 1")
    assert state(docket) in "SR"
    assert state(child) in "SR"
    shell.prompt()
    shell.terminal.send(f"kill -USR1 {docket}\n")
    shell.terminal.expect("SIGUSR1 1")
    shell.terminal.send("kill %1; wait\n")
    assert gone(docket)
    assert gone(child)


def test_kill_int_on_docket_is_forwarded_once(shell: Shell) -> None:
    docket, _guardian, _child = shell.start(*agent("lines"), grace=60)
    shell.terminal.expect("ready foreground=True")
    os.kill(docket, signal.SIGINT)
    shell.terminal.expect("<SIGINT>")
    shell.terminal.send("q\n")
    assert shell.status() == 7
    assert shell.terminal.transcript.count(b"<SIGINT>") == 1


def test_a_pipeline_stops_and_goes_on_as_one_job(shell: Shell) -> None:
    shell.start(*agent("lines"), suffix=" | cat")
    shell.terminal.expect("ready foreground=True")
    shell.terminal.send("\x1a")
    shell.terminal.expect("Stopped")
    shell.prompt()
    shell.terminal.send("fg\n")
    shell.terminal.expect("<SIGCONT>")
    shell.terminal.send("q\n")
    shell.prompt()


def test_under_a_script_ctrl_z_stops_the_script_too(shell: Shell) -> None:
    """``sh -c 'docket run ...'``: script and docket share a process group, and the shell waits for all of it."""
    shell.terminal.send(f"sh -c {shell_quote(shell.docket(*agent('lines')) + '; echo after-$?')}\n")
    shell.terminal.expect("ready foreground=True")
    shell.terminal.send("\x1a")
    shell.terminal.expect("Stopped")
    shell.prompt()
    shell.terminal.send("fg\n")
    shell.terminal.expect("<SIGCONT>")
    shell.terminal.send("q\n")
    shell.terminal.expect("after-7")
    shell.prompt()


def test_messages_of_docket_do_not_stop_it_where_the_terminal_says_tostop(shell: Shell) -> None:
    shell.terminal.send("stty tostop\n")
    shell.start(*agent("lines"))
    shell.terminal.expect("ready foreground=True")
    shell.terminal.send("q\n")
    assert shell.status() == 7


def test_a_vanished_terminal_ends_the_run(shell: Shell) -> None:
    """The agent ignores SIGHUP: the run ends all the same, within its grace period, and says why."""
    docket, guardian, child = shell.start("sh", "-c", "trap '' HUP; echo ready; while :; do sleep 0.1; done", grace=0.3)
    shell.terminal.expect(r"\nready\r\n")  # not the echo of the command line
    shell.terminal.hang_up()
    for pid in (child, guardian, docket):
        assert gone(pid)
    assert shell.ending() == (True, signal.SIGKILL)


def test_without_a_shell_that_could_resume_it_ctrl_z_stops_nothing(tmp_path: Path) -> None:
    """``ssh -t host docket run ...``: docket leads the session, so a stop would be for ever."""
    terminal = PseudoTerminal(
        [sys.executable, "-m", "tests.process.driver", str(tmp_path / "report"), "5", *agent("lines")], cwd=str(ROOT)
    )
    try:
        terminal.expect("ready foreground=True")
        terminal.send("\x1a")
        terminal.expect("<SIGCONT>")
        terminal.send("q\n")
        assert terminal.process.wait(20) == 7
    finally:
        terminal.close()


def shell_quote(text: str) -> str:
    """For a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
