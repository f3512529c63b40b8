"""Azure OpenAI by its official client: deployments are the models that the policy or the answer names, never free."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kit.installed import Done, Installed, agent
from kit.stand_in import Asked, Given, StandIn, standing_in

STREAM = (Path(__file__).parents[1] / "fixtures/usage/u27_azure_deployment.sse").read_bytes()
WHOLE = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "acme-chat-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hey"}, "finish_reason": "stop"}],
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 10,
        "total_tokens": 1010,
        "prompt_tokens_details": {"cached_tokens": 800, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    },
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "team-blue",
    "output": [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hey", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 20, "output_tokens": 2, "total_tokens": 22},
}
"""Azure names the deployment in the answer of its Responses API."""
BLUE = '[upstreams.azure]\n[upstreams.azure.models]\nteam-blue = "acme-chat-1"\n'


def answer(asked: Asked) -> Given:
    if asked.path.startswith("/openai/v1/responses"):
        return Given(json.dumps(RESPONSE).encode())  # noqa: TID251 - a provider's answer
    assert asked.path.endswith("/chat/completions?api-version=2026-06-01")
    if asked.document.get("stream"):
        return Given(STREAM, "text/event-stream", pieces=(9, 200))
    return Given(json.dumps(WHOLE).encode())  # noqa: TID251 - a provider's answer


@pytest.fixture
def azure() -> Iterator[StandIn]:
    with standing_in(answer) as server:
        yield server


def run(installed: Installed, azure: StandIn, *flags: str, policy: str, names: str = "team-blue") -> Done:
    prices = {"input": "2", "cache_read": "0.2", "output": "10"}
    rows = [["standard", kind, usd, 1_000_000] for kind, usd in prices.items()]
    table = {"format": "docket-prices/1", "source": "us", "version": "1", "date": "2026-12-01", "models": []}
    table["models"] = [{"provider": "azure", "model": "acme-chat-1", "periods": [{"rows": rows}]}]
    (installed.directory / "prices.json").write_text(json.dumps(table))  # noqa: TID251 - a file of a user's
    (installed.directory / "docket.toml").write_text(policy)
    command = ["run", "--prices", "prices.json", *flags, "--", *agent("azure_agent.py", *names.split())]
    return installed.run(*command, env={"AZURE_OPENAI_ENDPOINT": azure.url})


def said(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_deployment_that_the_policy_states_is_metered_to_the_token(installed: Installed, azure: StandIn) -> None:
    done = run(installed, azure, "--max-usd", "1", policy=BLUE)
    assert (done.status, said(done)) == (0, [{"whole": "hey", "streamed": "hey", "response": "hey"}]), done.err
    totals = installed.receipt()["totals"]
    assert totals["tokens"] == {"input": 200 + 11 + 20, "cache_read": 800, "output": 10 + 3 + 2}
    assert Decimal(totals["cost_usd"]) == Decimal("0.000772"), "231 x 2 + 800 x 0.2 + 15 x 10 a million"
    assert totals["cost_is"] == "exact"
    assert {asked.headers["api-key"] for asked in azure.seen if "deployments" in asked.path} == {"k"}
    assert installed.verdict()["verdict"] == "verified"


def test_a_deployment_that_nobody_states_is_refused_under_a_cap_and_a_denial_and_else_priced_by_its_answer(
    installed: Installed, azure: StandIn
) -> None:
    nothing = "[upstreams.azure]\n"
    (line,) = said(run(installed, azure, "--max-usd", "1", policy=nothing, names="acme-chat-1"))
    assert (line["refused"], "deployment:acme-chat-1" in line["text"]) == ("unpriced", True)
    (line,) = said(run(installed, azure, policy=nothing + '[models]\ndeny = ["gpt-5*"]\n'))
    assert (line["refused"], "team-blue" in line["text"]) == ("model_denied", True)
    assert not azure.seen, "none of it reached the provider"
    done = run(installed, azure, policy=nothing)
    assert done.status == 0, done.err
    totals = installed.receipt()["totals"]
    assert totals["tokens"]["input"] == 231
    assert totals["cost_is"] != "exact", "the Responses API named the deployment, which has no price"
    assert {row["model"] for row in totals["by_model"]} == {"acme-chat-1", "deployment:team-blue"}


def test_the_client_sees_a_cap_as_its_own_error(installed: Installed, azure: StandIn) -> None:
    done = run(installed, azure, "--max-calls", "3", "--on-breach", "deny", policy=BLUE, names="team-blue team-blue")
    first, second = said(done)
    assert (done.status, first["whole"], second["refused"]) == (42, "hey", "max_model_calls")
    denied = run(installed, azure, policy=BLUE + '[models]\ndeny = ["acme-*"]\n')
    assert said(denied)[0]["refused"] == "model_denied"
    assert len(azure.seen) == 3
