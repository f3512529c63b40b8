"""Commands that read, printed to what is no modern terminal: another locale, no colour, few columns, a closed pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from kit.pseudoterminal import PseudoTerminal
from kit.scripted import Script

DOCKET = [sys.executable, "-m", "docket"]
COMMANDS = {
    "ls": "ls", "report": "report latest", "markdown": "report --markdown latest", "page": "report --html latest",
    "explain": "explain latest", "diff": "diff latest latest", "show": "show latest 4", "tail": "tail -n 999",
    "watch": "watch --once", "doctor": "doctor latest", "verify": "verify .docket/latest", "prices": "prices gpt-4o",
}  # fmt: skip
JSON = {
    "ls": "ls --json", "explain": "explain --json", "diff": "diff --json latest latest",
    "show": "show --json latest 4", "doctor": "doctor --json latest", "verify": "verify --json .docket/latest",
}  # fmt: skip
LOCALES = {
    "ASCII": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "Latin 1": {"PYTHONIOENCODING": "latin-1"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A docket directory with a run whose notes and tools are of several scripts, and many events."""
    root = tmp_path_factory.mktemp("work")
    script = Script().start().note("grüße → 東京 🚀" + "x" * 90)
    for _ in range(800):
        script.ask(digest="again")
    script.use("größe").write(root)
    return root


def run(root: Path, words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    environ = {"XDG_CACHE_HOME": str(root / "cache"), **env}
    return subprocess.run(
        [*DOCKET, *words.split()], cwd=root, env=os.environ | environ, capture_output=True, check=False
    )


@cache
def usual(root: Path, words: str) -> subprocess.CompletedProcess[bytes]:
    return run(root, words)


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("command", COMMANDS)
def test_another_locale_loses_no_line_and_breaks_nothing(root: Path, command: str, locale: str) -> None:
    expected, done = usual(root, COMMANDS[command]), run(root, COMMANDS[command], **LOCALES[locale])
    assert b"fault of docket" not in done.stderr
    assert done.returncode == expected.returncode
    # Where the locale names ASCII, click takes it for a mistake, and writes UTF-8.
    text = done.stdout.decode("latin-1" if locale == "Latin 1" and command != "page" else "utf-8")
    assert len(text.split("\n")) == len(expected.stdout.decode().split("\n"))


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("command", JSON)
def test_json_has_the_same_value_in_every_locale(root: Path, command: str, locale: str) -> None:
    expected, done = usual(root, JSON[command]), run(root, JSON[command], **LOCALES[locale])
    assert json.loads(done.stdout.decode("ascii")) == json.loads(expected.stdout)


@pytest.mark.parametrize("command", COMMANDS.values())
def test_a_reader_that_leaves_ends_it_in_silence(root: Path, command: str) -> None:
    line = f"{sys.executable} -m docket {command} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    env = os.environ | {"XDG_CACHE_HOME": str(root / "cache")}
    done = subprocess.run(["bash", "-c", line], cwd=root, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("0", "1", "3", "141")
    assert "Traceback" not in done.stderr
    assert "fault" not in done.stderr


@pytest.mark.parametrize("command", [words for name, words in COMMANDS.items() if name != "page"])
def test_on_a_narrow_terminal_without_colour_nothing_is_coloured_and_nothing_is_lost(root: Path, command: str) -> None:
    env = os.environ | {"NO_COLOR": "1", "COLUMNS": "30", "TERM": "xterm", "XDG_CACHE_HOME": str(root / "cache")}
    shown = PseudoTerminal([*DOCKET, *command.split()], env=env, cwd=str(root), size=(10, 30)).rest()
    assert "\x1b" not in shown
    expected = usual(root, command)
    assert shown.replace("\r\n", "\n") == (expected.stdout + expected.stderr).decode()


@pytest.mark.parametrize("command", ["ls --json", "doctor --json latest", "ls", "report latest", "tail"])
def test_a_directory_whose_name_is_no_text_breaks_nothing(tmp_path: Path, command: str) -> None:
    odd = tmp_path / os.fsdecode(b"w\xff\xfe")
    odd.mkdir()
    Script().start().write(odd)
    name = os.fsdecode(b"w\xff\xfe/.docket")
    done = subprocess.run(
        [*DOCKET, *command.split(), "--docket-dir", name], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert b"fault" not in done.stderr
    if "--json" in command:
        assert "w\ufffd\ufffd" in str(json.loads(done.stdout))
