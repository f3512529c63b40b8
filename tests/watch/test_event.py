"""An event in words: nothing that is withheld is shown, nothing long hides the rest, every member is there."""

from __future__ import annotations

from docket.watch.event import details, line, said

ENVELOPE = {
    "seq": 7, "type": "note", "by": "agent", "ts": "2026-12-01T12:48:22.217199Z", "elapsed_us": 1_500_000,
    "prev": "a" * 64, "hash": "b" * 64,
}  # fmt: skip


def test_a_line_has_number_time_and_type_and_cuts_what_is_long() -> None:
    event = ENVELOPE | {"data": {"stream": False}, "private": {"text": {"salt": "0" * 32, "value": "x" * 200}}}
    assert line(event) == f"     7  12:48:22.217  note              stream=false text={'x' * 63}…"


def test_what_a_call_cost_stands_on_its_line_and_an_unknown_bill_says_so() -> None:
    assert said(ENVELOPE | {"data": {"usage": {"cost_usd": "0.01", "items": []}}}) == "usd=0.01"
    assert said(ENVELOPE | {"data": {"usage": {"items": []}}}) == "usd=unknown"


def test_digests_are_left_out_of_a_line_and_shown_with_the_details() -> None:
    event = ENVELOPE | {"data": {"policy": "c" * 64}}
    assert said(event) == ""
    assert f"data.policy  {'c' * 64}" in details(event)


def test_withheld_members_are_named_and_their_values_are_not_made_up() -> None:
    event = ENVELOPE | {"data": {}, "private": {"text": {"commitment": "d" * 64}}}
    assert said(event) == ""
    assert list(details(event))[-1] == f"private.text  withheld: {'d' * 64}"


def test_every_member_has_a_row_at_whatever_depth() -> None:
    data = {"usage": {"items": [{"kind": "input", "quantity": 7}], "assumed": ["a", "b"]}, "hold": {}, "status": None}
    private = {"said": {"salt": "0" * 32, "value": {"name": "shell", "private": 1}}}
    rows = dict(row.split("  ", 1) for row in list(details(ENVELOPE | {"data": data, "private": private}))[5:])
    assert {name: text.strip() for name, text in rows.items()} == {
        "data.usage.items.0.kind": "input",
        "data.usage.items.0.quantity": "7",
        "data.usage.assumed": '["a","b"]',
        "data.hold": "{}",
        "data.status": "null",
        "private.said.name": "shell",
        "private.said.private": "1",
    }
