"""The audit finds every disagreement between the agent's count and a ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from docket.chaos.audit import agents_count, audit
from docket.chaos.evidence import Evidence, disagreements
from docket.primitives.canonical import JsonObject, encode

USAGE: JsonObject = {"source": "reported", "items": [{"kind": "input", "quantity": 7}], "cost_usd": "0.5"}
EVENTS: list[JsonObject] = [
    {"type": "model.request", "data": {"call": 1}},
    {"type": "model.response", "data": {"call": 1, "status": 200, "usage": USAGE}},
    {"type": "model.request", "data": {"call": 2}},
    {"type": "model.error", "data": {"call": 2, "status": 500}},
    {"type": "model.denied", "data": {"code": "breaker_open", "count": 3}},
]
METRICS = """\
docket_events_total{type="model.request"} 2
docket_events_total{type="other"} 3
docket_calls_total{provider="openai",model="m",outcome="complete"} 1
docket_calls_total{provider="openai",model="m",outcome="status"} 1
docket_denied_total{code="breaker_open"} 3
docket_tokens_total{provider="openai",model="m",kind="input"} 7
docket_cost_usd_total{provider="openai",model="m"} 0.5
"""


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(encode(event) + b"\n" for event in EVENTS) + b'{"torn')
    (tmp_path / "docket.prom").write_text(METRICS)
    return Evidence(tmp_path, tmp_path / "docket.prom")


def test_both_sides_agree(evidence: Evidence) -> None:
    assert all(one.agrees for one in audit(evidence, {"sent": 5, "ok": 1, "refused": 3, "failed": 1}))
    assert disagreements(evidence) == []


@pytest.mark.parametrize("name", ["sent", "ok", "refused", "failed"])
def test_one_call_more_on_the_wire_is_found(evidence: Evidence, name: str) -> None:
    count: JsonObject = {"sent": 5, "ok": 1, "refused": 3, "failed": 1}
    found = audit(evidence, count | {name: int(str(count[name])) + 1})
    assert [one.what for one in found if not one.agrees] == [name]


@pytest.mark.parametrize(("old", "new"), [("} 7", "} 8"), ('status"} 1', 'status"} 2'), ("} 0.5", "} 0.500001")])
def test_metrics_that_tell_another_story_are_found(evidence: Evidence, old: str, new: str) -> None:
    evidence.metrics_file.write_text(METRICS.replace(old, new))
    assert len(disagreements(evidence)) == 1


def test_an_agent_that_left_no_count_is_no_agreement(tmp_path: Path) -> None:
    path = tmp_path / "count"
    assert agents_count(path) is None
    path.write_text('{"sent": 3}')
    assert agents_count(path) is None
    path.write_text('{"failed":0,"ok":3,"refused":0,"sent":3,"waits_ms":[]}\n')
    assert agents_count(path) == {"failed": 0, "ok": 3, "refused": 0, "sent": 3, "waits_ms": []}
