"""Completion in real shells: what a person gets by pressing TAB."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ENV = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
BASH = """
eval "$(docket completion bash)"
COMP_WORDS=({words}) COMP_CWORD={last}
_docket_completion docket
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def candidates(*words: str) -> list[str]:
    """What bash offers for the last of ``words``."""
    script = BASH.format(words=" ".join(f'"{word}"' for word in words), last=len(words) - 1)
    done = subprocess.run(["bash", "--norc", "-c", script], env=ENV, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_command_is_completed() -> None:
    assert candidates("docket", "ver") == ["verify"]


def test_a_flag_of_a_command_is_completed() -> None:
    assert "--max-usd" in candidates("docket", "run", "--max-u")


def test_a_choice_is_completed() -> None:
    assert candidates("docket", "completion", "z") == ["zsh"]


def test_what_begins_no_command_has_no_candidate() -> None:
    assert candidates("docket", "zzz") == []


def test_the_answer_to_a_shell_is_a_success() -> None:
    env = ENV | {"_DOCKET_COMPLETE": "bash_complete", "COMP_WORDS": "docket ru", "COMP_CWORD": "1"}
    done = subprocess.run(["docket"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "plain,run\n")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_one_that_the_shell_can_read(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"SKIP: no {shell} here")
    script = tmp_path / "script"
    script.write_bytes(subprocess.run(["docket", "completion", shell], env=ENV, capture_output=True, check=True).stdout)
    subprocess.run([shell, "-n", str(script)], env=ENV, check=True)


def test_a_shell_that_is_not_known_is_refused_by_name() -> None:
    done = subprocess.run(["docket", "completion", "tcsh"], env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr
