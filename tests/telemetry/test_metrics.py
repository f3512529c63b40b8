"""The metrics of a run: bounded whatever comes, monotonic, and one body for one content type."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.kit.entries import entry

from docket.control.readiness import CapUse, Status
from docket.ledger.chain import Entry
from docket.primitives.canonical import JsonObject
from docket.primitives.money import Usd
from docket.telemetry.labels import MAX_UNKNOWN_MODELS
from docket.telemetry.metrics import Metrics

LABELS = json.loads((Path(__file__).parents[1] / "fixtures/metrics/labels.json").read_text())
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


def end(model: str = "gpt-5", kind: str = "model.response", reason: str = "complete", cost: str = "0.25") -> Entry:
    usage: JsonObject = {
        "source": "reported",
        "items": [
            {"kind": "input", "quantity": 100, "unit_usd": "1.25", "per": 1000000},
            {"kind": "web_search", "quantity": 2, "unit_usd": "0.01", "per": 1},
        ],
        "cost_usd": cost,
    }
    return entry(
        kind,
        {
            "provider": "openai",
            "model": model,
            "reason": reason,
            "usage": usage,
            "duration_us": 2_000_000,
            "first_byte_us": 300_000,
        },
    )


def make(status: Status | None = None, known: tuple[str, ...] = ()) -> Metrics:
    return Metrics(lambda: status or Status(docket="DKT-20261130-AAAAAAAAAA"), known)


def samples(metrics: Metrics, accept: str | None = None) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    kind, body = metrics.render(accept)
    parse = parse_openmetrics if kind.startswith("application/openmetrics-text") else parse_text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("accept", [None, OPENMETRICS])
def test_a_run_in_figures(accept: str | None) -> None:
    metrics = make(
        Status(
            docket="DKT-20261130-AAAAAAAAAA",
            breakers={"main": "half-open"},
            caps={"max_usd": CapUse(limit=Decimal(5), booked=Decimal("1.25"))},
            inflight=3,
            reserved_usd=Usd.parse("0.5"),
            free_bytes=123 * 2**20,
            unwritten_events=4,
            ledger_intact=False,
        )
    )
    for each in (
        entry("model.request", {"call": 1}),
        end(),
        end(kind="model.error", reason="truncated", cost="0.000000000001"),
        entry("model.denied", {"code": "breaker_open", "count": 3, "upstream": "main"}),
        entry("model.denied", {"code": "max_calls_per_minute", "count": 2}),
        entry("x-docket.rate-limited", {"limit": "max_calls_per_minute", "retry_after": 1, "state": {}, "count": 2}),
        entry("x-somebody.else", {}),
    ):
        metrics.observe(each)
    metrics.observe_sync(250)
    got = samples(metrics, accept)
    expected = {
        ("docket_events_total", (("type", "model.denied"),)): 2,
        ("docket_events_total", (("type", "other"),)): 1,
        ("docket_calls_total", (("model", "gpt-5"), ("outcome", "complete"), ("provider", "openai"))): 1,
        ("docket_calls_total", (("model", "gpt-5"), ("outcome", "truncated"), ("provider", "openai"))): 1,
        ("docket_tokens_total", (("kind", "input"), ("model", "gpt-5"), ("provider", "openai"))): 200,
        ("docket_cost_usd_total", (("model", "gpt-5"), ("provider", "openai"))): 0.250000000001,
        ("docket_denied_total", (("code", "breaker_open"),)): 3,
        ("docket_breaker_refusals_total", (("upstream", "main"),)): 3,
        ("docket_rate_limited_total", (("limit", "max_calls_per_minute"),)): 2,
        ("docket_call_seconds_sum", (("provider", "openai"),)): 4,
        ("docket_call_seconds_bucket", (("le", "2.5"), ("provider", "openai"))): 2,
        ("docket_first_byte_seconds_count", (("provider", "openai"),)): 2,
        ("docket_sync_seconds_count", ()): 1,
        ("docket_breaker_state", (("upstream", "main"),)): 1,
        ("docket_cap_used_ratio", (("cap", "max_usd"),)): 0.25,
        ("docket_unwritten_events_total", ()): 4,
        ("docket_ready", ()): 1,
        ("docket_ledger_writable", ()): 1,
        ("docket_ledger_intact", ()): 0,
        ("docket_inflight", ()): 3,
        ("docket_reserved_usd", ()): 0.5,
        ("docket_free_bytes", ()): 123 * 2**20,
    }
    assert {key: got.get(key) for key in expected} == expected


def test_a_series_that_is_known_beforehand_stands_at_zero_before_its_first_event() -> None:
    status = Status(
        docket="DKT-20261130-AAAAAAAAAA",
        breakers={"main": "closed"},
        caps={"max_usd": CapUse(limit=Decimal(5), booked=Decimal(0))},
    )
    metrics = make(status)
    known = [
        ("docket_events_total", (("type", "model.denied"),)),
        ("docket_events_total", (("type", "other"),)),
        ("docket_denied_total", (("code", "max_usd"),)),
        ("docket_denied_total", (("code", "breaker_open"),)),
        ("docket_breaker_refusals_total", (("upstream", "main"),)),
        ("docket_rate_limited_total", (("limit", "max_calls_per_second"),)),
        ("docket_rate_limited_total", (("limit", "max_calls_per_minute"),)),
    ]
    assert [samples(metrics).get(series) for series in known] == [0] * len(known)
    metrics.observe(entry("model.denied", {"code": "breaker_open", "count": 3, "upstream": "main"}))
    assert samples(metrics)["docket_breaker_refusals_total", (("upstream", "main"),)] == 3


@pytest.mark.parametrize("accept", [None, OPENMETRICS])
@pytest.mark.parametrize("name", [n.encode("utf-8", "replace").decode() for n in LABELS["model_names"]], ids=ascii)
def test_every_model_name_of_b59_parses(name: str, accept: str | None) -> None:
    metrics = make()
    metrics.observe(end(model=name))
    total = [v for (family, _), v in samples(metrics, accept).items() if family == "docket_calls_total"]
    assert total == [1]


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_any_model_name_parses_and_no_line_is_cut(name: str) -> None:
    metrics = make()
    metrics.observe(end(model=name))
    for accept in (None, OPENMETRICS):
        _, body = metrics.render(accept)
        assert b"\r" not in body
        assert sum(v for (family, _), v in samples(metrics, accept).items() if family == "docket_calls_total") == 1


def test_label_escapes_are_exactly_backslash_quote_and_line_feed() -> None:
    metrics = make(known=('a"b\\c\nd',))
    metrics.observe(end(model='a"b\\c\nd'))
    _, body = metrics.render(None)
    assert b'model="a\\"b\\\\c\\nd"' in body
    assert ("docket_calls_total", (("model", 'a"b\\c\nd'), ("outcome", "complete"), ("provider", "openai"))) in samples(
        metrics
    )


def test_ten_thousand_model_names_leave_few_series_and_the_known_one_keeps_its_label() -> None:
    metrics = make(known=("gpt-5",))
    for n in range(10_000):
        metrics.observe(end(model=f"junk-{n}"))
    metrics.observe(end(model="gpt-5"))
    models = {
        dict(labels)["model"]: v for (name, labels), v in samples(metrics).items() if name == "docket_calls_total"
    }
    assert len(models) == MAX_UNKNOWN_MODELS + 2
    assert models["other"] == 10_000 - MAX_UNKNOWN_MODELS
    assert models["gpt-5"] == 1


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "text/plain; version=0.0.4"),
        ("", "text/plain; version=0.0.4"),
        ("text/plain", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        (PROMETHEUS_2_42, OPENMETRICS),
        (OPENMETRICS, OPENMETRICS),
        ("application/openmetrics-text; version=9.9.9", OPENMETRICS),
        ("application/openmetrics-text;q=0.1, text/plain;q=0.9", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;q=0", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;q=x,,;", "text/plain; version=0.0.4"),
    ],
)
def test_the_content_type_is_that_of_the_body(accept: str | None, kind: str) -> None:
    metrics = make()
    metrics.observe(end())
    content_type, body = metrics.render(accept)
    assert content_type.startswith(kind)
    assert body.endswith(b"# EOF\n") == kind.startswith("application/openmetrics-text")
    assert all(
        line.split("{")[0].endswith("_total")
        for line in body.decode().splitlines()
        if "calls" in line.split("{")[0] and line[0] != "#"
    )
    assert not re.search(rb"# TYPE \S+_total counter", body) or not kind.startswith("application/openmetrics-text")


ENTRIES = st.lists(
    st.one_of(
        st.builds(end, model=st.sampled_from(["a", "b"]), cost=st.sampled_from(["0", "0.5", "0.000000000001"])),
        st.builds(lambda n: entry("model.denied", {"code": "max_usd", "count": n}), st.integers(1, 5)),
        st.sampled_from([entry("note"), entry("model.cache_hit", {"call": 2, "origin": 1})]),
    ),
    max_size=30,
)


@given(ENTRIES)
@settings(max_examples=50, deadline=None)
def test_counters_never_go_down(entries: list[Entry]) -> None:
    metrics, before = make(), {}
    for each in entries:
        metrics.observe(each)
        after = {k: v for k, v in samples(metrics).items() if k[0].endswith(("_total", "_count", "_sum", "_bucket"))}
        assert all(after[key] >= value for key, value in before.items())
        before = after


def test_tokens_and_cost_of_a_call_stand_under_the_model_that_served_each_item() -> None:
    items = [
        {"kind": "input", "quantity": 10, "unit_usd": "2", "per": 1_000_000},
        {"kind": "input", "quantity": 10, "unit_usd": "4", "per": 1_000_000, "model": "second"},
        {"kind": "output", "quantity": 1, "unit_usd": "20", "per": 1_000_000, "model": "second"},
    ]
    usage = {"source": "reported", "items": items, "cost_usd": "0.00008"}
    data = {"call": 1, "status": 200, "reason": "complete", "provider": "p", "model": "first", "tier": "standard"}
    metrics = make(None)
    metrics.observe(entry("model.response", data | {"usage": usage}))
    got = samples(metrics, None)

    def of(name: str, model: str, **more: str) -> float:
        return got[name, tuple(sorted({"model": model, "provider": "p", **more}.items()))]

    assert of("docket_cost_usd_total", "first") == pytest.approx(0.00002)
    assert of("docket_cost_usd_total", "second") == pytest.approx(0.00006)
    assert of("docket_tokens_total", "second", kind="input") == 10
