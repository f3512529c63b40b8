"""Neighbours of bills that were read wrongly: several models, refusals, overlaps, fees, second meters, lower totals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.ledger.usage import Counts
from docket.providers import anthropic, registry
from docket.providers.call import Observation
from docket.providers.openai_usage import read_usage
from docket.providers.usage_members import rising, split_input
from tests.kit.calls import call_of

ROW = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 5}


def seen(family: str, path: str, *documents: Any, stream: bool = False) -> Observation:
    endpoint = registry.recognise(family, "POST", path)
    call = call_of(endpoint, b'{"model":"m"}', path)
    media = b"text/event-stream" if stream else b"application/json"
    observer = registry.observer_of(call, status=200, media_type=media)
    assert observer is not None
    for document in documents:
        text = json.dumps(document).encode()  # noqa: TID251 a provider's own
        observer.feed(b"data: " + text + b"\n\n" if stream else text)
    return observer.finish(clean=True)


def test_an_advisor_has_prices_of_its_own_and_a_repeated_model_is_one_part_an_attempt() -> None:
    rows = [
        {"type": "message", "model": "a", **ROW},
        {"type": "advisor_message", "model": "b", **ROW},
        {"type": "message", "model": "a", **ROW},
    ]
    counts = anthropic.read_usage({**ROW, "iterations": rows}, final=True)
    assert [part.model for part in counts.parts] == ["a", "b", "a"]
    assert dict(counts.items) == {"input": 300, "cache_read": 15, "output": 60}
    assert counts.source == "reported"


def test_a_refusal_before_any_output_costs_nothing_and_one_after_some_does() -> None:
    usage = {"input_tokens": 500, "output_tokens": 0}
    message = {"type": "message", "model": "a", "content": [], "stop_reason": "refusal", "usage": usage}
    refused = seen("anthropic", "/v1/messages", message).counts
    assert refused == Counts("reported", (("input", 0), ("output", 0)))
    late = message | {"content": [{"type": "text", "text": "I"}], "usage": {"input_tokens": 500, "output_tokens": 1}}
    assert dict(seen("anthropic", "/v1/messages", late).counts.items) == {"input": 500, "output": 1}


def test_an_empty_answer_that_is_no_refusal_is_billed() -> None:
    usage = {"input_tokens": 500, "output_tokens": 0}
    message = {"type": "message", "model": "a", "content": [], "stop_reason": "end_turn", "usage": usage}
    assert dict(seen("anthropic", "/v1/messages", message).counts.items) == {"input": 500, "output": 0}


def test_searches_are_distinct_over_all_candidates_and_chunks() -> None:
    def chunk(*queries: str, finish: str | None = None) -> dict[str, Any]:
        candidate = {"content": {"parts": [{}]}, "groundingMetadata": {"webSearchQueries": list(queries)}}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [{**candidate, "finishReason": finish}], "usageMetadata": usage, "modelVersion": "g-3"}

    path = "/v1beta/models/g:streamGenerateContent"
    counts = seen("gemini", path, chunk("a", "b"), chunk("b", " ", "c", finish="STOP"), stream=True).counts
    assert dict(counts.items)["web_search"] == 3


def test_a_map_is_a_fee_of_its_own_and_its_queries_are_no_web_searches() -> None:
    grounding = {"webSearchQueries": ["cafes"], "groundingChunks": [{"maps": {"uri": "u"}}]}
    answer = {
        "candidates": [{"content": {"parts": [{}]}, "finishReason": "STOP", "groundingMetadata": grounding}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }
    counts = seen("gemini", "/v1beta/models/gemini-3:generateContent", answer).counts
    assert dict(counts.items) == {"input": 1, "output": 1, "maps_search": 1}
    grounding["imageSearchQueries"] = ["x"]
    counts = seen("gemini", "/v1beta/models/gemini-3:generateContent", answer).counts
    assert (counts.source, counts.unread) == ("partial", ("groundingMetadata.imageSearchQueries",))


def response(output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {"object": "response", "id": "r", "status": "completed", "output": output, "usage": usage, **more}


@pytest.mark.parametrize(
    ("output", "more", "searches", "unread", "assumed"),
    [
        ([{"type": "web_search_call", "id": "1", "status": "completed"}], {}, 1, (), ()),
        ([{"type": "web_search_call", "id": "1", "status": "failed"}], {}, 1, (), ("web_search_call.status",)),
        ([{"type": "web_search_call", "id": "1", "status": "failed"}], {"web_search": {"num_requests": 0}}, 0, (), ()),
        ([{"type": "image_generation_call", "id": "1"}], {}, 0, ("output.image_generation_call",), ()),
        ([{"type": "code_interpreter_call", "id": "1"}], {}, 0, ("output.code_interpreter_call",), ()),
        ([], {"new_tool": {"num_requests": 2, "zero": 0}}, 0, ("tool_usage.new_tool.num_requests",), ()),
        ([], {"web_search": {"num_requests": 1, "pages": 3}}, 1, ("tool_usage.web_search.pages",), ()),
    ],
)
def test_what_the_responses_api_bills_beside_usage(
    output: list[dict[str, Any]], more: dict[str, Any], searches: int, unread: tuple[str, ...], assumed: tuple[str, ...]
) -> None:
    counts = seen("openai", "/v1/responses", response(output, tool_usage=more)).counts
    assert dict(counts.items).get("web_search", 0) == searches
    assert (counts.unread, counts.assumed) == (unread, assumed)
    assert counts.source == ("partial" if unread else "reported")


def test_an_item_counts_once_though_it_stands_in_its_event_and_in_the_response() -> None:
    item = {"type": "web_search_call", "id": "1", "status": "completed", "action": {"type": "search"}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    whole = {"type": "response.completed", "response": response([item])}
    assert dict(seen("openai", "/v1/responses", done, whole, stream=True).counts.items)["web_search"] == 1


@pytest.mark.parametrize("zero", ["prompt_tokens", "completion_tokens"])
def test_content_beside_a_count_of_zero_is_no_final_figure(zero: str) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 5} | {zero: 0}
    answer = {"choices": [{"message": {"content": "long"}, "finish_reason": "stop"}], "usage": usage}
    assert seen("openai", "/v1/chat/completions", answer).counts.source == "partial"
    answer["choices"][0]["message"]["content"] = ""
    assert seen("openai", "/v1/chat/completions", answer).counts.source == "reported"


def test_figures_that_fall_in_any_protocol_keep_the_larger_one_and_say_so() -> None:
    def chunk(prompt: int, out: int) -> dict[str, Any]:
        usage = {"prompt_tokens": prompt, "completion_tokens": out, "total_tokens": prompt + out}
        return {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}

    counts = seen("openai", "/v1/chat/completions", chunk(50, 9), chunk(0, 12), stream=True).counts
    assert (dict(counts.items)["input"], counts.source, counts.inconsistent) == (50, "partial", True)


FIGURES = st.dictionaries(
    st.sampled_from("abc"), st.integers(0, 9) | st.none() | st.lists(st.integers(0, 3)), max_size=3
)


@given(FIGURES, FIGURES)
def test_no_figure_ever_falls(one: dict[str, Any], other: dict[str, Any]) -> None:
    merged, fell = rising(one, other)
    for name in "abc":
        amounts = [sum(v) if isinstance(v, list) else v for v in (one.get(name), other.get(name)) if v is not None]
        found = merged.get(name)
        if amounts:
            assert (sum(found) if isinstance(found, list) else found) == max(amounts)
            assert fell or amounts[-1] == max(amounts)


COUNT = st.integers(0, 1000)
MODAL = st.dictionaries(st.sampled_from(["audio", "image"]), COUNT)


@given(COUNT, COUNT, COUNT, MODAL, st.none() | MODAL)
def test_a_split_loses_and_doubles_nothing(
    total: int, read: int, written: int, modal: dict[str, int], cached: dict[str, int] | None
) -> None:
    split = split_input(total, read, written, modal, cached)
    assert sum(quantity for _, quantity in split.items) == total
    assert all(quantity >= 0 for _, quantity in split.items)
    if not split.over:
        items = dict(split.items)
        assert sum(n for kind, n in items.items() if kind.startswith("cache_read")) == read
        if not written:
            for kind, n in modal.items():
                assert items.get(f"input_{kind}", 0) + items.get(f"cache_read_{kind}", 0) == n


def test_an_unknown_overlap_is_the_dearest_and_said_and_no_contradiction() -> None:
    details = {"cached_tokens": 600, "audio_tokens": 500}
    figures = read_usage({"prompt_tokens": 1000, "completion_tokens": 1, "prompt_tokens_details": details})
    assert figures.items is not None
    assert dict(figures.items) == {
        "input": 0,
        "input_audio": 400,
        "cache_read": 500,
        "cache_read_audio": 100,
        "output": 1,
    }
    assert (figures.assumed, figures.inconsistent) == (("cached_tokens_details",), False)


@pytest.mark.parametrize(
    ("usage", "stated"),
    [
        ({"cost": 0.0042}, "0.0042"),
        ({"cost": 0}, "0"),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0036}}, "0.0036"),
        ({"cost": 0, "is_byok": True}, None),
        ({"cost": -1}, None),
        ({"cost": "0.1"}, None),
        ({"cost": True}, None),
        ({"cost": 1e300}, None),
    ],
)
def test_the_cost_by_a_routers_word(usage: dict[str, Any], stated: str | None) -> None:
    figures = read_usage({"prompt_tokens": 1, "completion_tokens": 1, **usage})
    assert (str(figures.stated_usd) if figures.stated_usd is not None else None) == stated
    assert figures.unread == ()


def test_a_cost_that_is_an_object_is_not_known() -> None:
    figures = read_usage({"prompt_tokens": 1, "completion_tokens": 1, "cost": {"total_cost": 0.1}})
    assert figures.unread == ("cost.total_cost",)


@pytest.mark.parametrize(
    ("usage", "tier"),
    [
        ({"speed": "fast"}, "fast"),
        ({"speed": "standard", "service_tier": "priority"}, "priority"),
        ({"inference_geo": "us"}, "standard-us"),
        ({"inference_geo": "eu"}, "standard-eu"),
        ({"inference_geo": "global"}, None),
        ({"speed": "turbo"}, "turbo"),
    ],
)
def test_a_tier_that_is_not_known_is_not_the_standard_one(usage: dict[str, Any], tier: str | None) -> None:
    message = {"type": "message", "model": "a", "content": [{}], "stop_reason": "end_turn", "usage": {**ROW, **usage}}
    assert seen("anthropic", "/v1/messages", message).tier == tier


@pytest.mark.parametrize(
    ("traffic", "tier"),
    [("ON_DEMAND", None), ("ON_DEMAND_PRIORITY", "priority"), ("PROVISIONED_THROUGHPUT", "provisioned_throughput")],
)
def test_a_kind_of_traffic_that_is_not_known_is_not_the_standard_tier(traffic: str, tier: str | None) -> None:
    answer = {
        "candidates": [{"finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1, "trafficType": traffic},
    }
    assert seen("gemini", "/v1beta/models/g:generateContent", answer).tier == tier
