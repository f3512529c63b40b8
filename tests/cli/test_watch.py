"""``docket watch`` as a person and a script call it: lines, JSON, a real terminal, and the wrong ways."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response

DOCKET = [sys.executable, "-m", "docket"]


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), request(1), response(1), request(2)])
    run.attest()
    return run


def watch(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"XDG_CACHE_HOME": str(root / "cache")}
    return subprocess.run(
        [*DOCKET, "watch", *words], cwd=root, env=env, capture_output=True, text=True, check=False, timeout=30
    )


def test_once_says_what_there_is_and_ends(run: GrowingRun, tmp_path: Path) -> None:
    done = watch(tmp_path, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"{run.directory.name}  running  0 s"
    assert "2 calls, 1 under way, 0 errors, 0 refused" in done.stdout.splitlines()


def test_without_a_terminal_it_says_what_changed_and_ends_with_the_run(run: GrowingRun, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DOCKET, "watch"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=os.environ | {"HOME": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(run.directory.name)
        run.append([response(2)])
        run.end()
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "2 calls, 0 under way, 0 errors, 0 refused" in rest
    assert f"{run.directory.name}  completed  0 s" in rest


def test_json_streams_the_lines_of_the_ledger_until_the_run_ends(run: GrowingRun, tmp_path: Path) -> None:
    with subprocess.Popen([*DOCKET, "watch", "--json"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        run.end()
        whole = first + process.stdout.read()
    assert whole == (run.path / "ledger.jsonl").read_bytes()
    assert process.returncode == 0


def test_json_since_a_cursor_leaves_out_what_came_before(run: GrowingRun, tmp_path: Path) -> None:
    lines = (run.path / "ledger.jsonl").read_text().splitlines(keepends=True)
    assert watch(tmp_path, "--json", "--once", "--since", "2").stdout == "".join(lines[3:])
    assert watch(tmp_path, "--json", "--once", "--since", "latest").stdout == ""


def test_a_real_terminal_is_drawn_on_and_left_as_it_was(run: GrowingRun, tmp_path: Path) -> None:
    run.append([run.note("\x1b]0;owned\x07")])
    run.end()
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*DOCKET, "watch"], cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=env
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert run.directory.name in text
    assert "completed" in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l"), "the cursor is shown again"
    assert "owned" not in text.replace("\ufffd", "") or "\x1b]0;" not in text


def test_no_color_means_plain_lines_on_a_terminal_too(run: GrowingRun, tmp_path: Path) -> None:
    run.end()
    env = os.environ | {"NO_COLOR": "1", "TERM": "xterm", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*DOCKET, "watch"], cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=env, check=False
    )
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert (done.returncode, b"\x1b" in shown) == (0, False)


def test_serve_prints_its_address_answers_with_its_token_and_ends_at_a_signal(run: GrowingRun, tmp_path: Path) -> None:
    with subprocess.Popen([*DOCKET, "watch", "--serve"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address, _, token = process.stdout.readline().strip().partition("/?token=")
        asked = Request(f"{address}/docket/runs", headers={"Authorization": f"Bearer {token}"})
        with urlopen(asked) as answer:
            assert run.directory.name.encode() in answer.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["DKT-20200101-0000000000"], "no run DKT-20200101-0000000000"),
        (["--json", "--once", "--since", "99"], "--since 99: the cursor 99 is ahead of the last event, 4"),
        (["--json", "--once", "--since", "x"], "--since x: the cursor is no number"),
        (["--serve", "--port", "99999"], "99999 is not in the range"),
    ],
)
def test_a_wrong_call_names_what_is_wrong(run: GrowingRun, tmp_path: Path, words: list[str], said: str) -> None:
    done = watch(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_all_without_a_run_that_goes_on_says_so(run: GrowingRun, tmp_path: Path) -> None:
    run.end()
    done = watch(tmp_path, "--all")
    assert (done.returncode, "no run goes on" in done.stderr) == (2, True)


def test_watching_writes_nothing_into_the_run(run: GrowingRun, tmp_path: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()}
    watch(tmp_path, "--once")
    assert {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()} == before
