"""``held`` is said only where nothing shows a key."""

from __future__ import annotations

import os
import subprocess
import sys

from docket.supervisor.custody import COPIES, Custody
from docket.supervisor.key_sources import Found

FOUND = Found(keys={"OPENAI_API_KEY": f"sk-{os.getpid()}-held"})


def test_held_is_said_where_nothing_shows_the_key_and_its_negation_where_something_does() -> None:
    said = Custody.of(FOUND, hidden=True)
    assert said.mechanism.startswith("held: OPENAI_API_KEY")
    assert said.limits == said.remarks == ()
    for found, hidden in ((FOUND, False), (Found(keys=FOUND.keys, readable=("a file holds it",)), True)):
        said = Custody.of(found, hidden=hidden)
        assert said.mechanism.startswith("not prevented")
        assert said.limits == (COPIES,)
        assert len(said.remarks) == 1
    assert Custody.of(None, hidden=True).mechanism.startswith("not prevented")


def test_another_process_whose_environment_or_arguments_show_the_key_is_named() -> None:
    key = FOUND.keys["OPENAI_API_KEY"]
    wait = "import sys; print(flush=True); sys.stdin.read()"
    for arguments, extra in (((), {"KEY": key}), ((key,), {})):
        with subprocess.Popen(
            [sys.executable, "-c", wait, *arguments],
            env={**os.environ, **extra},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as other:
            assert other.stdout is not None
            other.stdout.readline()
            said = Custody.of(FOUND, hidden=True)
            other.communicate()
        assert said.mechanism.startswith("not prevented")
        assert any(f"process {other.pid}" in remark for remark in said.remarks)
        assert key not in str(said)
