"""The report of a receipt: what it says of figures that are there, and of figures that are not."""

from __future__ import annotations

import json
from typing import Any

from docket.receipt.report import lines
from kit.recordings import small


def _receipt(calls: int = 2) -> dict[str, Any]:
    return json.loads(small(calls=calls).files()["receipt.json"])


def test_a_run_without_calls_has_no_tokens_and_says_none() -> None:
    said = lines(_receipt(calls=0))
    assert "tokens      none" in said
    assert "calls       0 sent, 0 failed, 3 refused" in said
    assert not [line for line in said if line.startswith("latency")]


def test_tokens_are_listed_by_kind_and_times_in_seconds() -> None:
    receipt = _receipt()
    receipt["totals"]["tokens"] = {"output": 2500, "input": 10_000}
    receipt["session"]["elapsed_us"] = 1_500_000
    said = lines(receipt)
    assert "tokens      10,000 input, 2,500 output" in said
    assert any(line.endswith("after 1.50 s") for line in said)


def test_a_bound_and_an_unknown_cost_are_called_so() -> None:
    receipt = _receipt()
    receipt["totals"] |= {"cost_is": "lower-bound", "cost_usd": "0.5"}
    assert "cost        at least 0.5 USD (a lower bound)" in lines(receipt)
    receipt["totals"]["cost_is"] = "none"
    assert "cost        unknown: no call has a priced figure" in lines(receipt)


def test_what_a_bill_could_not_price_or_had_to_assume_is_named() -> None:
    receipt = _receipt()
    receipt["totals"] |= {"cost_is": "approximate", "cost_usd": "0.5"}
    first, second = receipt["usage"]["rows"]
    first["usage"]["unread"] = ["tool_usage.image_gen.output_tokens", *"abcde"]
    second["usage"] |= {"unread": ["a"], "assumed": ["cached_tokens_details"]}
    said = lines(receipt)
    assert "cost        about 0.5 USD (some figures are docket's dearest reading)" in said
    assert "not priced  tool_usage.image_gen.output_tokens, a, b, c, d, ..." in said
    assert "assumed     cached_tokens_details" in said


def test_breach_drill_and_recovery_are_said() -> None:
    receipt = _receipt()
    receipt["session"] |= {"drill": True, "breach": {"cap": "max_usd", "limit": "1", "observed": "1.1", "seq": 9}}
    receipt["kind"] = "recovered"
    said = "\n".join(lines(receipt))
    for words in ("max_usd: 1.1 of 1 (event 9)", "injected on purpose", "vouched for by nobody"):
        assert words in said


def test_every_limit_is_shown() -> None:
    receipt = _receipt()
    said = lines(receipt)
    assert receipt["limits"]
    assert [f"  - {limit}" for limit in receipt["limits"]] == said[-len(receipt["limits"]) :]
