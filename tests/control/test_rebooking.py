"""What a resumed run's caps count from is what the gate had booked, and never less."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.control.booking import Booking
from docket.control.breaker import Ended
from docket.control.budget import Amounts
from docket.control.rebooking import Rebooking, spent_cap
from docket.ledger.codec import to_data
from docket.ledger.events import CallNumber, Hold, ModelRequest, ModelResponse
from docket.ledger.usage import Counts, Part
from docket.policy.model import Budget, Caps, Policy
from docket.pricing.estimate import Calibration
from docket.primitives.instant import Duration
from docket.primitives.money import Usd
from docket.providers import registry
from docket.providers.call import Observation
from docket.storage.price_file import read_prices
from tests.kit.calls import call_of
from tests.kit.entries import entry

TABLE = read_prices(None, "2026-11-30")
ENDPOINT = registry.recognise("openai", "POST", "/v1/responses")
kinds = st.sampled_from(["input", "output", "cache_read", "web_search", "unheard-of"])
quantities = st.dictionaries(kinds, st.integers(0, 10**6), max_size=3).map(lambda items: tuple(items.items()))
models = st.sampled_from([None, "gpt-4o-mini", "gpt-4o", "no-such-model"])


@st.composite
def counts(draw: st.DrawFn) -> Counts:
    """What a provider may have said: of one attempt or several, all known or not."""
    source = draw(st.sampled_from(["reported", "partial", "none"]))
    unread = draw(st.sampled_from([(), ("new_fee",)])) if source != "reported" else ()
    if source == "none":
        return Counts(source="none", unread=unread)
    parts = tuple(draw(st.lists(st.builds(Part, models, quantities), max_size=3)))
    items: dict[str, int] = dict(draw(quantities)) if not parts else {}
    for part in parts:
        for kind, quantity in part.items:
            items[kind] = items.get(kind, 0) + quantity
    assumed = draw(st.sampled_from([(), ("details",)]))
    return Counts(source, tuple(items.items()), unread=unread, assumed=assumed, parts=parts)


holds = st.builds(Amounts, usd=st.integers(0, 10**12), tokens=st.integers(0, 10**5), calls=st.just(1))
calls = st.tuples(
    counts(),
    holds,
    st.sampled_from(["complete", "truncated", "client-gone", "connect", "status", "unterminated", "background"]),
    st.sampled_from(["gpt-4o", "no-such-model"]),
    st.sampled_from([b"{}", b'{"background": true}']),
)


def event(kind: str, data: Any) -> Any:
    return entry(kind, data)


def request(number: int, hold: Amounts) -> Any:
    """As ``Exchange`` records it."""
    return event(
        "model.request",
        to_data(
            ModelRequest(
                call=CallNumber(number),
                upstream="openai",
                provider="openai",
                protocol="openai",
                endpoint="/v1/chat/completions",
                model="m",
                stream=False,
                bytes=1,
                hold=Hold(tokens=hold.tokens, usd=Usd(hold.usd)),
                waited_us=0,
            )
        ),
    )


@given(st.lists(calls, max_size=6), st.sampled_from(["refuse", "count-only"]), holds)
def test_the_fold_of_the_ledger_books_what_the_gate_booked(
    made: list[tuple[Counts, Amounts, str, str, bytes]], unpriced: str, left_open: Amounts
) -> None:
    booking = Booking(Policy(budget=Budget(unpriced=unpriced)), TABLE, Calibration())
    rebooking, expected = Rebooking(), Amounts()
    for number, (counted, hold, reason, model, body) in enumerate(made, 1):
        call = call_of(ENDPOINT, body, "/v1/responses", upstream="openai")
        status = 500 if reason == "status" else None if reason == "connect" else 200
        ended = Ended(reason=reason, status=status, error_type=None, retry_after=False)
        seen = None if reason == "connect" else Observation(terminal="complete", counts=counted, model=model)
        booked = booking.of(call, ended, seen, hold)
        expected = Amounts(*map(sum, zip(expected, booked.amounts, strict=True)))
        rebooking.add(request(number, hold))
        end = ModelResponse(
            call=CallNumber(number),
            status=status,
            reason=reason,
            provider="openai",
            model=booked.model,
            tier=booked.tier,
            upstream="up",
            usage=booked.usage,
        )
        rebooking.add(event("model.response", to_data(end)))
    assert rebooking.booked == expected
    rebooking.add(request(len(made) + 1, left_open))
    assert rebooking.booked == Amounts(*map(sum, zip(expected, left_open, strict=True)))
    assert rebooking.last_call == len(made) + 1


@pytest.mark.parametrize(
    ("caps", "booked", "elapsed_us", "said"),
    [
        (Caps(max_usd=Usd.parse("5")), Amounts(usd=5 * 10**12), 0, "max_usd is spent: 5 of 5"),
        (Caps(max_usd=Usd.parse("5")), Amounts(usd=5 * 10**12 - 1), 0, None),
        (Caps(max_tokens=10), Amounts(tokens=11), 0, "max_tokens is spent: 11 of 10"),
        (Caps(max_model_calls=3), Amounts(calls=3), 0, "max_model_calls is spent: 3 of 3"),
        (Caps(max_wall_seconds=Duration(2_000_000)), Amounts(), 2_500_000, "max_wall_seconds is spent: 2.5 of 2"),
        (Caps(), Amounts(10**15, 10**9, 10**6), 10**12, None),
    ],
)
def test_a_spent_cap_is_named(caps: Caps, booked: Amounts, elapsed_us: int, said: str | None) -> None:
    assert spent_cap(Policy(caps=caps), booked, elapsed_us) == said


def test_a_quota_run_has_no_dollars_to_spend() -> None:
    policy = Policy(caps=Caps(max_usd=Usd.parse("1")), budget=Budget(mode="quota"))
    assert spent_cap(policy, Amounts(usd=10**15), 0) is None


def test_lost_usage_and_answers_from_the_cache_count_too() -> None:
    rebooking = Rebooking()
    rebooking.add(event("model.cache_hit", {"call": 7}))
    rebooking.add(event("x-docket.ledger-gap", {"lost": {"count": 1, "tokens": 5, "cost_usd": "0.5"}}))
    rebooking.add(event("note", {}))
    assert rebooking.booked == Amounts(usd=5 * 10**11, tokens=5, calls=7)
    assert rebooking.open_calls == {}


def test_a_number_whose_end_alone_is_on_record_is_not_given_again_and_lost_requests_count() -> None:
    rebooking = Rebooking()
    rebooking.add(request(1, Amounts()))
    rebooking.add(event("model.response", {"call": 2, "status": 200, "reason": "complete", "provider": "p"}))
    assert rebooking.last_call == 2
    lost: dict[str, Any] = {"count": 4, "types": {"model.request": 4}, "tokens": 0, "cost_usd": "0"}
    rebooking.add(event("x-docket.ledger-gap", {"lost": lost}))
    assert rebooking.booked.calls == 5, "a restart cannot reset a cap on calls"
