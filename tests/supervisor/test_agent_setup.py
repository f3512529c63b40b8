"""The private settings home: what stands in it, what is linked into it, and that it goes away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docket.errors import UsageError
from docket.supervisor.agent_setup import adapt, check_agent
from docket.supervisor.environment import Route

ROUTES = (
    Route(name="gemini", protocol="gemini", base_url="http://127.0.0.1:1/r/t/gemini"),
    Route(name="openai", protocol="openai", base_url="http://127.0.0.1:1/r/t/openai/v1"),
    Route(name="anthropic", protocol="anthropic", base_url="http://127.0.0.1:1/r/t/anthropic"),
)


def test_a_private_home_holds_the_settings_and_links_the_rest(tmp_path: Path) -> None:
    user = tmp_path / ".gemini"
    user.mkdir()
    (user / "settings.json").write_text('{"theme": "dark"}')
    (user / "trustedFolders.json").write_text("{}")
    adapted = adapt(("gemini",), {"HOME": str(tmp_path), "GEMINI_API_KEY": "k"}, ROUTES, cwd=tmp_path)
    assert adapted.home is not None
    assert adapted.environment["GEMINI_CLI_HOME"] == str(adapted.home)
    assert adapted.home.stat().st_mode & 0o777 == 0o700
    folder = adapted.home / ".gemini"
    assert json.loads((folder / "settings.json").read_text())["theme"] == "dark"
    assert (folder / "trustedFolders.json").resolve() == user / "trustedFolders.json"
    adapted.tidy()
    assert not adapted.home.exists()
    assert (user / "trustedFolders.json").exists()
    assert (user / "settings.json").read_text() == '{"theme": "dark"}'


def test_an_agent_can_be_named_or_left_alone(tmp_path: Path) -> None:
    argv = ("./start-it.sh", "x")
    adapted = adapt(argv, {"HOME": str(tmp_path)}, ROUTES, cwd=tmp_path, agent="codex")
    assert (adapted.argv, "CODEX_HOME" in adapted.environment) == (argv, True)
    adapted.tidy()
    assert adapt(("codex",), {}, ROUTES, cwd=tmp_path, enabled=False).argv == ("codex",)
    with pytest.raises(UsageError, match="cobex"):
        check_agent("cobex")
