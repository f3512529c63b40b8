"""``docket verify`` and ``docket report``: what they print, and their exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.recordings import key, small, write


def docket(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "docket", *args], input=stdin, capture_output=True, text=True, check=False
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(small(key("operator")).files(), tmp_path / "run")


def test_a_run_directory_verifies_and_the_answer_says_that_nothing_was_pinned(run: Path) -> None:
    answer = docket("verify", str(run))
    assert answer.returncode == 0
    assert answer.stdout.startswith("verified: ")
    assert "consistent, not authentic" in answer.stdout


def test_a_link_to_a_run_is_followed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run)
    assert docket("verify", str(tmp_path / "latest")).returncode == 0


def test_the_json_answer_has_every_check(run: Path) -> None:
    answer = json.loads(docket("verify", "--json", str(run)).stdout)
    assert answer["verdict"] == "verified"
    assert all(check.keys() == {"id", "status", "detail"} for check in answer["checks"])


def test_a_failed_run_names_check_and_event(run: Path) -> None:
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"quantity":1000', b'"quantity":1001', 1))
    answer = docket("verify", str(run))
    assert answer.returncode == 1
    assert answer.stdout.startswith("failed: ledger.hash: event 3: ")


def test_a_ledger_alone_is_unsealed_unless_accepted(run: Path) -> None:
    path = str(run / "ledger.jsonl")
    assert docket("verify", path).returncode == 3
    assert docket("verify", "--accept", "unsealed,incomplete", path).returncode == 0
    assert docket("verify", "--accept", "failed", path).returncode == 2


@pytest.mark.parametrize("args", [[], ["nothing-there"], ["--run-key", "abc", "x"], ["--batch", "x"]])
def test_a_wrong_call_is_2(args: list[str]) -> None:
    assert docket("verify", *args).returncode == 2


def test_a_directory_without_documents_a_fifo_and_another_file_are_unreadable(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "receipt.json")
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "empty").mkdir()
    for path in (tmp_path, tmp_path / "text", tmp_path / "empty"):
        answer = docket("verify", "--json", str(path))
        assert (answer.returncode, json.loads(answer.stdout)["verdict"]) == (2, "unreadable")


def test_a_batch_answers_every_path_on_a_line(run: Path) -> None:
    answer = docket("verify", "--batch", stdin=f"{run}\n{run / 'receipt.json'}\nnowhere\n")
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [line["verdict"] for line in lines] == ["verified", "verified", "unreadable"]
    assert lines[2]["path"] == "nowhere"


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys\nfrom docket.cli.main import status_of\nstatus_of(['verify', '--help'])\n"
        "sys.exit(any(name in sys.modules for name in ('aiohttp', 'cryptography', 'orjson')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_a_report_shows_cost_caps_and_limits(run: Path) -> None:
    answer = docket("report", str(run))
    assert answer.returncode == 0
    assert "cost        0.0066 USD, exact" in answer.stdout
    assert "What this receipt does not show:" in answer.stdout


def test_a_report_of_a_run_without_receipt_says_so(run: Path) -> None:
    (run / "receipt.json").unlink()
    answer = docket("report", str(run))
    assert answer.returncode == 0
    assert answer.stdout.startswith("no receipt: the run died, or was never sealed")
