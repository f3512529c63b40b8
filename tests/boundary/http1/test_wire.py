"""HTTP/1.1 on the wire: what is accepted, how it ends, and that h11 sees the same."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.http1.headers import crossing
from docket.boundary.http1.wire import (
    MAX_CHUNK_LINE,
    NO_BODY,
    ChunkedDecoder,
    Head,
    WireError,
    encode_chunk,
    encode_last_chunk,
    encode_request,
    encode_response,
    field_lines,
    parse_request,
    parse_response,
    request_framing,
    response_framing,
)

TOKEN = st.text("abcXYZ019-_.!#$%&'*+^`|~", min_size=1, max_size=12).map(str.encode)
VALUE = st.binary(max_size=40).map(lambda raw: bytes(b for b in raw if b not in b"\r\n\0").strip(b" \t"))
FIELDS = st.lists(st.tuples(TOKEN, VALUE), max_size=8)
TARGET = st.binary(min_size=1, max_size=30).map(lambda raw: b"/" + bytes(b for b in raw if 0x20 < b < 0x7F))
Fields = list[tuple[bytes, bytes]]
CUTS = st.lists(st.integers(0, 400), max_size=6)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def assert_holds(head: Head, fields: Fields) -> None:
    """Every field is there in its place, and found by its name with its duplicates."""
    assert [line[: len(name)] for name, line in head.lines] == [name for name, _ in fields]
    for name in {name.lower() for name, _ in fields}:
        values = [value for own, value in fields if own.lower() == name]
        assert (head.values(name), head.first(name), head.count(name)) == (values, values[0], len(values))
    assert (head.values(b"absent"), head.first(b"absent"), head.count(b"absent")) == ([], None, 0)


@given(TOKEN, TARGET, FIELDS)
def test_a_request_head_survives_the_round_trip(method: bytes, target: bytes, fields: Fields) -> None:
    head = parse_request(encode_request(method, target, field_lines(fields))[:-4])
    assert (head.method, head.target) == (method, target)
    assert_holds(head, fields)


@given(FIELDS, st.integers(200, 599))
def test_a_response_head_survives_the_round_trip(fields: Fields, status: int) -> None:
    head = parse_response(encode_response(status, b"Why Not", field_lines(fields))[:-4])
    assert (head.status, head.reason) == (status, b"Why Not")
    assert_holds(head, fields)


@given(
    st.lists(st.tuples(TOKEN, st.sampled_from([b"", b" ", b" \t"]), VALUE, st.sampled_from([b"", b" "])), max_size=8)
)
def test_a_line_that_crosses_goes_as_it_came(fields: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
    lines = [b"%b:%b%b%b" % field for field in fields]
    head = parse_request(b"\r\n".join([b"GET / HTTP/1.1", *lines]))
    assert crossing(head, NO_BODY, host=b"up") == [b"Host: up", *lines]
    assert_holds(head, [(name, value) for name, _, value, _ in fields])


@given(TARGET, FIELDS)
def test_h11_reads_the_same_request(target: bytes, fields: Fields) -> None:
    fields = [field for field in fields if field[0].lower() not in (b"content-length", b"transfer-encoding", b"host")]
    raw = encode_request(b"POST", target, [b"Host: x", *field_lines(fields)])
    other = h11.Connection(h11.SERVER)
    other.receive_data(raw)
    try:
        event = other.next_event()
    except h11.RemoteProtocolError:
        return  # h11 refuses more bytes in values than RFC 9110 does; never the other way round
    assert isinstance(event, h11.Request)
    ours = parse_request(raw[:-4])
    assert (ours.method, ours.target) == (event.method, event.target)
    assert_holds(ours, [(name, value) for name, value in event.headers.raw_items()])


@given(st.binary(max_size=60))
def test_no_bytes_break_the_parsers(raw: bytes) -> None:
    for parse in (parse_request, parse_response):
        with suppress(WireError):
            parse(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/2.0",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b" GET / HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET / HTTP/1.1\r\nName : value",
        b"GET / HTTP/1.1\r\n folded",
        b"GET / HTTP/1.1\r\nA: b\r\n folded",
        b"GET / HTTP/1.1\r\nNoColon",
        b"GET / HTTP/1.1\r\nA: b\nC: d",
        b"GET / HTTP/1.1\r\nA: b\rC: d",
        b"GET / HTTP/1.1\r\nA: b\0c",
        b"G(T / HTTP/1.1",
    ],
)
def test_a_head_that_readers_could_take_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        parse_request(raw)


def framing(method: bytes, *lines: bytes, minor: int = 1) -> str:
    head = parse_request(b"%b / HTTP/1.%d%b" % (method, minor, b"".join(b"\r\n" + line for line in lines)))
    found = request_framing(head)
    return f"{found.kind} {found.length}" if found.kind == "sized" else found.kind


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "none"),
        ([b"Content-Length: 0"], "none"),
        ([b"Content-Length: 5"], "sized 5"),
        ([b"content-length: 5", b"Content-Length: 5"], "sized 5"),
        ([b"Transfer-Encoding: chunked"], "chunked"),
        ([b"Transfer-Encoding: Chunked"], "chunked"),
    ],
)
def test_where_a_request_ends(lines: list[bytes], expected: str) -> None:
    assert framing(b"POST", *lines) == expected


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([b"Content-Length: 5", b"Content-Length: 6"], 400),
        ([b"Content-Length: 5, 5"], 400),
        ([b"Content-Length: +5"], 400),
        ([b"Content-Length: 0x5"], 400),
        ([b"Content-Length:"], 400),
        ([b"Content-Length: 99999999999999999"], 400),
        ([b"Content-Length: 5", b"Transfer-Encoding: chunked"], 400),
        ([b"Transfer-Encoding: gzip, chunked"], 501),
        ([b"Transfer-Encoding: chunked, chunked"], 501),
        ([b"Transfer-Encoding:"], 400),
    ],
)
def test_a_request_whose_end_is_in_doubt_is_refused(lines: list[bytes], status: int) -> None:
    with pytest.raises(WireError) as caught:
        framing(b"POST", *lines)
    assert caught.value.status == status


def test_http_1_0_has_no_chunks() -> None:
    with pytest.raises(WireError):
        framing(b"POST", b"Transfer-Encoding: chunked", minor=0)


@pytest.mark.parametrize(
    ("method", "status", "lines", "expected"),
    [
        (b"GET", 200, [b"Content-Length: 3"], "sized"),
        (b"GET", 200, [b"Transfer-Encoding: chunked"], "chunked"),
        (b"GET", 200, [b"Transfer-Encoding: chunked", b"Content-Length: 3"], "chunked"),
        (b"GET", 200, [], "close"),
        (b"HEAD", 200, [b"Content-Length: 3"], "none"),
        (b"GET", 204, [], "none"),
        (b"GET", 304, [b"Content-Length: 3"], "none"),
    ],
)
def test_where_a_response_ends(method: bytes, status: int, lines: list[bytes], expected: str) -> None:
    raw = b"HTTP/1.1 %d X%b" % (status, b"".join(b"\r\n" + line for line in lines))
    assert response_framing(parse_response(raw), method).kind == expected


BODY = st.lists(st.binary(min_size=1, max_size=30), max_size=5)
TRAILERS = st.lists(st.tuples(TOKEN, VALUE), max_size=3)


@given(BODY, TRAILERS, st.binary(max_size=20), CUTS)
def test_a_chunked_body_is_the_same_however_it_is_cut(
    body: list[bytes], trailers: Fields, after: bytes, cuts: list[int]
) -> None:
    raw = b"".join(map(encode_chunk, body)) + encode_last_chunk(trailers) + after
    decoder, out, rest = ChunkedDecoder(), b"", b""
    for piece in pieces(raw, cuts):
        if decoder.done:
            rest += piece
        else:
            out += decoder.feed(piece)
    assert decoder.done
    assert (out, decoder.trailers, decoder.rest + rest) == (b"".join(body), tuple(trailers), after)


@given(st.binary(max_size=60))
def test_h11_and_this_side_agree_on_chunks(raw: bytes) -> None:
    decoder = ChunkedDecoder()
    try:
        ours: bytes | None = decoder.feed(raw)
    except WireError:
        ours = None
    other = h11.Connection(h11.SERVER)
    other.receive_data(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + raw)
    theirs, done = b"", False
    try:
        while True:
            event = other.next_event()
            if isinstance(event, h11.Data):
                theirs += event.data
            elif isinstance(event, h11.EndOfMessage):
                done = True
                break
            elif event is h11.NEED_DATA:
                break
    except h11.RemoteProtocolError:
        assert ours is None or not decoder.done
        return
    if ours is not None:
        assert (ours, decoder.done) == (theirs, done)


@pytest.mark.parametrize(
    "raw", [b"g\r\n", b"-1\r\n", b"\r\n", b"1\r\nabc", b"1;" + b"x" * MAX_CHUNK_LINE, b"11111111111111111\r\n", b"1\n"]
)
def test_broken_chunks_are_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        ChunkedDecoder().feed(raw + b"\r\n\r\n")
