"""Keys are found where the operator keeps them; what is wrong is said without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docket.errors import UsageError
from docket.policy.held_keys import Keys
from docket.supervisor.key_sources import Found, check_argv, find

KEY, OTHER = "sk-SENTINEL-key-1", "sk-SENTINEL-key-2"


def test_every_source_gives_its_key_and_what_the_policy_names_wins(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        f"# keys\nexport ANTHROPIC_API_KEY='{KEY}a'\nGEMINI_API_KEY={KEY}b # mine\nOTHER=x\n"
        f'OPENAI_API_KEY="{OTHER}"\n'
    )
    (tmp_path / "key").write_text(f"{KEY}c\n")
    keys = Keys(files=("CODEX_API_KEY=key",), commands=(f"OPENAI_API_KEY=sh -c 'echo {KEY[:5]}\"\"{KEY[5:]}c'",))
    found = find(keys, {"OPENAI_API_KEY": OTHER, "OLLAMA_API_KEY": "ollama"}, tmp_path)
    assert found.keys == {
        "ANTHROPIC_API_KEY": f"{KEY}a",
        "GEMINI_API_KEY": f"{KEY}b",
        "CODEX_API_KEY": f"{KEY}c",
        "OPENAI_API_KEY": f"{KEY}c",
    }
    assert len(found.readable) == 5
    assert KEY not in repr(found)


def test_docket_s_own_variable_wins_over_the_file_of_variables(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={OTHER}\n")
    assert find(Keys(), {"OPENAI_API_KEY": KEY}, tmp_path).keys == {"OPENAI_API_KEY": KEY}


@pytest.mark.parametrize(
    ("keys", "environ"),
    [
        (Keys(files=("OPENAI_API_KEY=missing",)), {}),
        (Keys(files=("OPENAI_API_KEY=two",)), {}),
        (Keys(files=("OPENAI_API_KEY=.",)), {}),
        (Keys(commands=("OPENAI_API_KEY=sh -c 'cat two; exit 3'",)), {}),
        (Keys(commands=("OPENAI_API_KEY=no-such-command",)), {}),
        (Keys(commands=("OPENAI_API_KEY=sh -c 'cat two",)), {}),
        (Keys(commands=("OPENAI_API_KEY=true",)), {}),
        (Keys(commands=(f"OPENAI_API_KEY=echo {KEY}",)), {}),
        (Keys(keyring=("OPENAI_API_KEY=service/user",)), {}),
        (Keys(), {"OPENAI_API_KEY": KEY, "CODEX_API_KEY": OTHER}),
        (Keys(), {"OPENAI_API_KEY": f"{KEY}\n{OTHER}"}),
    ],
)
def test_a_source_that_gives_no_key_is_refused_by_name_and_without_what_it_held(
    keys: Keys, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "two").write_text(f"{KEY}\n{OTHER}\n")
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        find(keys, environ, tmp_path)
    assert "SENTINEL" not in f"{caught.value} {caught.value.hint}"


def test_a_command_line_that_holds_a_key_is_refused_without_it() -> None:
    found = Found(keys={"OPENAI_API_KEY": KEY})
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        check_argv(found, ("agent", f"--api-key={KEY}"))
    assert KEY not in str(caught.value)
    check_argv(found, ("agent", "--api-key=another"))


def test_a_copy_under_another_name_goes_too() -> None:
    found = Found(keys={"OPENAI_API_KEY": KEY})
    environ = {"OPENAI_API_KEY": KEY, "MINE": f"Bearer {KEY}", "HOME": "/root"}
    assert found.without(environ, "token") == {"OPENAI_API_KEY": "token", "MINE": "Bearer token", "HOME": "/root"}
    assert found.without(environ) == {"MINE": "Bearer ", "HOME": "/root"}


FORGETS = """
import os, sys
from docket.supervisor.key_sources import Found, forget, shown_in
found = Found(keys={"OPENAI_API_KEY": os.environ["OPENAI_API_KEY"]})
before = shown_in(found)
forget(found)
print(f"the environment of process {os.getpid()}" in before, f"process {os.getpid()}" in str(shown_in(found)))
print(os.environ.get("OPENAI_API_KEY"), repr(os.environ["COPY"]), os.environ["LAST"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_what_the_kernel_shows_of_docket_s_environment_no_longer_holds_the_key() -> None:
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY, "COPY": KEY, "LAST": "stays"}
    done = subprocess.run([sys.executable, "-c", FORGETS], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True False", "None '' stays"]
