"""What a request asks for, read from its body: unreadable bodies say so, and prompts are counted as they are billed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.providers import registry
from docket.providers.call import Call, Sent
from docket.providers.deciding import DECIDING, SOURCES
from docket.providers.endpoints import FAMILIES, TABLE, Row
from docket.providers.registry import recognise
from docket.providers.request import public_name
from tests.kit.calls import call_of


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"1", b"\xff", b"[" * 2000])
def test_a_body_that_is_no_object_is_not_parsed(body: bytes) -> None:
    endpoint = recognise("openai", "POST", "/v1/chat/completions")
    call = call_of(endpoint, body, "/v1/chat/completions")
    assert (call.parsed, call.model) == (False, "unknown")


def test_an_object_is_parsed_whatever_it_holds() -> None:
    assert call_of(recognise("openai", "POST", "/v1/chat/completions"), b"{}", "/v1/chat/completions").parsed


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [("text", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), ([], 1), (None, 1)],
)
def test_a_legacy_completion_may_produce_its_limit_for_each_prompt(prompt: object, choices: int) -> None:
    endpoint = recognise("openai", "POST", "/v1/completions")
    body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": 10}).encode()  # noqa: TID251 a client's own
    call = call_of(endpoint, body, "/v1/completions")
    assert (call.max_output, call.choices) == (10, choices)


def test_a_name_that_does_not_fit_in_public_is_called_unfit() -> None:
    assert public_name("m" * 128) == "m" * 128
    assert public_name("m" * 129) == public_name("a\x1bb") == "unfit"


@pytest.mark.parametrize(
    ("asked", "is_open"),
    [
        ({"contents": [{"parts": [{"text": "fileData"}]}]}, False),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "gs://b/f"}}]}]}, True),
        ({"contents": [{"parts": [{"file_data": {"file_uri": "gs://b/f"}}]}]}, True),
        ({"cachedContent": "cachedContents/1"}, True),
        ({"cached_content": "cachedContents/1"}, True),
        ({"tools": [{"functionDeclarations": []}]}, False),
        ({"tools": [{"googleSearch": {}}]}, True),
    ],
)
def test_a_gemini_request_is_open_where_its_bytes_do_not_hold_its_input(asked: object, is_open: bool) -> None:
    path = "/v1beta/models/gemini-2.5-pro:generateContent"
    endpoint = recognise("gemini", "POST", path)
    body = json.dumps(asked).encode()  # noqa: TID251 a client's own
    call = call_of(endpoint, body, path, provider="google")
    assert call.open_input is is_open


@pytest.mark.parametrize(
    ("asked", "is_open"),
    [
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, True),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, False),
        ({"tools": [{"type": "advisor_20260301", "model": "m"}]}, True),
        ({"fallbacks": [{"model": "m"}]}, False),
    ],
)
def test_an_anthropic_request_that_may_bill_more_than_one_attempt_at_its_input_is_open(
    asked: object, is_open: bool
) -> None:
    endpoint = recognise("anthropic", "POST", "/v1/messages")
    body = json.dumps(asked).encode()  # noqa: TID251 a client's own
    assert call_of(endpoint, body, "/v1/messages", provider="anthropic").open_input is is_open


@pytest.mark.parametrize(
    ("part", "is_open"),
    [
        (b'{"type": "text", "text": "a", "text": "b"}', False),
        (b'{"image_url": {"url": "data:x", "url": "https://x"}}', True),
        (b'{"image_url": {"url": "https://x", "url": "data:x"}}', True),
        (b'{"image_url": {"url": "data:x"}, "image_\\u0075rl": {"url": "data:y"}}', True),
    ],
)
def test_input_that_may_come_from_elsewhere_by_another_reading_is_open(part: bytes, is_open: bool) -> None:
    endpoint = recognise("openai", "POST", "/v1/chat/completions")
    body = b'{"model": "m", "messages": [{"role": "user", "content": [' + part + b"]}]}"
    call = call_of(endpoint, body, "/v1/chat/completions")
    assert (call.open_input, call.ambiguous) == (is_open, None)


def test_every_member_of_a_call_is_what_its_name_says() -> None:
    chat, responses = (recognise("openai", "POST", path) for path in ("/v1/chat/completions", "/v1/responses"))
    long = "m" * 129
    asked = {
        "model": long,
        "stream": True,
        "max_tokens": 1,
        "n": 2,
        "service_tier": "flex",
        "stream_options": {"include_usage": False},
    }
    one = Sent(
        upstream="an-upstream",
        provider="a-provider",
        endpoint=chat,
        path="/v1/chat/completions",
        body=json.dumps(asked).encode(),  # noqa: TID251 a client's own
        body_bytes=3,
        retry_count=4,
        credential="a-credential",
    )
    assert registry.call_of(one) == Call(
        upstream="an-upstream",
        provider="a-provider",
        endpoint=chat,
        model="unfit",
        stream=True,
        max_output=1,
        choices=2,
        tier="flex",
        body_bytes=3,
        parsed=True,
        stateful=False,
        open_input=False,
        private_model=long,
        previous=None,
        usage_in_stream=False,
        retry_count=4,
        credential="a-credential",
    )
    state = call_of(responses, b'{"model":"m","previous_response_id":"resp_1"}', "/v1/responses")
    assert (state.model, state.stateful, state.open_input, state.previous) == ("m", True, False, "resp_1")
    stored = call_of(responses, b'{"model":"m","conversation":"c"}', "/v1/responses")
    assert (stored.stateful, stored.open_input, stored.private_model) == (True, True, None)


ANSWERED = [
    "usage", "iterations", "choices", "delta", "message", "usageMetadata", "candidates",
    "groundingMetadata", "webSearchQueries", "cost", "tool_usage", "promptTokenCount",
    "promptTokensDetails", "modality", "tokenCount", "response", "output", "status", "id", "input_tokens",
    "output_tokens", "prompt_tokens", "prompt_tokens_details", "cached_tokens", "audio_tokens",
    "cached_tokens_details", "server_tool_use", "done", "cache_creation", "prompt_eval_count", "eval_count",
    "embeddings", "data", "num_requests", "web_search",
]  # fmt: skip
NAMES = st.sampled_from(
    [*ANSWERED, *sorted(DECIDING), *sorted(SOURCES), "messages", "input", "contents", "edits", "action"]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
PATHS = st.sampled_from([row.tail.replace("*", "m") for row in TABLE]) | st.text(max_size=20)


@given(st.dictionaries(NAMES, JSON, max_size=6), PATHS, st.sampled_from(FAMILIES), st.booleans())
def test_no_request_raises_whatever_stands_where(body: dict[str, object], path: str, family: str, spaced: bool) -> None:
    raw = json.dumps(body, indent=1 if spaced else None).encode()  # noqa: TID251 a client's own
    endpoint = recognise(family, "POST", "/v1/" + path)
    call = call_of(endpoint, raw, "/v1/" + path)
    assert call.parsed
    assert call.models


@given(JSON, st.sampled_from(FAMILIES), st.sampled_from([row for row in TABLE if row.kind.value == "metered"]))
def test_no_answer_raises_whatever_stands_where(answer: object, family: str, row: Row) -> None:
    path = "/v1/" + row.tail.replace("*", "m")
    call = call_of(recognise(row.family, "POST", path), b"{}", path)
    for media in (b"application/json", b"text/event-stream"):
        observer = registry.observer_of(call, status=200, media_type=media)
        assert observer is not None
        text = json.dumps(answer).encode()  # noqa: TID251 a provider's own
        observer.feed(b"data: " + text + b"\n\n" if b"stream" in media else text)
        seen = observer.finish(clean=True)
        assert seen.counts.source != "reported" or not seen.counts.unread


MEANT = {"team-blue": "gpt-4o"}
BLUE = (("team-blue", "gpt-4o"),)


@pytest.mark.parametrize(
    ("path", "body", "models", "aliases"),
    [
        ("/openai/deployments/team-blue/chat/completions", {}, ("gpt-4o",), BLUE),
        ("/openai/deployments/team%2Dblue/chat/completions", {}, ("gpt-4o",), BLUE),
        ("/openai/deployments/red/chat/completions", {}, ("deployment:red",), (("red", "deployment:red"),)),
        ("/openai/deployments/gpt-4o/chat/completions", {}, ("deployment:gpt-4o",), (("gpt-4o", "deployment:gpt-4o"),)),
        ("/openai/deployments/team-blue/chat/completions", {"model": "o3"}, ("gpt-4o",), (*BLUE, ("o3", ""))),
        ("/openai/v1/chat/completions", {"model": "team-blue"}, ("gpt-4o",), BLUE),
        ("/openai/v1/chat/completions", {"model": "red"}, ("deployment:red",), (("red", "deployment:red"),)),
        ("/openai/v1/chat/completions", {}, ("unknown",), ()),
    ],
)
def test_a_deployment_is_the_model_that_the_policy_states_or_none(
    path: str, body: dict[str, str], models: tuple[str, ...], aliases: tuple[tuple[str, str], ...]
) -> None:
    """A name that looks like a model's is none: whoever made the deployment chose it."""
    sent = Sent(
        upstream="azure",
        provider="azure",
        endpoint=recognise("azure", "POST", path),
        path=path,
        body=json.dumps({"messages": [], **body}).encode(),  # noqa: TID251 a client's own
        body_bytes=9,
        models=MEANT,
        deployments=True,
    )
    call = registry.call_of(sent)
    assert (call.models, call.aliases) == (models, aliases)
    assert call.hidden is models[0].startswith("deployment:")
    assert call.served("gpt-5-2026-01-01") == "gpt-5-2026-01-01", "an answer that names a model is believed"
    for name, meant in aliases:
        assert call.served(name) == (meant or name), "an answer may name the deployment in place of its model"
