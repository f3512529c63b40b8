"""``docket tail``: the last events, and those that follow, through every way in which a run can go on or end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docket.cli.main import status_of
from docket.storage.lock import Lock
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response

DOCKET = [sys.executable, "-m", "docket"]
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrowingRun:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), request(1), response(1), request(2)])
    run.attest()
    monkeypatch.chdir(tmp_path)
    return run


def numbers(out: str) -> list[int]:
    return [int(line.split()[0]) for line in out.splitlines()]


@pytest.mark.parametrize(("words", "shown"), [([], range(5)), (["-n", "2"], (3, 4)), (["-n", "0"], ())])
def test_the_last_events_are_printed_in_their_order(
    run: GrowingRun, capsys: Printed, words: list[str], shown: range
) -> None:
    assert status_of(["tail", *words]) == 0
    assert numbers(capsys.readouterr().out) == list(shown)


def test_json_is_the_lines_of_the_ledger(run: GrowingRun, tmp_path: Path) -> None:
    run.grow(3000)
    done = subprocess.run([*DOCKET, "tail", "--json", "-n", "2500"], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.splitlines() == (run.path / "ledger.jsonl").read_bytes().splitlines()[-2500:]


def test_it_follows_until_the_run_ends(run: GrowingRun, tmp_path: Path) -> None:
    with subprocess.Popen([*DOCKET, "tail", "-f", "-n", "1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline().split()[0] == "4"
        run.append([response(2), run.note("hello")])
        run.attest()
        assert tail.stdout.readline().split()[0] == "5"
        assert "text=hello" in tail.stdout.readline()
        run.end()
        assert numbers(tail.stdout.read()) == [7]
    assert tail.returncode == 0


def test_a_run_that_dies_with_a_torn_line_is_shown_up_to_its_last_whole_one(run: GrowingRun, tmp_path: Path) -> None:
    with subprocess.Popen([*DOCKET, "tail", "-f", "-n", "1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()
        run.append([response(2)])
        with (run.path / "ledger.jsonl").open("ab") as stream:
            stream.write(b'{"by":"agent","data":{"half')
        run.release()
        assert numbers(tail.stdout.read()) == [5]
    assert tail.returncode == 0


def test_a_run_that_is_resumed_while_it_is_followed_is_followed_on(run: GrowingRun, tmp_path: Path) -> None:
    with subprocess.Popen([*DOCKET, "tail", "-f", "-n", "1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()
        os.kill(tail.pid, signal.SIGSTOP)  # the end of the first session and the next one are seen as one step
        run.release()
        run.lock = Lock(run.directory)
        run.append([response(2)])
        run.attest()
        os.kill(tail.pid, signal.SIGCONT)
        assert tail.stdout.readline().split()[0] == "5"
        run.end()
        assert numbers(tail.stdout.read()) == [6]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(run: GrowingRun, tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*DOCKET, "tail", "-f"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()
        tail.send_signal(number)
        _, said = tail.communicate(timeout=20)
    assert tail.returncode == (0 if number is signal.SIGINT else -signal.SIGTERM)
    assert said == b""


def test_a_reader_that_leaves_ends_it_in_silence(run: GrowingRun, tmp_path: Path) -> None:
    run.grow(5000)
    command = f"{sys.executable} -m docket tail -f -n 5000 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30)
    first, status = done.stdout.splitlines()
    assert (done.stderr, status) == ("", "141")
    assert first.split()[0] == "5"


def test_a_ledger_that_is_removed_while_it_is_followed_is_told(run: GrowingRun, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DOCKET, "tail", "-f"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()
        (run.path / "ledger.jsonl").unlink()
        _, said = tail.communicate(timeout=20)
    assert tail.returncode == 125
    assert "is gone" in said
    assert "Traceback" not in said


def test_hostile_text_stays_on_its_line(run: GrowingRun, capsys: Printed) -> None:
    run.append([run.note("\x1b]0;owned\x07\n    99  forged\u202e")])
    run.attest()
    assert status_of(["tail"]) == 0
    out = capsys.readouterr().out
    assert numbers(out) == [0, 1, 2, 3, 4, 5]
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_line_that_is_no_event_is_said_to_be_none(run: GrowingRun, capsys: Printed) -> None:
    run.release()
    with (run.path / "ledger.jsonl").open("ab") as stream:
        stream.write(b'{"x":1,"seq":5,"ts":"no"}\n')
    assert status_of(["tail", "-n", "1"]) == 0
    assert "no event: docket verify says what happened" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"), [(["nothing"], "no run nothing"), (["-n", "-1"], "-1"), (["-n", "some"], "some")]
)
def test_a_wrong_call_names_what_is_wrong(run: GrowingRun, capsys: Printed, words: list[str], said: str) -> None:
    assert status_of(["tail", *words]) == 2
    assert said in capsys.readouterr().err


def test_it_writes_nothing_into_the_run(run: GrowingRun, capsys: Printed) -> None:
    run.end()
    before = {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()}
    assert status_of(["tail", "-f", "--json"]) == 0
    assert {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()} == before
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 6
