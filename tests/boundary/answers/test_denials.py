"""Refusals on record: however they are summed, ledger, metric and receipt count the same."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docket.boundary.answers import coalesce
from docket.boundary.answers.denials import Denials
from docket.boundary.answers.refusals import Answer
from docket.control.decision import Refused
from docket.ledger.chain import Chain, Entry
from docket.ledger.codec import draft
from docket.ledger.events import Event, ModelDenied, RateLimited, RateName
from docket.receipt.activity import Activity
from docket.telemetry.metrics import Fold
from kit.boundary import Record, run

LIMITS: tuple[RateName, ...] = get_args(RateName)
REFUSALS = st.lists(
    st.tuples(st.sampled_from((*LIMITS, "breaker_open")), st.sampled_from("ab"), st.integers(0, 3)), max_size=40
)


class Client:
    """Takes every answer."""

    async def refuse(self, answer: Answer) -> None: ...


def refused(code: str) -> Refused:
    limited = RateLimited(limit=code, retry_after=2, state={"wait_us": 5}) if code in LIMITS else None
    return Refused(code=code, message="not now", retry_after=2, limited=limited)  # type: ignore[arg-type]


async def play(refusals: list[tuple[str, str, int]]) -> list[Event]:
    """The events of ``refusals``: (code, upstream, turns of the loop before the next one)."""
    record = Record()
    denials = Denials(record.submit, "DKT-20261130-0123456789", lambda breach: None)
    for code, upstream, turns in refusals:
        await denials.deny(refused(code), Client(), "openai", upstream)
        for _ in range(turns):
            await asyncio.sleep(0)
    await denials.close()
    return record.events


def chained(events: list[Event]) -> list[Entry]:
    chain = Chain()
    return [
        chain.extend(draft(event), ts="2026-11-30T10:00:00.000000Z", elapsed_us=0, entropy=os.urandom)[0]
        for event in events
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(refusals=REFUSALS, window=st.sampled_from((0.0, 3600.0)))
def test_the_limiter_s_refusals_are_the_same_number_in_ledger_metric_and_receipt(
    refusals: list[tuple[str, str, int]], window: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalesce, "WINDOW_SECONDS", window)
    entries = chained(run(play(refusals)))
    metric, activity, ledger = Fold(), Activity(), Counter[str]()
    for entry in entries:
        metric.add(entry)
        activity.add(entry, entry.event)
        if isinstance(entry.event, RateLimited):
            ledger[entry.event.limit] += entry.event.count
    expected = Counter(code for code, _, _ in refusals if code in LIMITS)
    assert ledger == expected
    assert metric.rate_limited == {(code,): count for code, count in expected.items()}
    assert activity.resilience()["rate_limited"] == expected.total()
    assert Counter(activity.denied_by_code) == Counter(code for code, _, _ in refusals)


def test_repeats_are_one_more_event_of_each_kind_with_their_number() -> None:
    events = run(play([(LIMITS[0], "a", 0)] * 5))
    assert [(type(event), event.count) for event in events if isinstance(event, ModelDenied | RateLimited)] == [
        (ModelDenied, 1),
        (RateLimited, 1),
        (ModelDenied, 4),
        (RateLimited, 4),
    ]
