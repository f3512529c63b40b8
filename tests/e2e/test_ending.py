"""The ends table through the installed ``docket run``: every way out has its status, its outcome and its receipt."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from kit.installed import Installed, Provider
from kit.supervised import supervised

CALL = (
    "call() { curl -s -o /dev/null -w '%{http_code}\\n' -H 'content-type: application/json' "
    '-d \'{"model":"gpt-4o","messages":[]}\' "$OPENAI_BASE_URL/chat/completions"; }; '
)
WAIT = "while :; do sleep 0.02; done"
QUICK = "[caps]\ngrace_seconds = 0.3\n"
LONG = "[caps]\ngrace_seconds = 600\n"


def ended(installed: Installed) -> tuple[str, object]:
    """Outcome and exit of the latest receipt, which verifies and agrees with the ledger."""
    session = installed.receipt()["session"]
    end = installed.events("session.end")[-1]["data"]
    assert (end["outcome"], end["exit"]) == (session["outcome"], session["exit"])
    assert installed.verdict()["verdict"] == "verified"
    return session["outcome"], session["exit"]


@pytest.mark.parametrize(
    ("number", "trap", "toml", "status", "outcome", "exit_"),
    [
        pytest.param("SIGTERM", "", LONG, 143, "interrupted", {"signal": 15}, id="term-obeyed"),
        pytest.param("SIGINT", "", LONG, 130, "interrupted", {"signal": 2}, id="int-obeyed"),
        pytest.param("SIGHUP", "", LONG, 129, "interrupted", {"signal": 1}, id="hup-obeyed"),
        pytest.param("SIGTERM", "trap 'exit 0' TERM;", LONG, 0, "interrupted", {"code": 0}, id="term-handled"),
        pytest.param("SIGTERM", "trap '' TERM;", QUICK, 137, "interrupted", {"signal": 9}, id="term-ignored"),
        pytest.param("SIGQUIT", "ulimit -c 0;", LONG, 131, "failed", {"signal": 3}, id="quit"),
        pytest.param("SIGUSR1", "", LONG, 138, "failed", {"signal": 10}, id="usr1"),
        pytest.param("SIGUSR2", "trap 'exit 5' USR2;", LONG, 5, "failed", {"code": 5}, id="usr2-handled"),
    ],
)
def test_a_signal_to_docket(
    number: str, trap: str, toml: str, status: int, outcome: str, exit_: object, installed: Installed
) -> None:
    with supervised(installed, (), f"{trap} echo ready; {WAIT}", toml=toml) as run:
        assert run.line() == "ready"
        os.kill(run.docket, getattr(signal, number))
        assert run.finish()[0] == status
    assert ended(installed) == (outcome, exit_)


def test_a_second_interrupt_skips_the_grace_period(installed: Installed) -> None:
    with supervised(installed, (), f"trap 'echo asked' INT; echo ready; {WAIT}", toml=LONG) as run:
        assert run.line() == "ready"
        os.kill(run.docket, signal.SIGINT)
        assert run.line() == "asked"
        os.kill(run.docket, signal.SIGINT)
        assert run.finish()[0] == 137
    assert ended(installed) == ("interrupted", {"signal": 9})


@pytest.mark.parametrize(
    ("trap", "exit_"),
    [
        pytest.param("", {"signal": 15}, id="obeyed"),
        pytest.param("trap 'exit 0' TERM;", {"code": 0}, id="reports-success"),
        pytest.param("trap '' TERM;", {"signal": 9}, id="ignored"),
    ],
)
def test_a_cap_that_kills(trap: str, exit_: object, installed: Installed, provider: Callable[..., Provider]) -> None:
    flags = [*provider().flags, "--max-calls", "2"]
    with supervised(installed, flags, f"{CALL} {trap} while :; do call; done", toml=QUICK) as run:
        assert run.finish()[0] == 42
    assert ended(installed) == ("breached", exit_)


def test_a_refusal_in_deny_with_a_child_that_reports_success(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    flags = [*provider().flags, "--max-calls", "2", "--on-breach", "deny"]
    with supervised(installed, flags, f"{CALL} call; call; call; exit 0") as run:
        codes = [run.line() for _ in range(3)]
        assert run.finish()[0] == 42
    assert codes[:2] == ["200", "200"]
    assert codes[2] != "200"
    assert ended(installed) == ("breached", {"code": 0})


def test_a_command_that_cannot_be_run_has_a_receipt_too(installed: Installed) -> None:
    done = installed.run("run", "--", "no-such-command-anywhere")
    assert done.status == 127
    assert "no-such-command-anywhere: command not found" in done.err
    assert ended(installed) == ("failed", {"code": 127})
    assert installed.run("run", "--", "/").status == 126
    assert ended(installed) == ("failed", {"code": 126})


def test_the_guardian_dies(installed: Installed) -> None:
    with supervised(installed, (), f"setsid sleep 300 & echo ready; {WAIT}") as run:
        assert run.line() == "ready"
        os.kill(run.guardian, signal.SIGKILL)
        status, err = run.finish()
    assert status == 125
    assert "guardian" in err
    assert ended(installed) == ("lost", {"signal": 9})


def test_a_core_dump_is_recorded(installed: Installed) -> None:
    done = installed.run("run", "--", "sh", "-c", "ulimit -c unlimited; kill -ABRT $$")
    assert done.status == 134
    assert ended(installed) == ("failed", {"signal": 6})


@pytest.mark.parametrize("who", ["nobody", "docket", "agent"])
def test_a_cap_on_time_holds_through_a_stop(who: str, installed: Installed) -> None:
    """SIGSTOP for docket beyond the cap ends the run at once when it goes on; a stopped agent still uses up time."""
    with supervised(installed, ["--max-wall-clock", "1"], f"echo ready; {WAIT}", toml=QUICK) as run:
        assert run.line() == "ready"
        if who == "agent":
            os.killpg(run.agent, signal.SIGSTOP)
        if who == "docket":
            os.kill(run.docket, signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                run.wait(1.2)
            os.kill(run.docket, signal.SIGCONT)
        assert run.finish(10)[0] == 42
    session = installed.receipt()["session"]
    assert session["breach"]["cap"] == "max_wall_seconds"
    assert 1.0 <= float(session["breach"]["observed"]) < 3.0
    assert ended(installed)[0] == "breached"
