"""What a report says of what acted on a run's calls: each kind with its number and times, whatever their number."""

from __future__ import annotations

import os
from dataclasses import replace

from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import (
    BreakerClosed,
    BreakerOpen,
    CallNumber,
    CapExceeded,
    ClockStep,
    Event,
    LedgerGap,
    ModelCacheHit,
    ModelDenied,
    PolicyViolation,
    RateLimited,
)
from docket.receipt.actions import MAX_KINDS, MAX_TOLD, Actions
from kit.runs import request, response


def told(*events: Event) -> list[str]:
    actions, chain = Actions(), Chain()
    for event in events:
        entry, _, _ = chain.extend(draft(event), ts="2026-11-30T10:00:00.000000Z", elapsed_us=0, entropy=os.urandom)
        actions.add(entry)
    return list(actions.lines())


def test_each_kind_stands_with_its_number_and_its_times() -> None:
    said = "\n".join(
        told(
            BreakerOpen(upstream="openai", reason="connect", failures=5, cooldown_us=1),
            BreakerClosed(upstream="openai", reason="probe"),
            RateLimited(limit="max_calls_per_minute", retry_after=3, state={}),
            RateLimited(limit="max_calls_per_minute", retry_after=3, state={}, count=41),
            CapExceeded(cap="max_usd", limit="1", observed="1.2"),
            ClockStep(step_us=-3_600_000_000),
            ModelCacheHit(call=CallNumber(2), origin=CallNumber(1)),
            PolicyViolation(rule="ledger", reason="truncated"),
            LedgerGap(lost={"count": 7}),
            replace(request(3), waited_us=2_500_000),
        )
    )
    for line in (
        "breaker of openai: 2",
        "opened after 5 failures, connect",
        "limiter: 42",
        "a call refused under max_calls_per_minute, for 3 s",
        "41 calls refused under max_calls_per_minute, for 3 s",
        "max_usd: 1.2 of 1",
        "the wall clock moved by -3600.000 s",
        "answered as call 1 was",
        "ledger: truncated",
        "7 events could not be written before this one",
        "waited for money: 1 calls, the longest 2.50 s at 20",
    ):
        assert line in said
    assert said.count("Z  ") == 9, "every action but the sum of waits has its time"


def test_repeats_are_counted_and_the_first_few_told() -> None:
    said = told(*[ModelDenied(code="max_usd", final=True, count=10)] * 40)
    assert said[0] == "  refused, max_usd: 400"
    assert len(said) == MAX_TOLD + 2


def test_a_quiet_run_has_nothing_to_tell() -> None:
    assert told(request(1), response(1)) == []


def test_what_is_told_is_bounded_whatever_a_run_invents() -> None:
    said = told(*(ModelDenied(code=f"code-{number}", final=True) for number in range(5000)))
    assert len(said) <= 2 * (MAX_KINDS + 1) + MAX_TOLD
