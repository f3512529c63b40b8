"""Every provider SDK through docket, Python's and Node's: metered exactly, refused for good, refused for now."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from kit.installed import AGENTS, ROOT, Done, Installed, Provider, agent

PYTHON = ("openai-chat", "openai-responses", "openai-others", "anthropic", "google-genai", "ollama")
NODE = ("node:openai", "node:anthropic", "node:google-genai", "node:ai")
SDKS = (*PYTHON, *NODE)
NODE_SDKS = ROOT / ".node-sdks"
"""Where `make node-sdks` installs the Node SDKs."""
KEYS = {"OPENAI_API_KEY": "sk-trial", "ANTHROPIC_API_KEY": "sk-trial", "GEMINI_API_KEY": "trial"}
SAMPLE = ("openai-chat", "anthropic", "ollama", "node:openai")
"""SDKs that wait out a refusal in `make test`; `make long` has all of them wait."""
NEVER_RETRIES = {"ollama", "node:google-genai"}
"""SDKs that give up at once on a temporary refusal, whatever it says."""


def drive(installed: Installed, upstream: Provider, sdk: str, mode: str, policy: str = "") -> tuple[Done, list[Any]]:
    name = sdk.removeprefix("node:")
    command = agent("sdks.py", name, mode)
    if sdk.startswith("node:"):
        if not (NODE_SDKS / "node_modules").is_dir() or shutil.which("node") is None:
            pytest.skip("the Node SDKs are not installed: make node-sdks")
        command = ["node", str(AGENTS / "sdks.mjs"), name, mode]
    (installed.directory / "docket.toml").write_text(policy)
    flags = [*upstream.flags, "--upstream", f"gemini={upstream.url}", "--upstream", f"ollama={upstream.url}"]
    done = installed.run("run", *flags, "--", *command, env=KEYS | {"NODE_SDKS": str(NODE_SDKS)})
    return done, [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("sdk", SDKS)
def test_an_sdk_is_metered_exactly(sdk: str, installed: Installed, provider: Callable[..., Provider]) -> None:
    upstream = provider("--input-tokens", "120", "--output-tokens", "7")
    done, said = drive(installed, upstream, sdk, "metered")
    assert done.status == 0, done.err
    assert [line["did"] for line in said] == ["plain", "streamed", "third"]
    assert all(line["said"] for line in said)
    totals, stated = installed.receipt()["totals"], upstream.report()
    tokens: dict[str, int] = totals["tokens"]
    assert sum(n for kind, n in tokens.items() if kind.startswith(("input", "cache"))) == stated["input_tokens"]
    assert tokens.get("output", 0) == stated["output_tokens"]
    assert totals["calls"] == totals["by_source"]["reported"] == stated["count"]
    assert totals["cost_is"] == ("none" if sdk == "ollama" else "exact")
    assert installed.verdict()["verdict"] == "verified"


@pytest.mark.parametrize("sdk", SDKS)
def test_a_final_refusal_is_one_call_and_says_why(
    sdk: str, installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    done, said = drive(installed, upstream, sdk, "refused", '[models]\ndeny = ["*"]\n')
    assert done.status == 0, done.err
    (caught,) = said
    receipt = installed.receipt()
    assert "is denied by the policy" in caught["text"]
    assert receipt["docket"] in caught["text"]
    assert upstream.report()["count"] == 0
    assert receipt["totals"]["denied"] == 1, "an SDK must not try a final refusal again"


@pytest.mark.parametrize("sdk", [pytest.param(sdk, marks=[] if sdk in SAMPLE else [pytest.mark.long]) for sdk in SDKS])
def test_a_temporary_refusal_is_waited_out(sdk: str, installed: Installed, provider: Callable[..., Provider]) -> None:
    upstream = provider()
    done, said = drive(installed, upstream, sdk, "patient", "[resilience]\nmax_calls_per_second = 1\n")
    denied = installed.events("model.denied")
    assert [event["data"]["final"] for event in denied] == [False]
    assert denied[0]["data"]["retry_after"] == 1
    if sdk in NEVER_RETRIES:
        assert done.status != 0
        assert "try again in 1 s" in done.err
        return
    assert done.status == 0, done.err
    assert [line["did"] for line in said] == ["first", "second"]
    assert upstream.report()["count"] == 2
