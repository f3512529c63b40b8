"""The Gate: what it refuses and why, what it reserves, what it books."""

from __future__ import annotations

import pytest

from docket.control.admission import Gate
from docket.control.breaker import Ended
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused
from docket.ledger.events import CapExceeded
from docket.ledger.usage import Counts
from docket.primitives.instant import Instant
from docket.providers.call import Endpoint, EndpointClass, Observation

from .kit import COMPLETE, NOW, answer, call, gate


def admit(gate: Gate, **members: object) -> Admitted:
    admitted = gate.admit(call(**members), NOW)
    assert isinstance(admitted, Admitted), admitted
    return admitted


def refused(gate: Gate, **members: object) -> Refused:
    answer = gate.admit(call(**members), NOW)
    assert isinstance(answer, Refused), answer
    return answer


def caps(**keys: object) -> str:
    lines = [f"{key} = {value if not isinstance(value, str) else repr(value)}" for key, value in keys.items()]
    return "\n".join(["[caps]", *lines]).replace("'", '"') + "\n"


def test_a_denied_model_is_refused_before_anything_is_charged() -> None:
    g = gate('[models]\ndeny = ["acme-*"]\n[resilience]\nmax_calls_per_minute = 1\n')
    assert refused(g).code == "model_denied"
    assert isinstance(g.admit(call(model="other"), NOW), Admitted), "the refused call used up the minute's only call"


def test_a_list_of_allowed_models_refuses_the_others_and_the_unknown() -> None:
    g = gate('[models]\nallow = ["acme-*"]\n')
    assert isinstance(g.admit(call(model="ACME-chat-1"), NOW), Admitted)
    assert refused(g, model="gpt-5").code == "model_denied"
    assert refused(g, model="unknown").final


def test_a_model_without_a_price_is_refused_under_a_usd_cap_only() -> None:
    assert refused(gate(caps(max_usd=1.0)), model="acme-unknown-9").code == "unpriced"
    assert isinstance(gate().admit(call(model="acme-unknown-9"), NOW), Admitted)
    count_only = caps(max_usd=1.0) + '[budget]\nunpriced = "count-only"\n'
    assert admit(gate(count_only), model="acme-unknown-9").hold.usd is None


def test_dearest_prices_an_unknown_model_for_the_cap_and_leaves_the_bill_without_a_cost() -> None:
    g = gate(caps(max_usd=0.002) + '[budget]\nunpriced = "dearest"\n')
    admitted = admit(g, model="acme-unknown-9", max_output=10)
    settled = g.settle(admitted, call(model="acme-unknown-9"), COMPLETE, answer(1000, 100, model="acme-unknown-9"), NOW)
    assert settled.usage is not None
    assert settled.usage.cost_usd is None
    assert [breach.observed for breach in settled.breaches] == ["0.006"]


def test_the_cap_is_reached_once_and_then_everything_is_refused() -> None:
    g = gate(caps(max_usd=0.001))
    first, second = admit(g, max_output=10), admit(g, max_output=10)
    settled = g.settle(first, call(), COMPLETE, answer(), NOW)
    assert settled.usage is not None
    assert str(settled.usage.cost_usd) == "0.0007"
    assert (settled.warnings, settled.breaches) == ((), ())
    settled = g.settle(second, call(), COMPLETE, answer(), NOW)
    assert [w.observed for w in settled.warnings] == ["0.0014"]
    assert [(b.cap, b.limit, b.observed) for b in settled.breaches] == [("max_usd", "0.001", "0.0014")]
    denied = refused(g)
    assert (denied.code, denied.final, denied.limit, denied.observed) == ("max_usd", True, "0.001", "0.0014")


def test_calls_and_tokens_have_caps_of_their_own() -> None:
    g = gate(caps(max_model_calls=2))
    for _ in range(2):
        g.settle(admit(g), call(), Ended(reason="status", status=500), None, NOW)
    assert refused(g).code == "max_model_calls"
    g = gate(caps(max_tokens=160))
    g.settle(admit(g, max_output=10, body_bytes=10), call(), COMPLETE, answer(150, 30), NOW)
    assert refused(g).code == "max_tokens"


def test_a_call_that_does_not_fit_waits_while_others_may_settle_and_goes_alone_when_none_is() -> None:
    g = gate(caps(max_usd=0.015))
    first = admit(g)
    assert first.hold.usd is not None
    assert g.admit(call(), NOW) == Wait("max_usd")
    g.settle(first, call(), COMPLETE, answer(), NOW)
    second = admit(g)
    assert isinstance(g.admit(call(), NOW), Wait)
    g.release(second, NOW)
    assert g.budget.usd.reserved == 0


def test_under_worst_a_call_that_can_never_fit_is_the_breach() -> None:
    g = gate(caps(max_usd=0.005, hold="worst"))
    denied = refused(g)
    assert denied.final
    assert denied.breaches == (CapExceeded(cap="max_usd", limit="0.005", observed="0"),)
    assert refused(g, max_output=1).code == "max_usd"


def test_under_worst_nothing_goes_unbounded() -> None:
    g = gate(caps(max_usd=1.0, hold="worst"))
    assert refused(g, max_output=None).code == "unbounded_output"
    assert refused(g, open_input=True).code == "unbounded_input"
    assert refused(g, previous="resp_x", stateful=True).code == "unbounded_input"


def test_a_stateful_request_holds_what_it_continues() -> None:
    g = gate(caps(max_usd=1.0, hold="worst"))
    g.settle(admit(g), call(), COMPLETE, answer(700, 300, answer_id="resp_1"), NOW)
    plain, continued = admit(g), admit(g, previous="resp_1", stateful=True)
    assert continued.hold.tokens - plain.hold.tokens == 1000


@pytest.mark.parametrize("reason", ["truncated", "client-gone", "timeout", "error-event"])
def test_a_call_whose_end_is_unknown_books_its_hold_if_that_is_more(reason: str) -> None:
    g = gate(caps(max_usd=1.0))
    admitted = admit(g)
    partial = answer(10, 1, terminal="truncated", counts=Counts(source="partial", items=(("input", 10), ("output", 1))))
    settled = g.settle(admitted, call(), Ended(reason=reason, status=200), partial, NOW)
    assert settled.usage is not None
    assert str(settled.usage.cost_usd) == "0.00003"
    assert admitted.hold.usd is not None
    assert g.budget.usd.booked == admitted.hold.usd.pico > settled.usage.cost_usd.pico  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "ended", [Ended(reason="connect"), Ended(reason="status", status=429, error_type="rate_limit_error")]
)
def test_what_nobody_billed_books_nothing_but_the_call(ended: Ended) -> None:
    g = gate(caps(max_usd=1.0))
    seen = Observation(terminal="error", counts=Counts(source="none")) if ended.status else None
    settled = g.settle(admit(g), call(), ended, seen, NOW)
    assert settled.usage is None
    assert (g.budget.usd.booked, g.budget.calls.booked) == (0, 1)


def test_a_whole_answer_without_usage_books_an_estimate_that_enters_no_cost() -> None:
    g = gate(caps(max_usd=1.0))
    seen = Observation(terminal="complete", counts=Counts(source="none"), model="acme-chat-1", size=4800)
    settled = g.settle(admit(g, stream=True), call(stream=True), COMPLETE, seen, NOW)
    assert settled.usage is not None
    assert (settled.usage.source, settled.usage.items, settled.usage.cost_usd) == ("none", (), None)
    estimate = settled.usage.estimate
    assert estimate is not None
    assert [(item.kind, item.quantity) for item in estimate.items] == [("input", 100), ("output", 100)]
    assert (str(estimate.cost_usd), estimate.method) == ("0.0012", "bytes-prior")
    assert g.budget.usd.booked == 1_200_000_000


def test_an_estimate_is_calibrated_by_the_calls_that_said_their_usage() -> None:
    g = gate(caps(max_usd=1.0))
    g.settle(admit(g, stream=True), call(stream=True), COMPLETE, answer(60, 30, size=3000), NOW)
    seen = Observation(terminal="complete", counts=Counts(source="none"), size=1000)
    settled = g.settle(admit(g, stream=True), call(stream=True), COMPLETE, seen, NOW)
    assert settled.usage is not None
    assert settled.usage.estimate is not None
    assert settled.usage.estimate.method == "bytes-calibrated"
    assert [item.quantity for item in settled.usage.estimate.items] == [60, 10]


def test_quota_mode_shows_no_dollar_at_all() -> None:
    g = gate(caps(max_usd=0.000001, max_tokens=1000) + '[budget]\nmode = "quota"\n')
    admitted = admit(g, model="anything")
    assert admitted.hold.usd is None
    settled = g.settle(admitted, call(), COMPLETE, answer(800, 300), NOW)
    assert settled.usage is not None
    assert settled.usage.cost_usd is None
    assert all(item.unit_usd is None for item in settled.usage.items)
    assert [breach.cap for breach in settled.breaches] == ["max_tokens"]


def test_the_hold_becomes_the_largest_of_the_calls_seen_once_enough_were() -> None:
    g = gate(caps(max_usd=100.0))
    assert admit(g, max_output=None).hold.tokens == 100 + 8192
    for output in range(10, 90, 10):
        g.settle(admit(g, max_output=None), call(), COMPLETE, answer(100, output), NOW)
    assert admit(g, max_output=None).hold.tokens == (100 + 80) * 5 // 4


def test_a_breach_that_others_watch_refuses_every_further_call() -> None:
    g = gate()
    g.breach(CapExceeded(cap="max_wall_seconds", limit="3", observed="3.1"))
    assert refused(g).code == "max_wall_seconds"


def test_who_waited_in_vain_is_told_the_median_duration() -> None:
    g = gate(caps(max_usd=1.0))
    for seconds in (2, 3, 9):
        admitted = admit(g)
        g.settle(admitted, call(), COMPLETE, answer(), Instant(seconds * 1_000_000))
    told = g.gave_up(Wait("max_usd"))
    assert (told.retry_after, told.estimated, told.final) == (3, True, False)


def test_an_admission_is_settled_or_released_exactly_once() -> None:
    g = gate()
    admitted = admit(g)
    g.settle(admitted, call(), COMPLETE, answer(), NOW)
    with pytest.raises(KeyError):
        g.release(admitted, NOW)


def test_the_answers_own_model_is_priced_and_named() -> None:
    g = gate(caps(max_usd=1.0))
    settled = g.settle(admit(g), call(), COMPLETE, answer(model="acme-chat-1-2026-01-01"), NOW)
    assert settled.model == "acme-chat-1-2026-01-01"
    assert settled.usage is not None
    assert str(settled.usage.cost_usd) == "0.0007"


def test_a_wait_longer_than_clients_accept_is_cut_to_what_they_do() -> None:
    g = gate("[resilience]\nbreaker_threshold = 1\nbreaker_cooldown_seconds = 300\n")
    g.settle(admit(g), call(), Ended(reason="connect"), None, NOW)
    denied = refused(g)
    assert (denied.code, denied.retry_after) == ("breaker_open", 120)


def test_a_price_that_is_not_the_models_own_is_said_once() -> None:
    g = gate(caps(max_usd=10.0) + '[budget]\nunpriced = "count-only"\n')
    dated, again, unknown, exact = (
        admit(g, model=name).events
        for name in ("acme-chat-1-2026-01-01", "acme-chat-1-2026-01-01", "acme-unknown-9", "acme-chat-1")
    )
    assert [event.private["text"] for event in dated] == [
        "acme-chat-1-2026-01-01 is priced as acme-chat-1 (rule: date)"
    ]
    assert [event.private["text"] for event in unknown] == ["acme-unknown-9 has no known price: it is only counted"]
    assert (again, exact) == ((), ())


def test_even_a_call_that_costs_nothing_is_barred_by_its_model_and_by_a_cap_that_was_reached() -> None:
    held = gate('[models]\ndeny = ["acme-chat-2"]\n[caps]\nmax_model_calls = 1\n')
    assert held.barred(call()) is None
    denied = held.barred(call(model="acme-chat-2"))
    assert denied is not None
    assert denied.code == "model_denied"
    admitted = held.admit(call(), NOW)
    assert isinstance(admitted, Admitted)
    held.settle(admitted, call(), COMPLETE, answer(), NOW)
    spent = held.barred(call())
    assert spent is not None
    assert spent.code == "max_model_calls"


def test_a_price_borrowed_from_the_dearest_model_is_said() -> None:
    g = gate(caps(max_usd=10.0) + '[budget]\nunpriced = "dearest"\n')
    (note,) = admit(g, model="acme-unknown-9").events
    assert note.private["text"] == "acme-unknown-9 has no known price: the cap takes the dearest one of acme"


def test_a_hold_is_the_dearest_of_eight_calls_and_a_quarter_more() -> None:
    g = gate(caps(max_usd=10.0))
    for output in (50, 10, 10, 10, 10, 10, 10):
        g.settle(admit(g), call(), COMPLETE, answer(100, output), NOW)
    prior = admit(g)
    assert prior.hold.tokens == 100 + 1000, "seven calls are too few to go by"
    g.settle(prior, call(), COMPLETE, answer(100, 10), NOW)
    held = admit(g).hold
    assert (str(held.usd), held.tokens) == ("0.000875", 188)


def test_a_rule_for_models_bars_no_endpoint_that_names_none() -> None:
    held = gate('[models]\nallow = ["acme-chat-1"]\n')
    files = Endpoint(name="/v1/files", kind=EndpointClass.UNMETERED, protocol="openai", family="openai")
    assert isinstance(held.admit(call(endpoint=files, model="unknown"), NOW), Admitted)


def test_nothing_is_left_of_a_cap_that_was_passed() -> None:
    g = gate(caps(max_tokens=100))
    g.settle(admit(g), call(), COMPLETE, answer(100, 50), NOW)
    assert g.left()["caps"] == {"max_tokens": {"limit": "100", "booked": "150", "reserved": "0", "left": "0"}}


def test_the_breaker_does_not_wait_for_an_answer_that_comes_later() -> None:
    g = gate("[resilience]\nbreaker_threshold = 1\n")
    g.settle(admit(g), call(), Ended(reason="connect"), None, NOW)
    assert refused(g).code == "breaker_open"
    later = Instant(10 * 60 * 10**6)
    probe = g.admit(call(background=True), later)
    assert isinstance(probe, Admitted)
    assert isinstance(g.admit(call(), later), Refused), "one probe at a time"
    (closed,) = g.answered(probe, COMPLETE, later)
    assert closed.type == "x-docket.breaker-closed"
    assert isinstance(g.admit(call(), later), Admitted)
    assert g.inflight == 2
    assert not g.settle(probe, call(), Ended(reason="background", status=200), None, later).events


def test_a_bill_that_is_not_all_known_books_at_least_its_hold() -> None:
    g = gate(caps(max_usd=1.0, hold="worst"))
    admitted = admit(g)
    held = g.budget.usd.reserved
    counts = Counts(source="partial", items=(("input", 1), ("output", 1)), unread=("new_fee",))
    seen = Observation(terminal="complete", counts=counts, model="acme-chat-1", size=10)
    settled = g.settle(admitted, call(), COMPLETE, seen, NOW)
    assert settled.usage is not None
    assert (settled.usage.unread, settled.usage.estimate) == (("new_fee",), None)
    assert str(settled.usage.cost_usd) == "0.000012"
    assert g.budget.usd.booked == held > settled.usage.cost_usd.pico


@pytest.mark.parametrize(
    ("asked", "served", "tier", "cost"),
    [
        ("flex", None, "unknown", None),
        ("flex", "flex", "flex", "0.00035"),
        ("flex", "default", "standard", "0.0007"),
        ("auto", None, "standard", "0.0007"),
        (None, None, "standard", "0.0007"),
        (None, "turbo", "turbo", None),
    ],
)
def test_a_tier_that_nobody_named_is_never_the_standard_one(
    asked: str | None, served: str | None, tier: str, cost: str | None
) -> None:
    g = gate(caps(max_usd=1.0))
    settled = g.settle(admit(g, tier=asked), call(tier=asked), COMPLETE, answer(tier=served), NOW)
    assert settled.usage is not None
    assert settled.tier == tier
    assert (str(settled.usage.cost_usd) if settled.usage.cost_usd is not None else None) == cost


def test_every_model_that_a_call_may_use_is_judged_and_needs_a_price() -> None:
    assert refused(gate('[models]\ndeny = ["b-*"]\n'), others=("b-1",)).code == "model_denied"
    assert refused(gate('[models]\nallow = ["acme-*"]\n'), others=("b-1",)).code == "model_denied"
    unpriced = refused(gate(caps(max_usd=1.0)), others=("b-1",))
    assert unpriced.code == "unpriced"
    assert "b-1" in unpriced.message


def test_a_call_holds_the_expected_figure_of_its_dearest_model() -> None:
    alone, both = gate(caps(max_usd=1.0)), gate(caps(max_usd=1.0))
    admit(alone)
    admit(both, others=("acme-chat-2",))
    assert both.budget.usd.reserved == 2 * alone.budget.usd.reserved


def test_a_deployment_whose_model_nobody_stated_is_neither_priced_nor_let_past_a_rule_that_denies_models() -> None:
    unknown = {"model": "deployment:acme-chat-1"}
    under_a_cap = refused(gate(caps(max_usd=1.0)), **unknown)
    assert under_a_cap.code == "unpriced"
    assert "[upstreams." in under_a_cap.message
    assert "nothing says which one" in refused(gate('[models]\ndeny = ["other-*"]\n'), **unknown).message
    assert isinstance(gate('[models]\nallow = ["acme-*"]\n').admit(call(**unknown), NOW), Admitted), "by its own name"
    assert isinstance(gate().admit(call(**unknown), NOW), Admitted), "without a rule it is counted"


def test_a_name_that_stands_for_a_model_may_be_denied_and_need_not_be_allowed() -> None:
    meant = {"model": "acme-chat-1", "aliases": (("team-blue", "acme-chat-1"),)}
    assert refused(gate('[models]\ndeny = ["team-*"]\n'), **meant).code == "model_denied"
    assert isinstance(gate('[models]\nallow = ["acme-*"]\n').admit(call(**meant), NOW), Admitted)
    assert isinstance(gate('[models]\ndeny = ["other-*"]\n').admit(call(**meant), NOW), Admitted)
