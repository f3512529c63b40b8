"""When a run is ready, and why not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from docket.control.readiness import CapUse, Status, readiness, reasons, summary
from docket.primitives.canonical import encode

FINE = Status(
    docket="DKT-20261130-AAAAAAAAAA",
    free_bytes=2**30,
    caps={"max_usd": CapUse(limit=Decimal(5), booked=Decimal("4.99"))},
    breakers={"main": "closed", "other": "open"},
)


def test_a_run_with_one_upstream_left_is_ready_and_lists_each() -> None:
    assert readiness(FINE) == {
        "ready": True,
        "reasons": [],
        "upstreams": [{"name": "main", "breaker": "closed"}, {"name": "other", "breaker": "open"}],
    }


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (replace(FINE, listening=False), "not_listening"),
        (replace(FINE, phase="stopping"), "stopping"),
        (replace(FINE, ledger_writable=False), "ledger_not_writable"),
        (replace(FINE, free_bytes=2**24 - 1), "low_space"),
        (replace(FINE, caps={"max_usd": CapUse(limit=Decimal(5), booked=Decimal(5))}), "cap_spent"),
        (replace(FINE, caps={"max_usd": CapUse(limit=Decimal(0), booked=Decimal(0))}), "cap_spent"),
        (replace(FINE, breakers={"main": "open"}), "breaker_open"),
    ],
)
def test_each_reason(status: Status, code: str) -> None:
    assert [reason.code for reason in reasons(status)] == [code]


def test_all_reasons_are_given_at_once_and_the_summary_is_canonical() -> None:
    bad = replace(FINE, ledger_writable=False, breakers={"main": "open"}, free_bytes=0, unwritten_events=2)
    assert [reason.code for reason in reasons(bad)] == ["ledger_not_writable", "low_space", "breaker_open"]
    answer = summary(bad)
    assert answer["caps"] == {"max_usd": {"limit": "5", "booked": "4.99"}}
    assert answer["ready"] is False
    assert encode(answer)
    assert "free_bytes" not in str(summary(replace(FINE, free_bytes=None)))
