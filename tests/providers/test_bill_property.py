"""The bill of any usage object: docket's beside that of an independent, table-driven pricer.

Each provider's usage objects are drawn from its published schema, with unknown members beside them. The pricer below
shares no code with docket: per provider a table of what is taken off what, and one loop. Where the figures are whole
and known both agree to the last digit; where a member is unknown and not zero, docket never says ``reported``.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.pricing.cost import price
from docket.providers import registry
from docket.providers.call import Observation
from tests.kit.calls import call_of
from tests.pricing.toy import toy_table

PRICES = {"input": "2", "cache_read": "0.2", "input_audio": "20", "cache_read_audio": "1", "output": "10"}
PRICES |= {"output_audio": "40", "cache_write_5m": "2", "web_search": "0.01"}
"""The toy prices of acme-voice-1; what it has no price for is billed as input."""
MODEL = "acme-voice-1"
TOKENS = st.integers(0, 10**6)


def path(usage: dict[str, Any], where: str) -> int:
    """The count at a dotted path; ``#AUDIO`` takes it from a list of modalities; absent is 0."""
    found: Any = usage
    for name in where.split("."):
        if name[0] == "#":
            found = next((each["tokenCount"] for each in found or [] if each["modality"] == name[1:]), 0)
        else:
            found = (found or {}).get(name)
    return found or 0


_HITS = "prompt_tokens_details.cached_tokens_details.audio_tokens"
OPENAI = (
    ("input", "prompt_tokens", ("prompt_tokens_details.cached_tokens", "prompt_tokens_details.audio_tokens"),
     (_HITS,)),
    ("input_audio", "prompt_tokens_details.audio_tokens", (_HITS,), ()),
    ("cache_read", "prompt_tokens_details.cached_tokens", (_HITS,), ()),
    ("cache_read_audio", _HITS, (), ()),
    ("output", "completion_tokens", ("completion_tokens_details.audio_tokens",), ()),
    ("output_audio", "completion_tokens_details.audio_tokens", (), ()),
)  # fmt: skip
RESPONSES = tuple(
    (kind, *(
        tuple(p.replace("prompt_", "input_").replace("completion_", "output_") for p in part)
        if isinstance(part, tuple) else part.replace("prompt_", "input_").replace("completion_", "output_")
        for part in rest
    ))
    for kind, *rest in OPENAI
)  # fmt: skip
ANTHROPIC = (
    ("input", "input_tokens", (), ()),
    ("cache_read", "cache_read_input_tokens", (), ()),
    ("cache_write_5m", "cache_creation_input_tokens", (), ()),
    ("output", "output_tokens", (), ()),
    ("web_search", "server_tool_use.web_search_requests", (), ()),
)
GEMINI = (
    ("input", "promptTokenCount", ("cachedContentTokenCount", "promptTokensDetails.#AUDIO"),
     ("cacheTokensDetails.#AUDIO",)),
    ("input_audio", "promptTokensDetails.#AUDIO", ("cacheTokensDetails.#AUDIO",), ()),
    ("cache_read", "cachedContentTokenCount", ("cacheTokensDetails.#AUDIO",), ()),
    ("cache_read_audio", "cacheTokensDetails.#AUDIO", (), ()),
    ("output", "candidatesTokenCount", ("candidatesTokensDetails.#AUDIO",), ("thoughtsTokenCount",)),
    ("output_audio", "candidatesTokensDetails.#AUDIO", (), ()),
)  # fmt: skip
OLLAMA = (("input", "prompt_eval_count", (), ()), ("output", "eval_count", (), ()))
Table = tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...]


def independent(usage: dict[str, Any], table: Table) -> Decimal:
    """What a usage object comes to: per row its path, less some, plus some, at its price."""
    total = Decimal(0)
    for kind, where, less, more in table:
        quantity = path(usage, where) - sum(path(usage, p) for p in less) + sum(path(usage, p) for p in more)
        total += quantity * Decimal(PRICES[kind]) / (1 if kind == "web_search" else 10**6)
    return total


@st.composite
def parts(draw: st.DrawFn) -> dict[str, int]:
    """An input as text and audio, fresh and cached, and an output as text and audio: consistent by construction."""
    names = ("text", "audio", "cached_text", "cached_audio", "out", "out_audio")
    found = {name: draw(TOKENS) for name in names}
    found["out"] += 1
    found["text"] += 1
    return found


def openai(p: dict[str, int], inside: str, out: str) -> dict[str, Any]:
    total = p["text"] + p["audio"] + p["cached_text"] + p["cached_audio"]
    output = p["out"] + p["out_audio"]
    return {
        f"{inside}_tokens": total,
        f"{out}_tokens": output,
        "total_tokens": total + output,
        f"{inside}_tokens_details": {
            "cached_tokens": p["cached_text"] + p["cached_audio"],
            "audio_tokens": p["audio"] + p["cached_audio"],
            "cached_tokens_details": {"text_tokens": p["cached_text"], "audio_tokens": p["cached_audio"]},
        },
        f"{out}_tokens_details": {"reasoning_tokens": p["out"] // 2, "audio_tokens": p["out_audio"]},
    }


def gemini(p: dict[str, int]) -> dict[str, Any]:
    total = p["text"] + p["audio"] + p["cached_text"] + p["cached_audio"]

    def audio(tokens: int, text: int) -> list[dict[str, Any]]:
        return [{"modality": "TEXT", "tokenCount": text}, {"modality": "AUDIO", "tokenCount": tokens}]

    thoughts = p["out"] // 3
    said = p["out"] + p["out_audio"]
    return {
        "promptTokenCount": total,
        "cachedContentTokenCount": p["cached_text"] + p["cached_audio"],
        "candidatesTokenCount": said,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": total + said + thoughts,
        "promptTokensDetails": audio(p["audio"] + p["cached_audio"], p["text"] + p["cached_text"]),
        "cacheTokensDetails": audio(p["cached_audio"], p["cached_text"]),
        "candidatesTokensDetails": audio(p["out_audio"], p["out"]),
    }


def anthropic(p: dict[str, int]) -> dict[str, Any]:
    return {
        "input_tokens": p["text"],
        "cache_read_input_tokens": p["cached_text"],
        "cache_creation_input_tokens": p["audio"],
        "output_tokens": p["out"],
        "server_tool_use": {"web_search_requests": p["out_audio"] % 5, "web_fetch_requests": p["audio"] % 3},
    }


def chat_answer(usage: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}


PROVIDERS: dict[str, tuple[str, str, Any, Table, Any]] = {
    "openai-chat": ("openai", "/v1/chat/completions", lambda p: openai(p, "prompt", "completion"), OPENAI, chat_answer),
    "openai-completions": (
        "openai", "/v1/completions", lambda p: openai(p, "prompt", "completion"), OPENAI, chat_answer
    ),
    "openai-responses": (
        "openai", "/v1/responses", lambda p: openai(p, "input", "output"), RESPONSES,
        lambda usage: {"id": "r", "object": "response", "status": "completed", "model": MODEL, "usage": usage},
    ),
    "openai-embeddings": (
        "openai", "/v1/embeddings", lambda p: {"prompt_tokens": p["text"], "total_tokens": p["text"]}, OPENAI,
        lambda usage: {"object": "list", "data": [{}], "model": MODEL, "usage": usage},
    ),
    "anthropic": (
        "anthropic", "/v1/messages", anthropic, ANTHROPIC,
        lambda usage: {
            "type": "message", "id": "m", "model": MODEL, "content": [{}], "stop_reason": "end_turn", "usage": usage
        },
    ),
    "gemini": (
        "gemini", f"/v1beta/models/{MODEL}:generateContent", gemini, GEMINI,
        lambda usage: {"candidates": [{"content": {"parts": [{}]}, "finishReason": "STOP"}], "usageMetadata": usage},
    ),
    "ollama": (
        "ollama", "/api/chat", lambda p: {"prompt_eval_count": p["text"], "eval_count": p["out"]}, OLLAMA,
        lambda usage: {"model": MODEL, "message": {"content": "hi"}, "done": True, **usage},
    ),
}  # fmt: skip


def observed(name: str, usage: dict[str, Any]) -> Observation:
    family, where, _, _, answer = PROVIDERS[name]
    endpoint = registry.recognise(family, "POST", where)
    body = json.dumps({"model": MODEL, "stream": False}).encode()  # noqa: TID251 a client's own
    call = call_of(endpoint, body, where, provider="acme")
    observer = registry.observer_of(call, status=200, media_type=b"application/json")
    assert observer is not None
    observer.feed(json.dumps(answer(usage)).encode())  # noqa: TID251 a provider's own
    return observer.finish(clean=True)


TABLE = toy_table()


@pytest.mark.parametrize("name", PROVIDERS)
@given(parts())
@settings(max_examples=60, deadline=None)
def test_a_whole_usage_object_costs_what_the_independent_pricer_says(name: str, p: dict[str, int]) -> None:
    usage = PROVIDERS[name][2](p)
    seen = observed(name, usage)
    bill = price(seen.counts, TABLE, "acme", MODEL, seen.tier).usage
    assert (seen.counts.source, seen.counts.inconsistent, seen.counts.assumed) == ("reported", False, ())
    assert Decimal(str(bill.cost_usd)) == independent(usage, PROVIDERS[name][3]), seen.counts


NAMES = st.from_regex(r"[a-z]{1,8}_(tokens|count|fee|requests)", fullmatch=True).filter(lambda n: "eval" not in n)
WORTH = st.one_of(st.integers(1, 10**9), st.floats(0.001, 10), st.text(min_size=1, max_size=5), st.just(True))
UNKNOWN = st.one_of(
    WORTH, st.dictionaries(NAMES, WORTH, min_size=1, max_size=2), st.lists(WORTH, min_size=1, max_size=2)
)
NOTHING = st.sampled_from([0, None, 0.0, "", [], {}, {"tokens": 0}, [0, {"x": None}], False])
KNOWN = frozenset({"prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens"})


def places(usage: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of a usage object in which members may stand."""
    return [usage, *(member for member in usage.values() if isinstance(member, dict))]


@pytest.mark.parametrize("name", PROVIDERS)
@given(parts(), NAMES.filter(lambda n: n not in KNOWN), UNKNOWN, st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_an_unknown_member_that_is_not_zero_is_named_and_makes_no_exact_figure(
    name: str, p: dict[str, int], unknown: str, worth: Any, at: int
) -> None:
    usage = PROVIDERS[name][2](p)
    if name == "ollama":
        unknown = f"{unknown}_count"
    where = places(usage)
    where[at % len(where)][unknown] = worth
    counts = observed(name, usage).counts
    assert counts.source == "partial"
    assert any(unknown in named for named in counts.unread), counts


@pytest.mark.parametrize("name", PROVIDERS)
@given(parts(), NAMES.filter(lambda n: n not in KNOWN), NOTHING, st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_an_unknown_member_that_is_zero_changes_nothing(
    name: str, p: dict[str, int], unknown: str, worth: Any, at: int
) -> None:
    usage = PROVIDERS[name][2](p)
    before = observed(name, usage).counts
    where = places(usage)
    where[at % len(where)][unknown] = worth
    assert observed(name, usage).counts == before
