"""The fold of entries into figures: exact, bounded, and the same however the entries arrive."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.entries import entry

from docket.ledger.chain import Entry
from docket.primitives.canonical import JsonObject, encode
from docket.primitives.digest import leaf_hash
from docket.primitives.merkle import root_of
from docket.receipt.latency import Histogram, cut
from docket.receipt.totals import MAX_MODELS, Totals
from docket.receipt.usage_rows import MAX_ROWS


def ended(call: int, *, model: str = "m", usage: JsonObject | None = None, kind: str = "model.response") -> list[Entry]:
    data: JsonObject = {"call": call, "provider": "p", "model": model, "tier": "standard", "duration_us": 1500 + call}
    if usage is not None:
        data["usage"] = usage
    return [entry("model.request", {"call": call}, seq=2 * call - 1), entry(kind, data, seq=2 * call)]


def bill(quantity: int, unit: str | None = "2.5", source: str = "reported") -> JsonObject:
    item: JsonObject = {"kind": "input", "quantity": quantity}
    usage: JsonObject = {"source": source, "items": [item]}
    if unit is not None:
        item |= {"unit_usd": unit, "per": 1000000}
        cost = Fraction(unit) * quantity / 1000000
        digits = f"{int(cost)}.{int(cost % 1 * 10**12):012d}".rstrip("0").rstrip(".")
        usage["cost_usd"] = digits
    return usage


def fold(lines: list[Entry]) -> Totals:
    totals = Totals()
    for line in lines:
        totals.add(line)
    return totals


def test_a_priced_reported_run_is_exact() -> None:
    totals = fold([*ended(1, usage=bill(1000)), *ended(2, usage=bill(1))])
    figures = totals.to_json()
    assert figures["cost_usd"] == "0.0025025"
    assert figures["cost_is"] == "exact"
    assert figures["tokens"] == {"input": 1001}
    assert figures["by_model"] == [
        {"provider": "p", "upstream": "u", "model": "m", "calls": 2, "cost_usd": "0.0025025"}
    ]


@pytest.mark.parametrize(
    ("lines", "is_"),
    [
        ([], "exact"),
        (ended(1, usage={"source": "none", "items": []}), "none"),
        (ended(1, usage=bill(5, None)), "none"),
        ([*ended(1, usage=bill(5)), *ended(2, usage={"source": "none", "items": []})], "lower-bound"),
        (ended(1, usage=bill(5, source="partial")), "lower-bound"),
        (
            [*ended(1, usage=bill(5)), entry("x-docket.forwarded", {"endpoint_class": "unmetered"})],
            "lower-bound",
        ),
        ([*ended(1, usage=bill(5)), entry("x-docket.forwarded", {"endpoint_class": "free"}, seq=3)], "exact"),
        (
            [
                *ended(1, usage=bill(5)),
                entry("x-docket.ledger-gap", {"lost": {"count": 1, "types": {"note": 1}}}),
            ],
            "lower-bound",
        ),
        ([*ended(1, usage=bill(5)), entry("model.request", {"call": 2}, seq=3)], "lower-bound"),
        (ended(1, kind="model.error"), "exact"),
    ],
)
def test_what_a_cost_is(lines: list[Entry], is_: str) -> None:
    figures = fold(lines).to_json()
    assert figures["cost_is"] == is_
    assert ("cost_usd" in figures) == (is_ != "none")


def test_a_cost_is_never_exact_where_events_are_known_to_be_missing() -> None:
    assert fold(ended(1, usage=bill(5))).to_json(whole=False)["cost_is"] == "lower-bound"


def test_bills_are_counted_by_who_said_them() -> None:
    said = ("reported", "reported", "partial", "none")
    lines = [line for call, source in enumerate(said, 1) for line in ended(call, usage=bill(5, source=source))]
    assert fold(lines).to_json()["by_source"] == {"reported": 2, "partial": 1, "none": 1}


def test_models_past_the_limit_count_as_other() -> None:
    lines = [line for call in range(1, MAX_MODELS + 5) for line in ended(call, model=f"m{call}", usage=bill(1))]
    listed = fold(lines).to_json()["by_model"]
    assert isinstance(listed, list)
    assert len(listed) == MAX_MODELS + 1
    other = dict.fromkeys(("provider", "upstream", "model"), "other")
    assert other | {"calls": 4, "cost_usd": "0.00001"} in listed


def test_denials_are_counted_by_their_count() -> None:
    totals = fold(
        [
            entry("model.denied", {"code": "max_usd", "count": 7}, seq=0),
            entry("model.denied", {"code": "max_usd", "count": 1}, seq=1),
        ]
    )
    assert totals.to_json()["denied"] == 8
    assert totals.activity.resilience()["denied_by_code"] == {"max_usd": 8}


def test_a_fee_is_no_token() -> None:
    usage: JsonObject = {
        "source": "reported",
        "cost_usd": "0.02",
        "items": [{"kind": "web_search", "quantity": 2, "unit_usd": "0.01", "per": 1}],
    }
    totals = fold(ended(1, usage=usage))
    assert totals.to_json()["tokens"] == {}
    assert totals.price_rows() == [
        {"provider": "p", "model": "m", "tier": "standard", "kind": "web_search", "unit_usd": "0.01", "per": 1}
    ]


@given(st.integers(0, 40))
@settings(max_examples=20)
def test_the_usage_tree_is_the_tree_over_the_rows(calls: int) -> None:
    totals = fold([line for call in range(1, calls + 1) for line in ended(call, usage=bill(call))])
    usage = totals.rows.to_json()
    rows = usage["rows"]
    assert isinstance(rows, list)
    assert len(rows) == usage["size"] == calls
    assert usage["root"] == root_of(leaf_hash(encode(row)) for row in rows).hex()


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200))
def test_percentiles_are_nearest_rank_over_cut_samples(samples: list[int]) -> None:
    histogram = Histogram()
    for sample in samples:
        histogram.add(sample)
    ascending = sorted(map(cut, samples))
    expected = {f"p{p}": ascending[ceil(p * len(samples) / 100) - 1] for p in (50, 95, 99)}
    assert histogram.to_json() == {"count": len(samples), "max": ascending[-1], **expected}


@given(st.integers(0, 2**53))
def test_a_cut_sample_keeps_three_digits(sample: int) -> None:
    assert str(cut(sample)) == str(sample)[:3] + "0" * max(0, len(str(sample)) - 3)


def test_memory_does_not_grow_with_the_number_of_calls() -> None:
    """From where every bounded memo is full to past the embedded rows, with every latency another one."""
    totals = fold([line for call in range(1, 201) for line in ended(call, usage=bill(call))])
    tracemalloc.start()
    try:
        before = highest = 0
        for call in range(201, MAX_ROWS + 500):
            for line in ended(call, usage=bill(call)):
                totals.add(line)
            if call == MAX_ROWS // 2:
                before, _ = tracemalloc.get_traced_memory()
            if not call % 500:
                highest = max(highest, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert "rows" not in totals.rows.to_json()
    assert highest - before < 1 << 20
