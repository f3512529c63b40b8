"""The token of a run is read by no other user: no command line holds it, whichever agent is started and however."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docket.agents.registry import AGENTS
from kit.installed import Installed

LOOK = """#!/bin/sh
{ for line in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <"$line"; echo; done; } >"$SEEN/cmdlines" 2>/dev/null
echo "$DOCKET_UPSTREAM_OPENAI" >"$SEEN/address"
cp "$CODEX_HOME/config.toml" "$SEEN" 2>/dev/null
for word; do case $word in */settings.json) cp "$word" "$SEEN";; esac; done
stat -c %a "$CODEX_HOME/config.toml" >"$SEEN/mode" 2>/dev/null
exit 0
"""
NAMES = sorted({name for agent in AGENTS for name in agent.commands} | {"an-agent-of-ones-own"})


@pytest.mark.parametrize("own_settings", [False, True], ids=["fresh", "with-settings"])
@pytest.mark.parametrize("name", NAMES)
def test_no_command_line_holds_the_token(installed: Installed, name: str, own_settings: bool) -> None:
    home, seen = installed.directory / "home", installed.directory / "seen"
    for folder in (home / ".claude", home / ".codex", home / ".gemini", seen):
        folder.mkdir(parents=True)
    if own_settings:
        (home / ".claude/settings.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "https://corp.example"}}')
        (home / ".codex/config.toml").write_text('openai_base_url = "https://corp.example"\nmodel = "gpt-5"\n')
        (home / ".gemini/settings.json").write_text('{"theme": "dark"}')
    agent = installed.directory / name
    agent.write_text(LOOK)
    agent.chmod(0o755)
    env = {"HOME": str(home), "SEEN": str(seen), "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
    assert installed.run("run", "--", f"./{name}", "exec", env=env).status == 0
    found = re.search(r"/r/([^/\s]+)/", (seen / "address").read_text())
    assert found is not None
    token = found[1]
    cmdlines = (seen / "cmdlines").read_text(errors="replace")
    assert f"./{name}" in cmdlines
    assert token not in cmdlines
    if name == "codex":
        assert token in (seen / "config.toml").read_text()
        assert (seen / "mode").read_text() == "600\n"
    if name == "claude" and own_settings:
        assert token in (seen / "settings.json").read_text()
    assert token not in "".join(path.read_text(errors="replace") for path in _recorded(installed))


def _recorded(installed: Installed) -> list[Path]:
    return [path for path in installed.latest.resolve().iterdir() if path.is_file()]
