"""An agent's telemetry: its tools become events that it asserts, all else is counted, and nothing breaks the record."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.agent_api import _canonical
from docket.boundary.otlp import MAX_EVENTS, MAX_TEXT, events_of
from docket.errors import UsageError
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import Note, ToolCall, ToolResult
from kit.boundary import Answered, Stage, run, stage

JSON = (("Content-Type", "application/json"),)


def attribute(key: str, value: Any) -> dict[str, Any]:
    kind = {bool: "boolValue", int: "intValue", float: "doubleValue"}.get(type(value), "stringValue")
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def log(name: str, **attributes: Any) -> dict[str, Any]:
    """A log record as Claude Code's exporter makes it."""
    said = [attribute("event.name", name), *(attribute(key, value) for key, value in attributes.items())]
    return {"body": {"stringValue": f"claude_code.{name}"}, "attributes": said, "timeUnixNano": "1"}


def logs(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": list(records)}]}]}


def spans(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(records)}]}]}


async def export(on: Stage, signal: str, document: Any, headers: tuple[tuple[str, str], ...] = JSON) -> Answered:
    body = document if isinstance(document, bytes) else orjson.dumps(document)
    return await on.call(f"/otlp/v1/{signal}", body, upstream="docket", headers=headers)


def test_tools_of_log_records_and_spans_are_events_and_the_rest_is_counted():
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            document = logs(
                log("tool_decision", tool_name="Bash", decision="accept"),
                log("tool_result", tool_name="Bash", success="false", duration_ms=12, error="exit 1"),
                log("tool_result", tool_name="Read", success="true"),
                log("api_request", model="m", cost_usd=0.1),
                log("api_request", model="m", cost_usd=0.2),
            )
            got = await export(on, "logs", document)
            assert (got.status, orjson.loads(got.body)) == (200, {})
            tool = {
                "name": "execute_tool search",
                "startTimeUnixNano": "1000000000",
                "endTimeUnixNano": "1250000000",
                "status": {"code": 2},
                "attributes": [
                    attribute("gen_ai.operation.name", "execute_tool"),
                    attribute("gen_ai.tool.name", "search"),
                ],
            }
            await export(on, "traces", spans(tool, {"name": "chat m", "attributes": []}))
            metrics = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "token.usage"}]}]}]}
            await export(on, "metrics", metrics)
            events = on.record.events
            assert [type(e) for e in events] == [ToolCall, ToolResult, ToolResult, Note, ToolResult, Note, Note]
            assert {event.by for event in events} == {"agent"}
            said: list[Any] = [event.private["said"] for event in events]
            assert (said[0]["name"], said[0]["attributes"]["decision"]) == ("Bash", "accept")
            assert (said[1]["is_error"], said[1]["attributes"]["duration_ms"]) == (True, 12)
            assert said[2]["is_error"] is False
            assert said[3]["records"] == [{"name": "api_request", "count": 2}]
            assert (said[4]["name"], said[4]["is_error"]) == ("search", True)
            assert said[4]["attributes"]["duration_ms"] == 250
            assert said[6]["records"] == [{"name": "token.usage", "count": 1}]

    run(scene())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((("Content-Type", "application/x-protobuf"),), 415),
        ((*JSON, ("Content-Encoding", "gzip")), 415),
        (JSON, 400),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(headers: tuple[tuple[str, str], ...], status: int):
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            got = await export(on, "logs", b"\x0a\x01", headers)
            assert got.status == status
            assert b"JSON" in got.body
            assert on.record.events == []

    run(scene())


def test_what_is_longer_than_an_export_may_be_is_refused():
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            got = await export(on, "logs", logs(log("x", text="y" * 1_100_000)))
            assert got.status == 400
            assert on.record.events == []

    run(scene())


def test_what_comes_too_fast_is_said_to_the_exporter():
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            flood = logs(*(log("tool_result", tool_name="x") for _ in range(MAX_EVENTS)))
            first, second = await export(on, "logs", flood), await export(on, "logs", flood)
            assert orjson.loads(first.body) == {}
            assert "came too fast" in orjson.loads(second.body)["partialSuccess"]["errorMessage"]
            assert MAX_EVENTS <= len(on.record.events) < 2 * MAX_EVENTS

    run(scene())


def test_an_export_of_many_tools_is_bounded_and_counts_the_others():
    events = events_of(
        "logs", logs(*(log("tool_result", tool_name="x", text="y" * 9999) for _ in range(MAX_EVENTS + 7)))
    )
    assert len(events) == MAX_EVENTS + 1
    said: Any = [event.private["said"] for event in events]
    assert said[-1]["records"] == [{"name": "tool_result", "count": 7}]
    assert len(said[0]["attributes"]["text"]) == MAX_TEXT


NAMES = st.sampled_from(
    ["resourceLogs", "scopeLogs", "logRecords", "attributes", "key", "value", "stringValue", "intValue", "body", "name",
     "event.name", "tool_result", "resourceSpans", "scopeSpans", "spans", "status", "code", "eventName"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(), inner, max_size=5),
    max_leaves=30,
)
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=6), max_size=5)


@given(st.sampled_from(["logs", "traces", "metrics"]), VALUES | RECORDS.map(lambda records: logs(*records)))
def test_whatever_an_exporter_sends_is_events_of_the_format_or_a_refusal(signal: Any, document: Any):
    try:
        events = events_of(signal, document)
    except UsageError:
        return
    chain = Chain()
    for event in events:
        chain.extend(draft(_canonical(event)), ts="2026-11-30T12:00:00.000000Z", elapsed_us=0, entropy=bytes)
