"""What an agent says of itself: whatever it is, the event fits the format and the run goes on."""

from __future__ import annotations

import base64
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.agent_api import parse_event
from docket.errors import UsageError
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import Note, ToolCall
from docket.primitives.canonical import decode_object
from docket.primitives.sealed import seal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def recorded(raw: bytes) -> dict[str, object]:
    """The event as it stands in a ledger; reading it back is strict."""
    _, line, _ = Chain().extend(draft(parse_event(raw)), ts="2026-11-30T12:00:00.000000Z", elapsed_us=0, entropy=bytes)
    document = decode_object(line.rstrip(b"\n"))
    seal(document)
    return document


@given(st.dictionaries(st.text() | st.sampled_from(["private", "salt", "public", "by"]), JSON))
def test_whatever_an_agent_says_makes_an_event_of_the_format_by_the_agent(members: dict[str, object]):
    try:
        raw = orjson.dumps(members | {"type": "tool.call"})
    except (orjson.JSONEncodeError, TypeError):
        return  # a text that no JSON can hold never arrives
    event = recorded(raw)
    assert event["by"] == "agent"
    assert event["data"] == {}


@pytest.mark.parametrize(
    "said",
    ['{"cost": 1.5}', '{"n": 9007199254740993}', '{"\\u00e9": 1}', '{"deep": ' + "[" * 40 + "]" * 40 + "}"],
    ids=["fraction", "integer beyond 2^53", "name beyond ASCII", "deep"],
)
def test_what_has_no_canonical_form_is_kept_as_its_bytes(said: str):
    raw = ('{"type": "note", ' + said[1:]).encode()
    kept = recorded(raw)["private"]["said"]["value"]  # type: ignore[index]
    assert base64.b64decode(kept["base64"]) == raw


def test_a_member_called_private_is_data_like_any_other():
    event = parse_event(json.dumps({"type": "note", "private": {"x": 1}}).encode())  # noqa: TID251 (an agent's own)
    assert event == Note(by="agent", private={"said": {"private": {"x": 1}}})


def test_an_event_that_says_nothing_more_has_no_private_members():
    assert parse_event(b'{"type": "tool.call"}') == ToolCall(by="agent")


@pytest.mark.parametrize(
    "raw", [b"[", b"[]", b"{}", b'{"type": 1}', b'{"type": ["note"]}', b'{"type": "model.response"}']
)
def test_what_is_no_event_of_an_agent_is_named(raw: bytes):
    with pytest.raises(UsageError):
        parse_event(raw)
