"""What is set, written and said for each known agent; all of it from the measurements on real clients."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docket.agents.adapter import PRIVATE_HOME, Adaptation, Launch
from docket.agents.registry import AGENTS, named, recognise
from docket.policy.parse import parse
from docket.policy.render import render

BASE = "http://127.0.0.1:1234/r/SECRETTOKEN"
URLS = {"openai": f"{BASE}/openai/v1", "anthropic": f"{BASE}/anthropic", "gemini": f"{BASE}/gemini"}
HOME = Path("/home/u")


def adapt(name: str, *argv: str, files: dict[str, object] | None = None, **environ: str) -> Adaptation:
    agent = named(name)
    assert agent is not None
    texts = {str(HOME / path): json.dumps(value) for path, value in (files or {}).items()}  # noqa: TID251 - a user's file
    launch = Launch(argv=argv, at=0, environ=environ, base_urls=URLS, home=HOME, read=lambda path: texts.get(str(path)))
    adapted = agent.adapt(launch)
    for line in (*adapted.did, *adapted.problems):
        assert "SECRET" not in line, "neither address nor key may be said"
    return adapted


@pytest.mark.parametrize(
    ("command", "name", "at"),
    [
        ("claude -p hi", "claude-code", 0),
        ("/usr/local/bin/codex exec x", "codex", 0),
        ("gemini", "gemini-cli", 0),
        ("opencode run x", "opencode", 0),
        ("aider --message x", "aider", 0),
        ("python3.11 agent.py", "python", 0),
        ("./venv/bin/python agent.py", "python", 0),
        ("npx -y @openai/codex@0.171.0 exec x", "codex", 2),
        ("uvx --from aider-chat aider", "generic", 2),
        ("npx @google/gemini-cli", "gemini-cli", 1),
        ("curl http://x", "generic", 0),
        ("claudette", "generic", 0),
    ],
)
def test_an_agent_is_known_by_its_commands_name(command: str, name: str, at: int) -> None:
    found, index = recognise(tuple(command.split()))
    if name != "generic":
        assert (found.name, index) == (name, at)
    else:
        assert found.name in ("generic", "aider")


def test_codex_gets_a_private_home_with_its_address_and_its_key_under_the_name_it_reads() -> None:
    adapted = adapt("codex", "codex", "exec", "hi", OPENAI_API_KEY="SECRETKEY")
    assert adapted.argv == ("codex", "exec", "hi")
    assert adapted.environment == {"CODEX_API_KEY": "SECRETKEY"}
    assert adapted.home_variable == "CODEX_HOME"
    assert tomllib.loads(adapted.files["config.toml"]) == {"openai_base_url": URLS["openai"]}


@pytest.mark.parametrize(
    "own",
    [
        'model = "gpt-5"\n[mcp_servers.x]\ncommand = "openai_base_url = 1"\n',
        'openai_base_url = "https://corp.example/v1"\nmodel = "gpt-5"\n',
        '# mine\nmodel = "x"\n  "openai_base_url"   = "https://corp.example/v1"\n[profiles.openai_base_url]\nx = 1\n',
        "",
    ],
)
def test_codex_keeps_the_users_configuration_but_for_the_address(own: str) -> None:
    launch = Launch(argv=("codex",), at=0, environ={}, base_urls=URLS, home=HOME, read=lambda path: own)
    written = named("codex").adapt(launch).files["config.toml"]  # type: ignore[union-attr]
    assert tomllib.loads(written) == {**tomllib.loads(own), "openai_base_url": URLS["openai"]}


@pytest.mark.parametrize("own", ["no toml", 'openai_base_url = """\nhttps://x\n"""\n'])
def test_a_codex_configuration_that_cannot_be_extended_is_named(own: str) -> None:
    launch = Launch(argv=("codex",), at=0, environ={}, base_urls=URLS, home=HOME, read=lambda path: own)
    adapted = named("codex").adapt(launch)  # type: ignore[union-attr]
    assert "config.toml" in adapted.problems[0]
    assert not adapted.files


def test_a_codex_that_is_logged_in_with_chatgpt_is_named_as_out_of_reach() -> None:
    adapted = adapt("codex", "codex", files={".codex/auth.json": {"tokens": {"access_token": "SECRET"}}})
    assert "chatgpt.com" in adapted.problems[0]
    assert not adapt("codex", "codex", files={".codex/auth.json": {"tokens": {}}}, CODEX_API_KEY="k").problems


def test_gemini_gets_a_private_home_that_keeps_the_users_settings() -> None:
    settings = {"theme": "dark", "security": {"auth": {"useExternal": False}, "folderTrust": {}}}
    adapted = adapt("gemini-cli", "gemini", files={".gemini/settings.json": settings}, GEMINI_API_KEY="k")
    assert adapted.home_variable == "GEMINI_CLI_HOME"
    written: dict[str, Any] = json.loads(adapted.files[".gemini/settings.json"])
    assert written["theme"] == "dark"
    assert written["security"] == {
        "auth": {"useExternal": False, "selectedType": "gemini-api-key"},
        "folderTrust": {},
    }


def test_a_gemini_that_logs_in_by_key_already_is_left_alone() -> None:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    adapted = adapt("gemini-cli", "gemini", files={".gemini/settings.json": settings}, GEMINI_API_KEY="k")
    assert (adapted.files, adapted.did, adapted.problems) == ({}, (), ())


def test_what_cannot_be_attached_is_named_with_the_way_out() -> None:
    assert "set GEMINI_API_KEY" in adapt("gemini-cli", "gemini").problems[0]
    assert "Vertex" in adapt("gemini-cli", "gemini", GOOGLE_GENAI_USE_VERTEXAI="true", GEMINI_API_KEY="k").problems[0]
    assert "Bedrock" in adapt("claude-code", "claude", CLAUDE_CODE_USE_BEDROCK="1").problems[0]
    assert not adapt("claude-code", "claude", CLAUDE_CODE_USE_BEDROCK="0").problems
    assert "leave it out" in adapt("codex", "codex", "-c", "openai_base_url=x", CODEX_API_KEY="k").problems[0]
    assert "leave it out" in adapt("aider", "aider", "--openai-api-base=https://x").problems[0]


def test_claude_code_is_overridden_only_where_its_settings_name_an_address() -> None:
    plain = adapt("claude-code", "claude", "-p", "hi", ANTHROPIC_API_KEY="k")
    assert (plain.argv, plain.did) == (("claude", "-p", "hi"), ())
    settings = {"env": {"ANTHROPIC_BASE_URL": "https://corp.example"}}
    moved = adapt("claude-code", "claude", "-p", "hi", files={".claude/settings.json": settings}, ANTHROPIC_API_KEY="k")
    assert moved.argv[1:3] == ("--settings", f"{PRIVATE_HOME}/settings.json")
    assert json.loads(moved.files["settings.json"]) == {"env": {"ANTHROPIC_BASE_URL": URLS["anthropic"]}}
    assert "quota" in adapt("claude-code", "claude").did[0]


def test_opencode_keeps_its_inline_configuration() -> None:
    inline = '{"model": "anthropic/x", "provider": {"openai": {"options": {"timeout": 5}}}}'
    adapted = adapt("opencode", "opencode", OPENCODE_CONFIG_CONTENT=inline)
    config = json.loads(adapted.environment["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == "anthropic/x"
    assert config["provider"]["openai"]["options"] == {"timeout": 5, "baseURL": URLS["openai"]}
    assert config["provider"]["anthropic"]["options"]["baseURL"] == URLS["anthropic"] + "/v1"


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_every_agent_has_a_policy_that_reads_back_and_caps_something(agent: Any) -> None:
    policy = parse(render(agent.preset()), "docket.toml")
    assert policy == agent.preset()
    assert policy.name == agent.name
    assert policy.caps.max_usd is not None
    assert policy.caps.max_model_calls is not None
