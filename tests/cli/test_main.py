"""The command line: what loads, what it costs, and how errors become messages and statuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docket.cli import exit_codes
from docket.cli.main import COMMANDS, status_of

HEAVY = ("aiohttp", "cryptography", "prometheus_client", "asyncio")


def _imported(*args: str) -> str:
    """Which of HEAVY the command line ``args`` imports."""
    code = (
        "import sys\nfrom docket.cli.main import status_of\n"
        f"status = status_of({list(args)!r})\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], status, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("args", [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_and_version_load_nothing_heavy(args: list[str]) -> None:
    assert _imported(*args) == "[] 0"


def test_a_wrong_flag_of_run_is_answered_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from docket.cli.main import status_of\n"
        "status = status_of(sys.argv[1:])\n"
        "print('aiohttp' in sys.modules, status)"
    )
    args = ["run", "--max-usd", "nan", "--", "true"]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "False 2\n"
    assert "--max-usd" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_policy_error_names_file_key_and_nearest_key_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docket.toml").write_text("[caps]\nmax_us = 5\n")
    assert status_of(["run", "--", "touch", "started"]) == exit_codes.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "docket.toml: caps.max_us" in shown.err
    assert "'max_usd'" in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["docket.toml"]


@pytest.mark.parametrize(
    "args",
    [
        ["no-such-command"],
        ["run"],
        ["run", "--no-such-flag", "--", "true"],
        ["run", "--policy", "absent.toml", "--", "true"],
        ["run", "--cwd", "absent", "--", "true"],
        ["run", "--port", "70000", "--", "true"],
        ["run", "--upstream", "openai", "--", "true"],
    ],
)
def test_a_wrong_call_is_2_with_a_message_on_stderr(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(args) == exit_codes.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err
    assert list(tmp_path.iterdir()) == []


def test_init_writes_a_policy_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(["init"]) == 0
    written = Path("docket.toml").read_text()
    assert "[caps]" in written
    assert status_of(["init"]) == exit_codes.USAGE
    Path("docket.toml").write_text("mine")
    assert status_of(["init", "--force"]) == 0
    assert Path("docket.toml").read_text() == written


def test_keygen_writes_a_private_file_once_and_prints_the_public_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(["keygen", "key.pem"]) == 0
    public = capsys.readouterr().out.strip()
    assert len(bytes.fromhex(public)) == 32
    assert Path("key.pem").stat().st_mode & 0o777 == 0o600
    before = Path("key.pem").read_bytes()
    assert status_of(["keygen", "key.pem"]) == exit_codes.USAGE
    assert Path("key.pem").read_bytes() == before


def test_a_reader_that_goes_away_is_no_error_of_docket() -> None:
    script = f"{sys.executable} -m docket --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("0", "141")  # 0 where the reader was slow enough to read it all
    assert "Traceback" not in done.stderr
