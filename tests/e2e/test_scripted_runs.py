"""Every way to call ``docket run`` that ``tools.scripted_runs`` plays: its exit status and what it says.

Two plays of one run leave the same bytes: so that, when two versions of docket are compared, a difference is theirs.
"""

from __future__ import annotations

from pathlib import Path

from tools.scripted_runs import play, provider, runs

ENDS = {
    "every kind of request": (0, "completed, "),
    "bodies recorded": (0, "completed, 2 calls, at least $0.0001175"),
    "usage asked for": (0, "completed, 1 call, $0.0001425"),
    "answers given again": (0, "completed, 2 calls, at least $0.0001175"),
    "a USD cap holds what is unpriced": (0, "completed, "),
    "stopped by a cap": (42, "max_model_calls reached: 2 of 2; stopping the agent"),
    "denied at a cap": (42, "max_model_calls reached: 1 of 1; further calls are refused"),
    "breaker opens": (0, "completed, 2 calls, 1 refused, $0"),
    "agent says nothing": (0, "no model call crossed the boundary"),
    "agent exits 3": (3, "failed, 0 calls, $0"),
    "agent killed": (137, "failed, 0 calls, $0"),
    "operator stops it": (143, "SIGTERM: ending the run"),
    "quiet": (0, " root "),
    "command not found": (127, "no-such-command: command not found"),
    "command not executable": (126, "./docket.toml: cannot be run: Permission denied"),
    "no command": (2, "Missing argument '-- COMMAND [ARGUMENT]...'"),
    "unknown flag": (2, "No such option '--max-usb'"),
    "bad amount": (2, '--max-usd: "much" is not accepted'),
    "unknown policy key": (2, "docket.toml: caps.max_usb: unknown key"),
    "policy is no TOML": (2, "docket.toml: not TOML"),
    "no policy file": (2, "no policy file nowhere.toml"),
    "port in use": (2, "Address already in use"),
    "nothing to resume": (2, "no run latest"),
    "no such directory": (2, "--cwd: nowhere is not a directory"),
    "unknown agent": (2, "--agent: 'nobody' is not known"),
}


def test_every_scripted_run_ends_as_the_table_says(tmp_path: Path) -> None:
    with provider(0) as port:
        played = {each.name: play(each, tmp_path / each.name, tmp_path / "work", port) for each in runs(port)}
    assert played.keys() == ENDS.keys()
    assert {name: status for name, (status, _) in played.items()} == {
        name: status for name, (status, _) in ENDS.items()
    }
    assert [name for name, (_, said) in ENDS.items() if said not in played[name][1]] == []


def test_two_plays_of_a_run_leave_the_same_bytes(tmp_path: Path) -> None:
    left, port = [], 0
    for out in (tmp_path / "first", tmp_path / "second"):
        with provider(port) as port:  # a fresh one at the same port: it counts what it answered
            play(runs(port)[0], out, tmp_path / "work", port)
        left.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert left[0].keys() == {"ledger.jsonl", "receipt.json", "said.txt"}
    assert left[0] == left[1]
