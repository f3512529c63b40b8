"""Every usage fixture gives its terminal state and its totals, however its bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docket.providers.call import Observation

from .fixtures import Fixture, cut, load

FIXTURES = load()
SMALL = [fixture for fixture in FIXTURES if len(fixture.body) < 4096]
SOURCES = {"provider": "reported", "partial": "partial", "none": "none"}


def quantity(observation: Observation, *kinds: str) -> int:
    return sum(n for kind, n in observation.counts.items if kind in kinds)


def check(fixture: Fixture, seen: Observation) -> None:
    expected = fixture.expected
    assert seen.terminal == expected["terminal"]
    assert seen.counts.source == SOURCES[expected["usage_source"]]
    assert seen.counts.inconsistent is expected.get("usage_inconsistent", False)
    if expected["usage_source"] == "none":
        assert seen.counts.items == ()
        return
    read = ("cache_read", "cache_read_audio")
    assert quantity(seen, "input", "input_audio") == expected["input_uncached_tokens"]
    assert quantity(seen, *read) == expected["cache_read_tokens"]
    assert quantity(seen, "cache_write_5m") == expected["cache_write_5m_tokens"]
    assert quantity(seen, "cache_write_1h") == expected["cache_write_1h_tokens"]
    assert quantity(seen, "output", "output_audio") == expected["output_tokens"]
    for kind, tokens in expected.get("by_kind", {}).items():
        assert quantity(seen, kind) == tokens
    assert list(seen.counts.unread) == expected.get("unread", [])
    stated = seen.counts.stated_usd
    assert (str(stated) if stated is not None else None) == expected.get("provider_cost_usd")
    assert quantity(seen, "web_search") == expected["web_search_requests"]
    assert seen.reasoning == expected["reasoning_tokens"]
    assert seen.model == expected.get("model", fixture.document["request"]["body"].get("model", "acme-chat-1"))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.name)
def test_whole(fixture: Fixture) -> None:
    check(fixture, fixture.observe([fixture.body]))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.name)
def test_at_its_cuts(fixture: Fixture) -> None:
    """The cuts are offsets of the sent bytes; of a compressed body the decoded copy is cut there instead."""
    check(fixture, fixture.observe(cut(fixture.body, [at for at in fixture.cuts if at < len(fixture.body)])))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.name)
def test_byte_by_byte(fixture: Fixture) -> None:
    body = fixture.body
    check(fixture, fixture.observe([body[i : i + 1] for i in range(len(body))]))


ENDED = [f for f in FIXTURES if f.body.endswith((b"\n\n", b"\r\n\r\n")) and f.expected["terminal"] == "complete"]


@pytest.mark.parametrize("fixture", ENDED, ids=lambda f: f.name)
@pytest.mark.parametrize("tail", [b"\n", b": bye\n\n", b"event: x\ndata: {}\n\n", b"\xff\xfe garbage"])
def test_data_after_the_end_changes_nothing(fixture: Fixture, tail: bytes) -> None:
    check(fixture, fixture.observe([fixture.body, tail]))


@given(st.sampled_from(SMALL), st.data())
@settings(max_examples=150, deadline=None)
def test_any_cut_gives_the_same(fixture: Fixture, data: st.DataObject) -> None:
    at = sorted(data.draw(st.sets(st.integers(0, len(fixture.body)), max_size=12)))
    check(fixture, fixture.observe(cut(fixture.body, at)))


@given(st.sampled_from(SMALL), st.data())
@settings(max_examples=300, deadline=None)
def test_a_body_cut_off_never_claims_more_than_the_whole(fixture: Fixture, data: st.DataObject) -> None:
    """A prefix that breaks off is never complete with a final figure that the whole does not have."""
    whole = fixture.observe([fixture.body])
    end = data.draw(st.integers(0, len(fixture.body)))
    part = fixture.observe([fixture.body[:end]], clean=False)
    if part.counts.source == "reported":
        assert part.counts == whole.counts
