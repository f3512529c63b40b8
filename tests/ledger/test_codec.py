"""Events to JSON and back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import FormatError
from docket.ledger.codec import draft, from_json, to_data
from docket.ledger.events import Event, Note, Other, SessionStart
from docket.ledger.usage import Usage
from docket.primitives.canonical import decode_object
from kit.strategies import events, names, public_objects, usages


@given(events)
def test_decoding_gives_back_the_event(event: Event) -> None:
    private = {name: {"salt": "00" * 16, "value": value} for name, value in event.private.items()}
    assert from_json(event.type, event.by, to_data(event), private) == event


@given(events, st.data())
def test_what_a_newer_version_added_survives_a_round_trip(event: Event, data: st.DataObject) -> None:
    document: Any = to_data(event)
    more = data.draw(public_objects.map(lambda extra: {f"new-{name}"[:128]: value for name, value in extra.items()}))
    document |= more
    for member in list(document):
        if isinstance(document[member], dict) and member not in more:
            document[member] = {**document[member], "new": 1}
    assert to_data(from_json(event.type, event.by, document)) == document


@given(names, public_objects)
def test_an_event_of_an_unknown_type_is_kept_as_it_stands(name: str, data: Any) -> None:
    kind = f"x-new.{name}"
    event = from_json(kind, "boundary", data)
    assert event == Other(by="boundary", name=kind, data=data)
    assert draft(event).type == kind
    assert decode_object(draft(event).data_bytes) == data


@given(usages)
def test_usage_is_spelled_as_the_format_defines(usage: Usage) -> None:
    document: Any = usage.to_json()
    event = from_json(
        "model.error",
        "boundary",
        {"call": 1, "reason": "x", "provider": "p", "model": "m", "tier": "t", "upstream": "u", "usage": document},
    )
    assert to_data(event)["usage"] == document


@pytest.mark.parametrize("fact", [fact for fact in get_args(Event) if fact is not Other])
def test_every_event_of_the_vocabulary_is_known_by_its_name(fact: type[Event]) -> None:
    """One without its members is refused for that, and not taken for an unknown one."""
    with suppress(FormatError):
        assert type(from_json(fact.type, "boundary", {})) is fact


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("proc.spawn", {}),
        ("proc.spawn", {"pid": "1"}),
        ("proc.spawn", {"pid": True}),
        ("model.denied", {"code": 1, "final": True}),
        ("x-docket.ledger-gap", {"lost": []}),
        ("model.cache_hit", {"call": 1, "origin": 1, "saved_usd": "1.0"}),
    ],
)
def test_a_known_event_with_a_wrong_member_is_refused_by_name(kind: str, data: Any) -> None:
    with pytest.raises(FormatError, match=kind.rsplit(".", maxsplit=1)[-1]):
        from_json(kind, "supervisor", data)


@pytest.mark.parametrize("value", ["\ud800", 1.5, 2**53, {"é": 1}])
def test_a_value_without_canonical_form_is_refused_before_it_is_written(value: Any) -> None:
    with pytest.raises(FormatError):
        draft(Note(private={"text": value}))
    with pytest.raises(FormatError):
        draft(Note(unknown={"text": value}))


def test_absent_members_are_absent() -> None:
    start = SessionStart(docket="D", session=0, run_key="k", policy="p", prices="q", tool={}, platform={})
    assert to_data(start).keys() == {"docket", "session", "run_key", "policy", "prices", "tool", "platform"}
