"""Where a message ends: one table of decisions, held against h11 and llhttp in both directions, and over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from unittest.mock import Mock

import h11
import pytest
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser, HttpResponseParser

from docket.boundary.http1.upstream import Limits
from docket.boundary.http1.upstream_connection import MAX_INTERIM
from docket.boundary.http1.wire import (
    ChunkedDecoder,
    Framing,
    WireError,
    parse_request,
    parse_response,
    request_framing,
    response_framing,
)
from docket.ledger.events import ModelDenied, ModelError
from kit.boundary import raw_upstream, read_request, run, stage

CODINGS: dict[tuple[bytes, ...], str | int] = {
    (): "absent",
    (b"chunked",): "chunked",
    (b"cHuNkEd",): "chunked",
    (b"  chunked  ",): "chunked",
    (b"\tchunked",): 501,
    (b"chunked\t",): 501,
    (b"",): 400,
    (b" ",): 400,
    (b",",): 400,
    (b"chunked", b"chunked"): 400,
    (b"", b"chunked"): 400,
    (b"chunked", b""): 400,
    (b"identity", b"chunked"): 400,
    (b"chunked", b"identity"): 400,
    (b"chunked, chunked",): 501,
    (b"chunked,",): 501,
    (b", chunked",): 501,
    (b"gzip",): 501,
    (b"gzip, chunked",): 501,
    (b"chunked, gzip",): 501,
    (b"identity",): 501,
    (b"chunked;q=1",): 501,
    (b'"chunked"',): 501,
    (b"xchunked",): 501,
    (b"\x0bchunked",): 501,
}
"""Values of the Transfer-Encoding fields of an HTTP/1.1 message, and what they mean; a number is a refusal."""
LENGTHS: dict[tuple[bytes, ...], int | None] = {
    (): -1,
    (b"0",): 0,
    (b"5",): 5,
    (b"05",): 5,
    (b"  5  ",): 5,
    (b"\t5\t",): 5,
    (b"5", b"5"): 5,
    (b"5", b"6"): None,
    (b"5", b""): None,
    (b"5, 5",): None,
    (b"5,",): None,
    (b"+5",): None,
    (b"-5",): None,
    (b"0x5",): None,
    (b"5 5",): None,
    (b"5;x",): None,
    (b"1_0",): None,
    (b"",): None,
    (b"\xd9\xa5",): None,
    (b"99999999999999999",): None,
}
"""Values of the Content-Length fields, and the length they mean: -1 where there is none, None for a refusal."""
PAYLOADS = list(product(CODINGS, LENGTHS, (0, 1)))
BODIES = {"chunked": b"5\r\nhello\r\n0\r\n\r\n", "sized": b"hello", "none": b"", "close": b"hello"}
NEXT_REQUEST = b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
NEXT_ANSWER = b"HTTP/1.1 299 Next\r\nContent-Length: 0\r\n\r\n"
Read = tuple[bytes, bytes]
"""A body, and what follows it."""


def fields(codings: tuple[bytes, ...], lengths: tuple[bytes, ...], minor: int) -> list[bytes]:
    found = [b"Transfer-Encoding: " + value for value in codings] + [b"Content-Length: " + value for value in lengths]
    return found if minor else [*found, b"Connection: keep-alive"]


def request_decision(codings: tuple[bytes, ...], lengths: tuple[bytes, ...], minor: int) -> str | int:
    """The table for requests: a kind of framing, or the status of the refusal."""
    if codings:
        if lengths or minor == 0:
            return 400
        return CODINGS[codings]
    length = LENGTHS[lengths]
    return 400 if length is None else "sized" if length > 0 else "none"


def answer_decision(codings: tuple[bytes, ...], lengths: tuple[bytes, ...], minor: int) -> str | int:
    """The table for answers: chunks outweigh a length that can be read; without either, the connection ends it."""
    length = LENGTHS[lengths]
    if codings:
        coding = CODINGS[codings]
        return 502 if minor == 0 or length is None or coding != "chunked" else "chunked"
    return 502 if length is None else "close" if length < 0 else "sized" if length else "none"


def ours(framing: Framing, rest: bytes) -> Read:
    if framing.kind == "chunked":
        decoder = ChunkedDecoder()
        return decoder.feed(rest), decoder.rest
    size = len(rest) if framing.kind == "close" else framing.length
    return rest[:size], rest[size:]


def framing_of(head: bytes, client: bool) -> Framing:
    return response_framing(parse_response(head), b"GET") if client else request_framing(parse_request(head))


def by_h11(raw: bytes, client: bool) -> Read | None:
    """What h11 reads, or None where it refuses."""
    if client:
        other = h11.Connection(h11.CLIENT)
        other.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        other.send(h11.EndOfMessage())
    else:
        other = h11.Connection(h11.SERVER)
    body = b""
    other.receive_data(raw)
    try:
        while True:
            event = other.next_event()
            if isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return body, other.trailing_data[0]
            elif event is h11.NEED_DATA:
                other.receive_data(b"")
    except h11.RemoteProtocolError:
        return None


def by_llhttp(raw: bytes, client: bool) -> Read | None:
    """What llhttp reads: its first body, and what it makes of what follows. None where it refuses."""
    loop = asyncio.new_event_loop()
    try:
        made = HttpResponseParser if client else HttpRequestParser
        parser = made(Mock(), loop, 2**16, read_until_eof=client)
        messages, _, _ = parser.feed_data(raw)
        if client:
            parser.feed_eof()
    except (HttpProcessingError, ValueError):
        return None
    finally:
        loop.close()
    if not messages:
        return None
    bodies = [b"".join(getattr(payload, "_buffer", ())) for _, payload in messages]
    follows = [getattr(head, "path", None) or str(head.code) for head, _ in messages[1:]]
    after = {(): b"", ("/next",): NEXT_REQUEST, ("299",): NEXT_ANSWER}
    return bodies[0], after.get(tuple(follows), repr(follows).encode())


@pytest.mark.parametrize("client", [False, True], ids=["requests", "answers"])
def test_where_a_message_ends_is_a_table_and_no_other_reader_places_it_elsewhere(client: bool) -> None:
    assert len(PAYLOADS) > 400
    refused, agreed = 0, {"h11": 0, "llhttp": 0}
    for codings, lengths, minor in PAYLOADS:
        lines = fields(codings, lengths, minor)
        if client:
            start, after, decision = b"HTTP/1.%d 200 OK" % minor, NEXT_ANSWER, answer_decision(codings, lengths, minor)
        else:
            start = b"POST / HTTP/1.%d\r\nHost: x" % minor
            after, decision = NEXT_REQUEST, request_decision(codings, lengths, minor)
        head = b"\r\n".join([start, *lines])
        if isinstance(decision, int):
            with pytest.raises(WireError) as caught:
                framing_of(head, client)
            assert client or caught.value.status == decision, head
            refused += 1
            continue
        framing = framing_of(head, client)
        assert framing.kind == decision, head
        rest = BODIES[framing.kind] + (b"" if framing.kind == "close" else after)
        read = ours(framing, rest)
        others = {name: by(head + b"\r\n\r\n" + rest, client) for name, by in (("h11", by_h11), ("llhttp", by_llhttp))}
        assert any(other is not None for other in others.values()), f"nobody else takes {head!r}"
        for name, other in others.items():
            assert other is None or other == read, (name, head, other, read)
            agreed[name] += other is not None
    assert refused > 400
    assert min(agreed.values()) >= 8, agreed


def over_sockets() -> Iterator[tuple[tuple[bytes, ...], tuple[bytes, ...], int]]:
    """The payloads with one kind of field, and those that have both and look best."""
    for codings, lengths, minor in PAYLOADS:
        if not codings or not lengths or (CODINGS[codings] == "chunked" and LENGTHS[lengths] == 5):
            yield codings, lengths, minor


def test_a_request_that_is_refused_reaches_nobody_nor_does_what_hides_behind_it() -> None:
    async def main() -> None:
        seen: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                head, body = await read_request(reader)
                seen.append(head.split(b" ")[1] + b" " + body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        async with raw_upstream(answer) as upstream, stage(upstream) as on:
            prefix = b"%b/up/v1/" % on.prefix
            for codings, lengths, minor in over_sockets():
                decision = request_decision(codings, lengths, minor)
                body = BODIES[decision] if isinstance(decision, str) else BODIES["chunked"]
                lines = [b"POST %bfirst HTTP/1.%d" % (prefix, minor), b"Host: x", *fields(codings, lengths, minor)]
                raw = b"\r\n".join(lines) + b"\r\n\r\n" + body
                raw += b"GET %bnext HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % prefix
                seen.clear()
                answered = await on.raw(raw)
                if isinstance(decision, int):
                    assert (answered.split(b" ")[1], seen) == (b"%d" % decision, []), lines
                    assert answered.count(b"HTTP/1.1 ") == 1
                else:
                    assert seen == [b"/v1/first " + body, b"/v1/next "], lines

    run(main())


def test_an_answer_whose_end_is_in_doubt_is_a_broken_one() -> None:
    async def main() -> None:
        script: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(script[0])
            if b"close" not in script:
                await reader.read(1)  # a kept connection is asked nothing more within this test

        async with raw_upstream(answer) as upstream:
            for codings, lengths, minor in over_sockets():
                decision = answer_decision(codings, lengths, minor)
                body = BODIES[decision] if isinstance(decision, str) else BODIES["chunked"]
                head = b"\r\n".join([b"HTTP/1.%d 200 OK" % minor, *fields(codings, lengths, minor)])
                script[:] = [head + b"\r\n\r\n" + body, *([b"close"] if decision == "close" else [])]
                async with stage(upstream) as on:
                    raw = await on.raw(
                        b"GET %b/up/v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % on.prefix
                    )
                if isinstance(decision, int):
                    assert raw.startswith(b"HTTP/1.1 %d " % decision), head
                else:
                    assert by_h11(raw, client=True) == (b"hello" if body else b"", b""), (head, raw)

    run(main())


CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (b"200 OK\r\nContent-Length: 5\r\n\r\nhello", 1),
        (b"200 OK\r\n%b\r\n%b" % (CHUNKED, BODIES["chunked"]), 1),
        (b"204 No Content\r\n\r\n", 1),
        (b"200 OK\r\nContent-Length: 5\r\n%b\r\n%b" % (CHUNKED, BODIES["chunked"]), 2),
        (b"204 No Content\r\nContent-Length: 5\r\n\r\n", 2),
        (b"204 No Content\r\n%b\r\n" % CHUNKED, 2),
    ],
)
def test_only_an_answer_that_ends_for_every_reader_leaves_its_connection_for_another(
    answer: bytes, connections: int
) -> None:
    async def main() -> int:
        opened = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal opened
            opened += 1
            while True:
                await read_request(reader)
                writer.write(b"HTTP/1.1 " + answer)

        async with raw_upstream(serve) as upstream, stage(upstream) as on:
            for _ in range(2):
                assert (await on.call("/v1/models", method="GET")).status == int(answer[:3])
        return opened

    assert run(main()) == connections


@pytest.mark.parametrize("extra", [[b"Content-Length: 5"], [b"Transfer-Encoding: chunked"]])
def test_an_upgrade_that_announces_a_body_is_refused_and_its_bytes_go_nowhere(extra: list[bytes]) -> None:
    async def main() -> tuple[bytes, list[bytes], list[str]]:
        seen: list[bytes] = []

        async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            seen.append(await reader.read())

        async with raw_upstream(switch) as upstream, stage(upstream) as on:
            lines = [b"GET %b/up/v1/responses HTTP/1.1" % on.prefix, b"Host: x", b"Upgrade: websocket", *extra]
            raw = b"\r\n".join([*lines, b"Connection: Upgrade", b"", b""]) + b"5\r\nhello\r\n0\r\n\r\n"
            answered = await on.raw(raw)
            return answered, seen, [event.code for event in on.record.of(ModelDenied)]

    answered, seen, codes = run(main())
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert (seen, codes) == ([], ["upgrade_with_body"])


async def interim(writer: asyncio.StreamWriter, count: int, pause: float) -> None:
    for _ in range(count):
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(pause)


@pytest.mark.parametrize(("count", "status"), [(MAX_INTERIM, 200), (MAX_INTERIM + 1, 502)])
def test_so_many_interim_answers_are_passed_and_not_one_more(count: int, status: int) -> None:
    async def main() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            await interim(writer, count, 0)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        async with raw_upstream(answer) as upstream, stage(upstream) as on:
            lines = [b"GET %b/up/v1/models HTTP/1.1" % on.prefix, b"Host: x", b"Connection: close", b"", b""]
            return await on.raw(b"\r\n".join(lines))

    answered = run(main())
    assert answered.count(b"HTTP/1.1 102 ") == MAX_INTERIM
    assert answered.count(b"HTTP/1.1 %d " % status) == 1


def test_interim_answers_after_the_first_second_are_silence_and_end_the_call_as_a_timeout() -> None:
    """One each 0.2 s for ever, with 1.5 s of silence allowed: none of them is 0.3 s from the one before."""

    async def main() -> tuple[int, list[str], float]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            await interim(writer, 10_000, 0.2)

        loop = asyncio.get_running_loop()
        async with raw_upstream(answer) as upstream, stage(upstream, limits=Limits(silence=1.5)) as on:
            since = loop.time()
            answered = await on.call("/v1/chat/completions", b'{"model":"m","messages":[]}')
            return answered.status, [event.reason for event in on.record.of(ModelError)], loop.time() - since

    status, reasons, seconds = run(main())
    assert reasons == ["timeout"], status
    assert 1.4 < seconds < 6


def test_interim_answers_of_the_first_second_are_signs_of_life() -> None:
    async def main() -> int:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            await interim(writer, 6, 0.15)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

        async with raw_upstream(answer) as upstream, stage(upstream, limits=Limits(silence=0.5)) as on:
            raw = await on.raw(b"GET %b/up/v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % on.prefix)
            return raw.count(b"HTTP/1.1 200 ")

    assert run(main()) == 1
