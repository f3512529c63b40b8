"""Real SDKs and curl under the installed wheel: the same answers, exact figures, a receipt that verifies."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from decimal import Decimal

import pytest

from kit.installed import Installed, Provider, agent, environment

KEYS = {"OPENAI_API_KEY": "sk-SENTINEL-openai-0123456789", "ANTHROPIC_API_KEY": "sk-ant-SENTINEL-0123456789"}


def _direct(script: str, url: str) -> str:
    """What the agent prints without docket."""
    env = environment(KEYS | {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url})
    return subprocess.run(agent(script), env=env, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("script", "provider_name", "input_usd", "output_usd"),
    [("openai_agent.py", "openai", "2.5", "10"), ("anthropic_agent.py", "anthropic", "3", "15")],
)
def test_an_sdk_gets_the_same_answers_and_the_receipt_the_providers_figures(
    script: str,
    provider_name: str,
    input_usd: str,
    output_usd: str,
    installed: Installed,
    provider: Callable[..., Provider],
) -> None:
    plain = _direct(script, provider("--output-tokens", "7").url)
    upstream = provider("--output-tokens", "7")
    done = installed.run("run", "--max-usd", "1", *upstream.flags, "--", *agent(script), env=KEYS)
    assert done.status == 0, done.err
    assert done.out == plain
    receipt, stated = installed.receipt(), upstream.report()
    totals = receipt["totals"]
    assert totals["calls"] == stated["count"] == 6
    assert totals["errors"] == totals["denied"] == 0
    tokens = totals["tokens"]
    assert (tokens["input"], tokens["output"]) == (stated["input_tokens"], stated["output_tokens"])
    cost = (tokens["input"] * Decimal(input_usd) + tokens["output"] * Decimal(output_usd)) / 1_000_000
    assert Decimal(totals["cost_usd"]) == cost
    assert totals["cost_is"] == "exact"
    assert {row["provider"] for row in totals["by_model"]} == {provider_name}
    verdict = installed.verdict()
    assert (verdict["verdict"], verdict["exit"]) == ("verified", 0)
    assert not [check for check in verdict["checks"] if check["status"] == "fail"]


def test_curl_streams_through_as_it_would_directly(installed: Installed, provider: Callable[..., Provider]) -> None:
    upstream = provider()
    body = '{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},"messages":[]}'
    command = f"curl -sN -H 'content-type: application/json' -d '{body}' $OPENAI_BASE_URL/chat/completions"
    direct = subprocess.run(
        ["sh", "-c", command],
        env=environment({"OPENAI_BASE_URL": f"{upstream.url}/v1"}),
        capture_output=True,
        text=True,
        check=True,
    )
    done = installed.run("run", *upstream.flags, "--", "sh", "-c", command)
    assert done.status == 0, done.err
    assert _shape(done.out) == _shape(direct.stdout)
    (end,) = installed.events("model.response")
    assert end["data"]["usage"]["source"] == "reported"


def _shape(stream: str) -> list[str]:
    """The lines of an event stream without the numbers that the provider counts on."""
    return [line if len(line) < 20 else f"{line[:12]}…{line[-12:]}" for line in stream.splitlines()]


def test_a_loop_is_stopped_at_its_cap_with_42_and_every_paid_call_in_the_bill(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider("--input-tokens", "2000", "--output-tokens", "500")
    done = installed.run("run", "--max-usd", "0.05", *upstream.flags, "--", *agent("openai_agent.py", "1000"), env=KEYS)
    assert done.status == 42, done.err
    receipt = installed.receipt()
    assert receipt["session"]["outcome"] == "breached"
    assert receipt["session"]["breach"]["cap"] == "max_usd"
    assert receipt["totals"]["calls"] == upstream.report()["count"] == 5
    assert Decimal(receipt["totals"]["cost_usd"]) == Decimal("0.05")
    # The fifth answer was delivered; whether the agent still printed it depends on how fast SIGTERM was.
    assert done.out.split()[:8] == ["call", "1", "call", "2", "call", "3", "call", "4"]
    assert installed.verdict()["verdict"] == "verified"


def test_under_deny_the_agent_lives_sees_a_final_refusal_and_the_status_is_still_42(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider("--input-tokens", "2000", "--output-tokens", "500")
    script = f"'{agent('openai_agent.py')[0]}' '{agent('openai_agent.py')[1]}' 9 2>refusal; exit 0"
    done = installed.run(
        "run", "--max-calls", "2", "--on-breach", "deny", *upstream.flags, "--", "sh", "-c", script, env=KEYS
    )
    assert done.status == 42, done.err
    refusal = (installed.directory / "refusal").read_text()
    assert "BadRequestError" in refusal
    assert "max_model_calls" in refusal
    receipt = installed.receipt()
    assert receipt["totals"]["calls"] == upstream.report()["count"] == 2
    assert receipt["totals"]["denied"] == 1
    assert receipt["docket"] in refusal


def test_a_model_without_a_price_is_refused_under_a_usd_cap_and_only_counted_without_one(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    body = '{"model":"acme-unknown-9","messages":[]}'
    command = f"curl -s -H 'content-type: application/json' -d '{body}' $OPENAI_BASE_URL/chat/completions"
    capped = installed.run("run", "--max-usd", "0.01", *upstream.flags, "--", "sh", "-c", command)
    assert "unpriced" in capped.out
    assert upstream.report()["count"] == 0
    assert installed.receipt()["totals"]["denied"] == 1
    free = installed.run("run", *upstream.flags, "--", "sh", "-c", command)
    assert "chat.completion" in free.out
    totals = installed.receipt()["totals"]
    assert totals["cost_is"] == "none"
    assert "cost_usd" not in totals
