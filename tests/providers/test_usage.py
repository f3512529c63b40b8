"""Usage objects as providers and servers really send them, and what each reading comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.providers import anthropic, gemini, registry
from docket.providers.call import Observation
from docket.providers.openai_usage import read_usage
from tests.kit.calls import call_of

JSON = b"application/json"
NDJSON = b"application/x-ndjson"


def observe(
    family: str, path: str, request: Any, answer: bytes, media_type: bytes = JSON, *, step: int = 10**9
) -> Observation:
    """What the observer of a real endpoint makes of ``answer``, fed ``step`` bytes at a time."""
    endpoint = registry.recognise(family, "POST", path)
    body = json.dumps(request).encode()  # noqa: TID251 - a client's body
    call = call_of(endpoint, body, path, provider=family)
    observer = registry.observer_of(call, status=200, media_type=media_type)
    assert observer is not None
    for at in range(0, len(answer), step):
        observer.feed(answer[at : at + step])
    return observer.finish(clean=True)


def dump(document: Any) -> bytes:
    return json.dumps(document).encode()  # noqa: TID251 - a provider's answer


@pytest.mark.parametrize(
    ("usage", "items", "inconsistent"),
    [
        pytest.param(
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 22,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            {"input": 10, "output": 12},
            False,
            id="reasoning outside the completion, as the total says",
        ),
        pytest.param(
            {
                "prompt_tokens": 10,
                "completion_tokens": 12,
                "total_tokens": 22,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            {"input": 10, "output": 12},
            False,
            id="reasoning inside the completion",
        ),
        pytest.param(
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 105,
                "prompt_tokens_details": {"cached_tokens": 90},
            },
            {"input": 10, "cache_read": 90, "output": 5},
            False,
            id="cache outside the prompt, as the total says",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 90}},
            {"input": 10, "cache_read": 90, "output": 5},
            False,
            id="no total",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 99},
            {"input": 10, "output": 5},
            True,
            id="a total that no reading gives",
        ),
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "total_tokens": 150,
                "prompt_tokens_details": {"audio_tokens": 30, "cached_tokens": 20},
                "completion_tokens_details": {"audio_tokens": 40},
            },
            {"input": 50, "cache_read": 20, "input_audio": 30, "output": 10, "output_audio": 40},
            False,
            id="audio",
        ),
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "total_tokens": 105,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            },
            {"input": 10, "cache_read": 60, "cache_write_5m": 30, "output": 5},
            False,
            id="written to the cache",
        ),
        pytest.param(
            {
                "prompt_tokens": 90,
                "completion_tokens": 5,
                "total_tokens": 95,
                "prompt_tokens_details": {"cached_tokens": 90},
            },
            {"input": 0, "cache_read": 90, "output": 5},
            False,
            id="all of the prompt cached",
        ),
        pytest.param(
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 112,
                "prompt_tokens_details": {"cached_tokens": 90},
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            {"input": 10, "cache_read": 90, "output": 12},
            False,
            id="cache and reasoning outside, as the total says",
        ),
        pytest.param({"prompt_tokens": 8, "total_tokens": 8}, {"input": 8}, False, id="embeddings"),
        pytest.param(
            {"prompt_tokens": 10.0, "completion_tokens": 5, "total_tokens": 15},
            {"input": 10, "output": 5},
            False,
            id="whole floats",
        ),
        pytest.param({"prompt_tokens": None, "completion_tokens": None}, None, False, id="nulls"),
        pytest.param({"prompt_tokens": 2.5, "completion_tokens": 5}, None, True, id="a fraction"),
        pytest.param({"prompt_tokens": True, "completion_tokens": 5}, None, True, id="a boolean"),
        pytest.param({"prompt_tokens": "12", "completion_tokens": 5}, None, True, id="a string"),
        pytest.param({"prompt_tokens": 10**12, "completion_tokens": 5}, None, True, id="beyond any count"),
        pytest.param({"completion_tokens": 5}, None, True, id="no prompt and no total"),
    ],
)
def test_openai_figures(usage: dict[str, Any], items: dict[str, int] | None, inconsistent: bool) -> None:
    figures = read_usage(usage)
    assert (dict(figures.items) if figures.items is not None else None) == items
    assert figures.inconsistent is inconsistent


COUNT = st.one_of(st.none(), st.integers(-5, 10**10), st.floats(allow_nan=True), st.text(max_size=3), st.booleans())
DETAILS = st.dictionaries(
    st.sampled_from(["cached_tokens", "audio_tokens", "reasoning_tokens", "cache_write_tokens", "image_tokens"]), COUNT
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_tokens": COUNT,
            "completion_tokens": COUNT,
            "total_tokens": COUNT,
            "cached_tokens": COUNT,
            "prompt_tokens_details": st.one_of(st.none(), DETAILS),
            "completion_tokens_details": st.one_of(st.none(), DETAILS),
        },
    )
)
def test_no_usage_object_raises_or_gives_a_negative_quantity(usage: dict[str, Any]) -> None:
    figures = read_usage(usage)
    kinds = [kind for kind, _ in figures.items or ()]
    assert all(0 <= quantity <= 2 * 10**9 for _, quantity in figures.items or ())
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize(
    ("usage", "items", "inconsistent"),
    [
        pytest.param(
            {
                "input_tokens": 23000,
                "output_tokens": 1000,
                "iterations": [
                    {"type": "compaction", "input_tokens": 180000, "output_tokens": 3500},
                    {"type": "message", "input_tokens": 23000, "output_tokens": 1000, "cache_read_input_tokens": 10},
                ],
            },
            {"input": 203000, "cache_read": 10, "output": 4500},
            False,
            id="iterations that the top level leaves out are summed",
        ),
        pytest.param(
            {
                "input_tokens": 3,
                "output_tokens": 1,
                "cache_creation_input_tokens": 100,
                "cache_creation": {"ephemeral_5m_input_tokens": 70, "ephemeral_1h_input_tokens": 60},
            },
            {"input": 3, "cache_write_5m": 40, "cache_write_1h": 60, "output": 1},
            True,
            id="the scalar decides where the split disagrees",
        ),
        pytest.param(
            {"input_tokens": 3, "output_tokens": 1, "cache_creation": {"ephemeral_1h_input_tokens": 60}},
            {"input": 3, "cache_write_1h": 60, "output": 1},
            False,
            id="the split alone",
        ),
        pytest.param({"input_tokens": -3, "output_tokens": 1}, {}, True, id="negative"),
    ],
)
def test_anthropic_figures(usage: dict[str, Any], items: dict[str, int], inconsistent: bool) -> None:
    counts = anthropic.read_usage(usage, final=True)
    assert dict(counts.items) == items
    assert counts.inconsistent is inconsistent


@pytest.mark.parametrize(
    ("usage", "items", "inconsistent"),
    [
        pytest.param(
            {
                "promptTokenCount": 100,
                "toolUsePromptTokenCount": 40,
                "candidatesTokenCount": 10,
                "thoughtsTokenCount": 5,
                "totalTokenCount": 155,
            },
            {"input": 140, "output": 15},
            False,
            id="prompts of tools beside the prompt",
        ),
        pytest.param(
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 80,
                "candidatesTokenCount": 10,
                "totalTokenCount": 110,
            },
            {"input": 20, "cache_read": 80, "output": 10},
            False,
            id="the cached part is inside the prompt",
        ),
        pytest.param(
            {"promptTokenCount": 100, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "totalTokenCount": 115},
            {"input": 100, "output": 15},
            False,
            id="thoughts inside the candidates, as the total says",
        ),
        pytest.param(
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 120,
                "candidatesTokenCount": 1,
                "totalTokenCount": 101,
            },
            {"input": 0, "cache_read": 100, "output": 1},
            True,
            id="more cached than there is",
        ),
        pytest.param(
            {
                "promptTokenCount": 100,
                "candidatesTokenCount": 10,
                "totalTokenCount": 110,
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 60},
                    {"modality": "AUDIO", "tokenCount": 40},
                ],
            },
            {"input": 60, "input_audio": 40, "output": 10},
            False,
            id="audio",
        ),
        pytest.param({"promptTokenCount": -1, "totalTokenCount": 5}, {}, True, id="less than nothing"),
    ],
)
def test_gemini_figures(usage: dict[str, Any], items: dict[str, int], inconsistent: bool) -> None:
    counts, _ = gemini.read_usage(usage, final=True)
    assert dict(counts.items) == items
    assert counts.inconsistent is inconsistent


GEMINI = [
    {
        "candidates": [{"content": {"parts": [{"text": 'a "{[\\" b'}]}}],
        "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
    },
    {
        "candidates": [{"content": {"parts": [{"text": "c"}]}, "finishReason": "STOP"}],
        "modelVersion": "m",
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10},
    },
]


@pytest.mark.parametrize("step", [1, 3, 10**9])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_gemini_stream_that_is_a_json_array(step: int, indent: int | None) -> None:
    answer = json.dumps(GEMINI, indent=indent).encode()  # noqa: TID251 - a provider's answer
    path = "/v1beta/models/m:streamGenerateContent"
    seen = observe("gemini", path, {}, answer, step=step)
    assert (seen.terminal, seen.finish, seen.model, seen.unread) == ("complete", "STOP", "m", None)
    assert dict(seen.counts.items) == {"input": 8, "output": 2}


@pytest.mark.parametrize("step", [1, 10**9])
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_ollama_lines(step: int, path: str) -> None:
    lines = [
        {"model": "llama3", "done": False},
        {"model": "llama3", "done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 9},
    ]
    answer = b"".join(dump(line) + b"\n" for line in lines)
    seen = observe("ollama", path, {"model": "llama3"}, answer, NDJSON, step=step)
    assert (seen.terminal, seen.counts.source, dict(seen.counts.items)) == (
        "complete",
        "reported",
        {"input": 26, "output": 9},
    )


def test_ollama_without_a_prompt_figure_is_partial_since_the_prompt_was_cached() -> None:
    answer = dump({"model": "llama3", "done": True, "eval_count": 9})
    seen = observe("ollama", "/api/chat", {"model": "llama3", "stream": False}, answer)
    assert (seen.counts.source, dict(seen.counts.items)) == ("partial", {"output": 9})


def test_embeddings_longer_than_is_kept_still_give_their_usage() -> None:
    vectors = [{"object": "embedding", "index": i, "embedding": [0.1234567] * 3072} for i in range(64)]
    answer = dump(
        {
            "object": "list",
            "data": vectors,
            "model": "text-embedding-3-large",
            "usage": {"prompt_tokens": 8, "total_tokens": 8},
        }
    )
    assert len(answer) > 2_000_000
    seen = observe("openai", "/v1/embeddings", {"model": "text-embedding-3-large"}, answer, step=65536)
    assert (seen.terminal, dict(seen.counts.items), seen.unread) == ("complete", {"input": 8}, None)
    assert seen.counts.source == "reported"


@pytest.mark.parametrize("size", [100, 700_000, 5_000_000])
@pytest.mark.parametrize("step", [997, 10**9])
def test_an_answer_of_any_length_gives_its_usage_in_bounded_memory(size: int, step: int) -> None:
    text = 'x\\"y' * (size // 4)
    answer = dump(
        {
            "id": "c",
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
        }
    )
    seen = observe("openai", "/v1/chat/completions", {"model": "m"}, answer, step=step)
    assert (seen.terminal, dict(seen.counts.items), seen.unread) == ("complete", {"input": 9, "output": 4}, None)


@pytest.mark.parametrize(
    "body", [b"[" * 200_000 + b"]" * 200_000, b"{" * 5000, b"\xff\xfe", b"<html>", b"", b"null", b"[1,2]"]
)
@pytest.mark.parametrize("family", ["openai", "anthropic", "gemini", "ollama"])
def test_what_is_no_answer_is_unknown_and_raises_nothing(body: bytes, family: str) -> None:
    path = {
        "openai": "/v1/chat/completions",
        "anthropic": "/v1/messages",
        "gemini": "/v1beta/models/m:generateContent",
        "ollama": "/api/chat",
    }[family]
    seen = observe(family, path, {"model": "m", "stream": False}, body)
    assert seen.counts.source == "none"
    assert seen.terminal in ("unterminated", "truncated")


@pytest.mark.parametrize(
    ("body", "model", "stream", "limit", "open_input"),
    [
        ({"model": "m", "max_tokens": 5}, "m", False, 5, False),
        ({"model": "m", "max_tokens": 5, "max_completion_tokens": 9, "stream": True}, "m", True, 9, False),
        ({"model": "m", "max_tokens": "5", "stream": "yes"}, "m", False, None, False),
        (
            {"model": "m", "messages": [{"content": [{"image_url": {"url": "https://x/y.png"}}]}]},
            "m",
            False,
            None,
            True,
        ),
        (
            {"model": "m", "messages": [{"content": [{"image_url": {"url": "data:image/png;base64,"}}]}]},
            "m",
            False,
            None,
            False,
        ),
        ({"model": "x" * 129}, "unfit", False, None, False),
        ({"model": 7}, "unknown", False, None, False),
        ([], "unknown", False, None, False),
    ],
)
def test_what_a_chat_request_asks_for(body: Any, model: str, stream: bool, limit: int | None, open_input: bool) -> None:
    endpoint = registry.recognise("openai", "POST", "/v1/chat/completions")
    call = call_of(endpoint, dump(body), "/v1/chat/completions")
    assert (call.model, call.stream, call.max_output, call.open_input) == (model, stream, limit, open_input)
    assert call.private_model == ("x" * 129 if model == "unfit" else None)


@pytest.mark.parametrize(
    ("family", "method", "path", "name", "kind"),
    [
        ("openai", "POST", "/v1/chat/completions?x=1", "/v1/chat/completions", "metered"),
        ("openai", "POST", "/openai/deployments/gpt/chat/completions", "/v1/chat/completions", "metered"),
        ("openai", "POST", "//v1/./chat//completions", "/v1/chat/completions", "metered"),
        ("openai", "POST", "/v1/chat%2Fcompletions", "/v1/chat/completions", "metered"),
        ("openai", "POST", "/v1/messages", "/v1/messages", "metered"),
        ("openai", "POST", "/v1/threads/t/messages", "other", "unknown"),
        ("openai", "POST", "/v1/images/generations", "/v1/images/generations", "unmetered"),
        ("openai", "GET", "/v1/models", "other", "free"),
        ("openai", "GET", "/v1/realtime", "/v1/realtime", "unmetered"),
        ("openai", "GET", "/v1/chat/completions", "other", "free"),
        ("anthropic", "POST", "/messages?beta=true", "/v1/messages", "metered"),
        ("anthropic", "POST", "/v1/messages/count_tokens?beta=true", "/v1/messages/count_tokens", "free"),
        ("anthropic", "POST", "/v1/messages/batches", "/v1/messages/batches", "unmetered"),
        ("anthropic", "HEAD", "/", "other", "free"),
        ("anthropic", "OPTIONS", "/v1/messages", "other", "free"),
        ("gemini", "POST", "/v1beta/models/g%3AgenerateContent", "/v1beta/models/*:generateContent", "metered"),
        ("gemini", "POST", "/models/g:streamGenerateContent", "/v1beta/models/*:streamGenerateContent", "metered"),
        (
            "gemini",
            "POST",
            "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
            "/v1beta/models/*:generateContent",
            "metered",
        ),
        ("gemini", "POST", "/v1beta/models/:generateContent", "other", "unknown"),
        (
            "anthropic",
            "POST",
            "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
            "/v1/models/count-tokens:rawPredict",
            "free",
        ),
        ("anthropic", "POST", "/v1/publishers/mistral/models/m:rawPredict", "/v1/models/*:rawPredict", "unmetered"),
        ("anthropic", "POST", "/model/m/converse", "/model/*/converse", "unmetered"),
        ("gemini", "POST", "/v1beta/openai/chat/completions", "/v1/chat/completions", "metered"),
        ("ollama", "POST", "/api/chat", "/api/chat", "metered"),
        ("ollama", "POST", "/v1/chat/completions", "/v1/chat/completions", "metered"),
        ("ollama", "POST", "/api/pull", "/api/pull", "free"),
        ("openai", "POST", "/v1/anything/new", "other", "unknown"),
    ],
)
def test_endpoints(family: str, method: str, path: str, name: str, kind: str) -> None:
    endpoint = registry.recognise(family, method, path)
    assert (endpoint.name, endpoint.kind.value) == (name, kind)


@pytest.mark.parametrize(("model", "searches"), [("gemini-2.5-pro", 1), ("gemini-3-pro-preview", 3)])
def test_searches_with_google_are_counted_as_they_are_billed(model: str, searches: int) -> None:
    candidate = {"finishReason": "STOP", "groundingMetadata": {"webSearchQueries": ["a", "b", "c"]}}
    usage = {"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10}
    answer = dump({"candidates": [candidate], "usageMetadata": usage, "modelVersion": model})
    seen = observe("gemini", f"/v1beta/models/{model}:generateContent", {}, answer)
    assert dict(seen.counts.items) == {"input": 8, "output": 2, "web_search": searches}


@pytest.mark.parametrize(
    ("usage", "tier"),
    [
        ({}, None),
        ({"service_tier": "standard", "inference_geo": "global"}, "standard"),
        ({"service_tier": "priority"}, "priority"),
        ({"speed": "fast", "service_tier": "standard"}, "fast"),
        ({"inference_geo": "us"}, "standard-us"),
    ],
)
def test_the_tier_that_anthropic_served(usage: dict[str, str], tier: str | None) -> None:
    answer = dump({"type": "message", "id": "m", "usage": {"input_tokens": 1, "output_tokens": 1, **usage}})
    assert observe("anthropic", "/v1/messages", {"model": "claude-x"}, answer).tier == tier


def test_searches_of_the_responses_api_are_counted() -> None:
    output = [
        {"type": "web_search_call", "action": {"type": "search", "query": "x"}},
        {"type": "web_search_call", "action": {"type": "open_page"}},
        {"type": "file_search_call"},
        {"type": "message"},
    ]
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    answer = dump({"object": "response", "status": "completed", "model": "gpt-5", "output": output, "usage": usage})
    seen = observe("openai", "/v1/responses", {"model": "gpt-5"}, answer)
    assert dict(seen.counts.items) == {"input": 10, "output": 5, "web_search": 1, "file_search": 1}


def test_an_output_that_nobody_stated_is_unknown_and_not_zero() -> None:
    answer = dump({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 8}})
    seen = observe("gemini", "/v1beta/models/m:generateContent", {}, answer)
    assert (seen.counts.source, dict(seen.counts.items)) == ("partial", {"input": 8})
    answer = dump({"type": "message", "id": "m", "usage": {"output_tokens": 7}})
    seen = observe("anthropic", "/v1/messages", {"model": "claude-x"}, answer)
    assert (seen.counts.source, dict(seen.counts.items)) == ("partial", {"output": 7})
