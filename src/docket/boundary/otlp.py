"""What an agent's own telemetry says of its tools: OTLP/HTTP in JSON to events that the agent asserts.

Log records and spans of tools become tool events (OpenTelemetry semantic conventions for generative AI, and the event
names of Claude Code); of all else the number is kept. Invariant: nothing here decides, and what is said is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from docket.errors import UsageError
from docket.ledger.events import Note, ToolCall, ToolResult
from docket.primitives.canonical import MAX_INT, Json, JsonObject

Signal = Literal["logs", "traces", "metrics"]
MAX_EVENTS = 200
"""Tool events of one export; further ones are counted."""
MAX_TEXT = 500
"""Characters of one attribute that are kept: a tool's arguments may be a file."""
MAX_ATTRIBUTES = 64
MAX_NAMES = 32
"""Names of other records that are counted apart in one export."""
_TOOL = ("gen_ai.tool.name", "tool_name", "tool.name", "name")
_LISTS: dict[Signal, tuple[str, str, str]] = {
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
}


def events_of(signal: Signal, document: Any) -> list[Note | ToolCall | ToolResult]:
    """The events that an export asserts, and a note that counts the rest. Raises UsageError where it is no export."""
    if not isinstance(document, dict):
        raise UsageError("an export is a JSON object")
    events: list[Note | ToolCall | ToolResult] = []
    rest: Counter[str] = Counter()
    for record in _records(document, _LISTS[signal]):
        event = {"logs": _log, "traces": _span, "metrics": _metric}[signal](record)
        if event is not None and len(events) < MAX_EVENTS:
            events.append(event)
            continue
        name = _name(record)
        rest[name if name in rest or len(rest) < MAX_NAMES else "other"] += 1
    if rest:
        counted: list[Json] = [{"name": name, "count": count} for name, count in sorted(rest.items())]
        said: JsonObject = {"text": f"telemetry: {sum(rest.values())} {signal} without a tool", "records": counted}
        events.append(Note(by="agent", private={"said": said}))
    return events


def _records(document: Any, path: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
    groups, scopes, records = path
    for group in _list(document, groups):
        for scope in _list(group, scopes):
            yield from _list(scope, records)


def _list(document: Any, name: str) -> list[dict[str, Any]]:
    found = document.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError(f"{name} is not a list of objects")
    return found


def _log(record: dict[str, Any]) -> ToolCall | ToolResult | None:
    said, name = _attributes(record), _name(record)
    if name.endswith("tool_result"):
        failed = str(said.get("success", "true")).lower() == "false" or "error" in said
        return ToolResult(by="agent", private={"said": _said(said, name, is_error=failed)})
    if name.endswith(("tool_decision", "tool_call")):
        return ToolCall(by="agent", private={"said": _said(said, name)})
    return None


def _span(span: dict[str, Any]) -> ToolResult | None:
    said = _attributes(span)
    if said.get("gen_ai.operation.name") != "execute_tool" and "gen_ai.tool.name" not in said:
        return None
    status = span.get("status")
    failed = isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR")
    times = (str(span.get("startTimeUnixNano", "")), str(span.get("endTimeUnixNano", "")))
    if all(time.isdecimal() and len(time) < 20 for time in times):
        said["duration_ms"] = (int(times[1]) - int(times[0])) // 1_000_000
    return ToolResult(by="agent", private={"said": _said(said, _name(span), is_error=failed or "error.type" in said)})


def _metric(_: dict[str, Any]) -> None:
    return None


def _said(attributes: JsonObject, event: str, **members: Json) -> JsonObject:
    tool = next((str(attributes[name]) for name in _TOOL if name in attributes), "unknown")
    return {"name": tool, **members, "telemetry": event, "attributes": attributes}


def _name(record: dict[str, Any]) -> str:
    """What a record is called: its event's, span's or metric's name."""
    named = record.get("eventName") or record.get("name") or _attributes(record).get("event.name")
    body = record.get("body")
    if not named and isinstance(body, dict):
        named = body.get("stringValue")
    return _text(named) if isinstance(named, str) and named else "unnamed"


def _attributes(record: dict[str, Any]) -> JsonObject:
    """The attributes as names and values. Raises UsageError where they are none."""
    found: JsonObject = {}
    for pair in _list(record, "attributes")[:MAX_ATTRIBUTES]:
        name, value = pair.get("key"), pair.get("value")
        if isinstance(name, str) and name.isascii() and isinstance(value, dict):
            found[name[:128]] = _value(value)
    return found


def _value(value: dict[str, Any]) -> Json:
    if isinstance(value.get("boolValue"), bool):
        return bool(value["boolValue"])
    if "intValue" in value:
        text = str(value["intValue"])
        number = int(text) if text.lstrip("-").isdecimal() and len(text) < 17 else None
        return number if number is not None and abs(number) <= MAX_INT else _text(text)
    return _text(str(value.get("stringValue", next(iter(value.values()), ""))))


def _text(text: str) -> str:
    """``text`` within its bound, without what no canonical text holds (half of a surrogate pair)."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()
