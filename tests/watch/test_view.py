"""The view of a run: amounts as caps count them, bounded, and taken up where an earlier process left it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from docket.sim.clock import ManualClock
from docket.watch import view as module
from docket.watch.lines import summary
from docket.watch.saved import SavedView
from docket.watch.tail import LedgerTail
from docket.watch.view import View
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response


def event(kind: str, seq: int = 0, us: int = 0, private: Any = None, **data: Any) -> dict[str, Any]:
    made = {"seq": seq, "hash": "h", "ts": "2026-11-30T10:00:00.000000Z", "elapsed_us": us, "type": kind, "data": data}
    return made if private is None else made | {"private": {name: {"value": value} for name, value in private.items()}}


def call(view: View, number: int, hold: str = "0.5", **usage: Any) -> None:
    view.add(
        event("model.request", call=number, model="m", upstream="u", stream=False, hold={"tokens": 100, "usd": hold})
    )
    view.add(event("model.response", call=number, model="m", reason="complete", status=200, usage=usage))


def test_a_bill_counts_as_it_is() -> None:
    view = View()
    call(view, 1, source="reported", cost_usd="0.125", items=[{"kind": "input", "quantity": 70, "per": 1000000}])
    assert (view.usd, view.billed_usd, view.tokens, view.kinds, view.unpriced) == (
        "0.125",
        "0.125",
        70,
        {"input": 70},
        0,
    )


@pytest.mark.parametrize(
    ("usage", "booked"),
    [
        ({"source": "none"}, "0.5"),
        ({"source": "partial", "cost_usd": "0.25", "items": []}, "0.5"),
        ({"source": "partial", "cost_usd": "0.75", "items": []}, "0.75"),
        ({"source": "reported", "items": [{"kind": "new-fee", "quantity": 1}]}, "0.5"),
    ],
)
def test_what_is_not_known_counts_as_no_less_than_its_hold(usage: dict[str, Any], booked: str) -> None:
    view = View()
    call(view, 1, **usage)
    assert view.usd == booked


def test_calls_under_way_keep_money_reserved() -> None:
    view = View()
    view.add(event("model.request", call=1, model="m", upstream="u", stream=True, hold={"tokens": 1, "usd": "0.25"}))
    assert view.reserved_usd == Decimal("0.25")
    view.add(event("session.end", outcome="lost", exit={"code": 1}))
    assert view.reserved_usd == 0


def test_how_long_the_money_lasts_follows_the_last_minutes() -> None:
    view = View()
    view.add(event("policy.applied", private={"document": {"caps": {"max_usd": "10", "on_breach": "kill"}}}))
    assert view.seconds_left() is None
    for minute in range(6):
        view.add(event("model.request", us=minute * 60_000_000, call=1, model="m", upstream="u", stream=False, hold={}))
        bill = {"source": "reported", "cost_usd": "1", "items": []}
        view.add(event("model.error", us=minute * 60_000_000, call=1, model="m", reason="status", usage=bill))
    assert view.usd_per_hour() == Decimal(6 * 12)
    assert view.seconds_left() == pytest.approx(4 / 72 * 3600)


def test_no_list_and_no_table_of_a_view_grows_without_end() -> None:
    view = View()
    for number in range(5000):
        view.add(event("model.denied", seq=number, code=f"code-{number}", count=1))
        view.add(event("policy.violation", seq=number, rule="r"))
        call(view, number, source="reported", cost_usd="0", items=[{"kind": f"k{number}", "quantity": 1}])
    assert len(orjson.dumps(view.to_json())) < 200_000
    assert sum(view.denied.values()) == 5000
    assert len(view.recent) == module.RECENT


def test_a_view_that_was_left_is_taken_up_without_reading_what_came_before(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), *(event for number in range(1, 30) for event in (request(number), response(number)))])
    run.attest()
    first = SavedView(LedgerTail(run.path, ManualClock()), tmp_path / "cache")
    assert not first.catch_up()
    first.save()
    run.grow(1)

    reads = []

    class Counting(LedgerTail):
        def read(self, after: int) -> Any:
            reads.append(after)
            return super().read(after)

    again = SavedView(Counting(run.path, ManualClock()), tmp_path / "cache")
    again.catch_up()
    assert min(reads) == 59
    whole = View()
    tail = LedgerTail(run.path, ManualClock())
    while lines := tail.read(whole.cursor):
        whole.feed(lines)
    assert again.view.to_json() == whole.to_json()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 0, "cursor": 3}'])
def test_what_is_no_saved_view_is_folded_anew(text: str, tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"{run.directory.name}.json").write_text(text)
    assert SavedView(LedgerTail(run.path, ManualClock()), tmp_path / "cache").view == View()


def test_a_saved_view_of_another_record_of_that_number_is_folded_anew(tmp_path: Path) -> None:
    run, other = GrowingRun(tmp_path), GrowingRun(tmp_path / "other")
    saved = SavedView(LedgerTail(other.path, ManualClock()), tmp_path / "cache")
    saved.catch_up()
    saved.save()
    assert SavedView(LedgerTail(run.path, ManualClock()), tmp_path / "cache").view == View()


def test_the_words_of_a_view_name_what_is_not_known() -> None:
    view = View(docket="DKT", usd="0.5", unpriced=1, limits={"max_usd": "1", "max_tokens": None})
    assert list(summary(view, live=True))[:3] == [
        "DKT  running  0 s",
        "0.5 USD booked, 1 calls at what they held, their bill is unknown",
        "max_usd: 0.5 of 1 USD (50%)",
    ]
    assert "docket doctor says more" in next(iter(summary(view, live=False)))
