"""A head that is not read again is what reading it again would have given, and so is what goes upstream of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.http1.origin import Origin
from docket.boundary.http1.response import Outgoing, request_fields, spelled_around_length
from docket.boundary.http1.wire import (
    NO_BODY,
    Framing,
    RequestHead,
    RequestHeads,
    WireError,
    encode_request,
    parse_request,
    request_framing,
)

NAMES = st.sampled_from(
    [b"Content-Length", b"content-length", b"CONTENT-LENGTH", b"Host", b"X-A", b"Connection", b"TE"]
)
VALUES = st.sampled_from([b"", b" ", b" 0", b" 7", b" 700 ", b"\t12", b" 007", b" 9x", b" 9007199254740991", b" close"])
LINES = st.lists(st.tuples(NAMES, VALUES), max_size=5).map(lambda fields: [b"%b:%b" % field for field in fields])


def raw(lines: list[bytes]) -> bytes:
    return b"\r\n".join([b"POST /r/token/up/v1/chat/completions HTTP/1.1", *lines])


def seen(head: RequestHead) -> tuple[object, ...]:
    try:
        framing: object = head.framing or request_framing(head)
    except WireError as error:
        framing = str(error)
    return head.method, head.target, head.minor, head.lines, head.named, framing


@given(st.lists(LINES, min_size=1, max_size=4), st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8))
def test_heads_of_a_connection_are_what_they_are_alone(
    sections: list[list[bytes]], order: list[tuple[int, bool]]
) -> None:
    heads = RequestHeads()
    for at, planned in order:
        sent = raw(sections[at % len(sections)])
        try:
            expected = parse_request(sent)
        except WireError:
            with pytest.raises(WireError):
                heads.read(sent)
            continue
        head = heads.read(sent)
        assert seen(head) == seen(expected)
        if planned and head.known is not None:
            head.known.plan = object()


@given(st.text("0123456789", min_size=1, max_size=16), st.text("0123456789", min_size=1, max_size=16))
def test_of_two_heads_that_differ_in_the_length_of_a_body_the_second_is_not_read_again(one: str, other: str) -> None:
    heads = RequestHeads()
    lines = [b"Host: a", b"content-length: %b", b"X-A: 1"]
    first = heads.read(raw(lines).replace(b"%b", one.encode()))
    assert first.known is not None
    first.known.plan = plan = object()
    second = heads.read(raw(lines).replace(b"%b", other.encode()))
    assert second.known is not None
    assert second.known.plan is plan
    assert second.framing == (Framing("sized", int(other)) if int(other) else NO_BODY)
    assert second.first(b"content-length") == other.encode()


@given(LINES, st.integers(1, 10**9), st.booleans())
def test_a_head_that_was_spelled_once_is_what_spelling_it_again_gives(
    lines: list[bytes], length: int, credential: bool
) -> None:
    origin = Origin("https", "api.test", 443, b"Basic eA==" if credential else None)
    head = RequestHead(b"POST", b"/v1", 1, lines)
    spelled = spelled_around_length(origin, head, b"/v1")
    if spelled is None:
        return
    framing = Framing("sized", length)
    whole = encode_request(b"POST", b"/v1", request_fields(Outgoing(origin, head, b"/v1", None), framing))  # type: ignore[arg-type]
    assert spelled[0] + b"%d" % length + spelled[1] == whole


def test_a_field_that_looks_like_the_mark_of_a_length_keeps_a_head_from_being_spelled_once() -> None:
    head = RequestHead(b"POST", b"/v1", 1, [b"X-A: 9007199254740991", b"Content-Length: 5"])
    assert spelled_around_length(Origin("https", "api.test", 443), head, b"/v1") is None
