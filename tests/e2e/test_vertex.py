"""Vertex AI by the official clients of Anthropic and Google: the model stands in the path, and is metered and ruled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kit.installed import Done, Installed, agent
from kit.stand_in import Asked, Given, StandIn, standing_in

FIXTURES = Path(__file__).parents[1] / "fixtures/usage"
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "acme-chat-1",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 20},
}
CONTENT = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 12,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 4,
        "totalTokenCount": 19,
        "trafficType": "ON_DEMAND",
    },
    "modelVersion": "acme-chat-1",
}
CLAUDE = "/v1/projects/p-1/locations/global/publishers/anthropic/models/"
GEMINI = "/v1beta1/projects/p-1/locations/global/publishers/google/models/acme-chat-1:"


def answer(asked: Asked) -> Given:
    events = "text/event-stream"
    if asked.path == f"{CLAUDE}acme-chat-1@20260101:streamRawPredict":
        return Given((FIXTURES / "a19_vertex_stream_raw_predict.sse").read_bytes(), events, pieces=(11, 300))
    if asked.path == f"{GEMINI}streamGenerateContent?alt=sse":
        return Given(b"data: " + encoded(CONTENT) + b"\n\n", events, pieces=(11,))
    documents: dict[str, Any] = {
        f"{CLAUDE}count-tokens:rawPredict": {"input_tokens": 9},
        f"{CLAUDE}acme-chat-1@20260101:rawPredict": MESSAGE,
        f"{GEMINI}generateContent": CONTENT,
    }
    return Given(encoded(documents[asked.path]))


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()  # noqa: TID251 - a provider's answer


@pytest.fixture
def vertex() -> Iterator[StandIn]:
    with standing_in(answer) as server:
        yield server


def run(installed: Installed, vertex: StandIn, *flags: str, policy: str = "", variable: str = "GOOGLE") -> Done:
    prices = {"input": "2", "cache_read": "0.2", "output": "10"}
    rows = [["standard", kind, usd, 1_000_000] for kind, usd in prices.items()]
    table = {"format": "docket-prices/1", "source": "us", "version": "1", "date": "2026-12-01", "models": []}
    table["models"] = [{"provider": "google", "model": "acme-chat-1", "periods": [{"rows": rows}]}]
    (installed.directory / "prices.json").write_bytes(encoded(table))
    (installed.directory / "docket.toml").write_text(policy)
    url = vertex.url + ("/v1" if variable == "ANTHROPIC" else "")
    command = ["run", "--prices", "prices.json", *flags, "--", *agent("vertex_agent.py")]
    return installed.run(*command, env={f"{variable}_VERTEX_BASE_URL": url})


@pytest.mark.parametrize("variable", ["GOOGLE", "ANTHROPIC"])
def test_both_clients_are_metered_to_the_token(installed: Installed, vertex: StandIn, variable: str) -> None:
    done = run(installed, vertex, "--max-usd", "1", variable=variable)
    assert done.status == 0, done.err
    assert json.loads(done.out) == {
        "claude": {"counted": 9, "whole": "hello", "streamed": "hello"},
        "gemini": {"whole": "hello", "streamed": "hello"},
    }
    totals = installed.receipt()["totals"]
    assert totals["calls"] == totals["by_source"]["reported"] == 4, "counting tokens is no call"
    assert totals["tokens"] == {"input": 10 + 45 + 12 + 12, "cache_read": 20 + 1000, "output": 5 + 30 + 7 + 7}
    assert Decimal(totals["cost_usd"]) == Decimal("0.000852"), "79 x 2 + 1020 x 0.2 + 49 x 10 a million"
    assert totals["cost_is"] == "exact"
    assert [asked.headers["authorization"] for asked in vertex.seen] == ["Bearer t"] * 5
    assert installed.verdict()["verdict"] == "verified"


def test_each_client_sees_a_denied_model_and_a_cap_as_its_own_error(installed: Installed, vertex: StandIn) -> None:
    said = json.loads(run(installed, vertex, policy='[models]\ndeny = ["acme-*"]\n').out)
    assert [said[name]["refused"] for name in ("claude", "gemini")] == ["model_denied", "model_denied"]
    assert [asked.path for asked in vertex.seen] == [f"{CLAUDE}count-tokens:rawPredict"]
    done = run(installed, vertex, "--max-calls", "2", "--on-breach", "deny")
    said = json.loads(done.out)
    assert (done.status, said["claude"]["streamed"]) == (42, "hello")
    assert said["gemini"]["refused"] == "max_model_calls"
    assert installed.receipt()["docket"] in said["gemini"]["text"]
