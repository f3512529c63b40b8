"""``docket show``: one event of a run in any state, and what is no event."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docket.cli.main import status_of
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response
from kit.scripted import Script

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrowingRun:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), request(1), response(1), request(2)])
    run.attest()
    monkeypatch.chdir(tmp_path)
    return run


def test_an_event_is_shown_with_every_member(run: GrowingRun, capsys: Printed) -> None:
    assert status_of(["show", "latest", "3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "event 3: model.response, by boundary"
    rows = dict(line.split(None, 1) for line in said[5:])
    assert (rows["data.usage.cost_usd"], rows["data.call"]) == ("0.0000105", "1")


@pytest.mark.parametrize("where", ["latest", "directory", "ledger", "archive"])
def test_json_is_the_line_of_the_ledger_wherever_it_is_read_from(
    where: str, run: GrowingRun, tmp_path: Path, capsys: Printed
) -> None:
    run.end()
    archive = tmp_path / "it.tar"
    assert status_of(["archive", str(run.path), "-o", str(archive)]) == 0
    name = {"latest": "latest", "directory": run.path, "ledger": run.path / "ledger.jsonl", "archive": archive}[where]
    lines = (run.path / "ledger.jsonl").read_text().splitlines()
    capsys.readouterr()
    for seq, line in enumerate(lines):
        assert status_of(["show", "--json", str(name), str(seq)]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads(line)


def test_what_no_checkpoint_covers_is_not_shown_while_the_run_goes_on(run: GrowingRun, capsys: Printed) -> None:
    run.append([response(2)])
    assert status_of(["show", "latest", "5"]) == 2
    assert "events go from 0 to 4, and the run goes on" in capsys.readouterr().err


def test_hostile_text_does_not_reach_the_terminal(tmp_path: Path, capsys: Printed) -> None:
    path = Script().start().note("a\x1b[2J\u202e\nevent 9: forged").write(tmp_path)
    for words in (["show"], ["show", "--json"]):
        assert status_of([*words, str(path), "4"]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert not [line for line in out.splitlines() if line.startswith("event 9")]


def test_a_line_that_is_no_event_is_named(tmp_path: Path, capsys: Printed) -> None:
    path = Script().start().ask().write(tmp_path) / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for broken in (b"{}\n", b"[1]\n", b"\xff\n", b'{"seq":2}\n'):
        path.write_bytes(b"".join([*lines[:2], broken, *lines[3:]]))
        assert status_of(["show", str(path), "2"]) == 2
        assert "line 2 of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "1"], "no run nothing"), (["latest"], "Missing argument 'SEQ'"), (["latest", "x"], "'x'"),
        (["latest", "5"], "has no event 5"), (["latest/ledger.jsonl", "5"], "no run latest/ledger.jsonl"),
        ([".docket/latest/ledger.jsonl", "77"], "has no event 77"), ([".docket/latest/checkpoints", "0"], "neither"),
    ],
)  # fmt: skip
def test_a_wrong_call_names_what_is_wrong(run: GrowingRun, capsys: Printed, words: list[str], said: str) -> None:
    assert status_of(["show", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_closed_pipe_ends_it_in_silence(run: GrowingRun, tmp_path: Path) -> None:
    line = f"{sys.executable} -m docket show latest 1 | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")
