"""Messages on the WebSocket that readers may take differently: refused under a cap, recorded as calls without one."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType
from hypothesis import example, given
from hypothesis import strategies as st
from tests.pricing.toy import toy_document

from docket.boundary.call.admission import QueuedAdmission
from docket.boundary.call.socket_messages import SPENDLESS, Kind, kind_of
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.ledger.events import ModelDenied, ModelError, ModelResponse
from docket.policy.parse import parse
from docket.pricing.table import PriceTable
from docket.primitives.frames import BINARY, CLOSE, CONTROL, TEXT, Message, MessageReader, encode_message
from kit.boundary import Record, Stage, raw_upstream, run, stage

CREATE = b'{"type":"response.create","model":"gpt-5","input":"hi"}'
DONE = (
    b'{"type":"response.completed","response":{"id":"r","object":"response","model":"gpt-5","status":"completed",'
    b'"output":[],"usage":{"input_tokens":100,"output_tokens":20,"total_tokens":120}}}'
)
UNREADABLE = {
    "BOM": (TEXT, b"\xef\xbb\xbf" + CREATE),
    "invalid UTF-8": (TEXT, CREATE.replace(b"hi", b"\xff")),
    "lone surrogate": (TEXT, CREATE.replace(b"hi", rb"\ud800")),
    "NaN": (TEXT, CREATE.replace(b'"hi"', b"NaN")),
    "Infinity": (TEXT, CREATE.replace(b'"hi"', b"-Infinity")),
    "array": (TEXT, b"[" + CREATE + b"]"),
    "two documents": (TEXT, CREATE + CREATE),
    "trailing comma": (TEXT, CREATE[:-1] + b",}"),
    "comment": (TEXT, b"/**/" + CREATE),
    "string": (TEXT, b'"response.create"'),
    "empty": (TEXT, b""),
    "type twice": (TEXT, b'{"type":"response.create","type":"response.cancel"}'),
    "type twice, escaped": (TEXT, rb'{"type":"response.cancel","\u0074ype":"response.create"}'),
    "type in other letters beside": (TEXT, b'{"type":"response.cancel","Type":"response.create"}'),
    "type in other letters": (TEXT, b'{"TYPE":"response.create"}'),
    "no type": (TEXT, b'{"model":"gpt-5","input":"hi"}'),
    "type no string": (TEXT, b'{"type":["response.create"]}'),
    "unknown type": (TEXT, b'{"type":"response.append","input":"hi"}'),
    "members inside": (TEXT, b'{"type":"response.create","response":{"model":"gpt-5"}}'),
    "deep": (TEXT, b'{"type":"response.cancel","a":' + b"[" * 2000 + b"]" * 2000 + b"}"),
    "binary": (BINARY, CREATE),
    "binary, no JSON": (BINARY, b"\x00\x01"),
}


@asynccontextmanager
async def provider(answers: Callable[[Message], list[bytes]]) -> AsyncIterator[tuple[str, list[Message]]]:
    """A WebSocket server that takes any bytes and sends what ``answers`` makes of them; its URL and what it got."""
    got: list[Message] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(
            line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")
        )
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        lines = [b"HTTP/1.1 101 Switching Protocols", b"Upgrade: websocket", b"Connection: Upgrade"]
        writer.write(b"\r\n".join([*lines, b"Sec-WebSocket-Accept: " + accept, b"", b""]))
        messages = MessageReader(2**26)
        while data := await reader.read(2**16):
            for message in messages.feed(data):
                if message.opcode == CLOSE:
                    writer.write(encode_message(CLOSE, message.payload))
                    return
                if message.opcode < CONTROL:
                    got.append(message)
                    for answer in answers(message):
                        writer.write(answer)

    async with raw_upstream(serve) as url:
        yield url, got


def completed(_message: Message) -> list[bytes]:
    return [encode_message(TEXT, DONE)]


def to_create(message: Message) -> list[bytes]:
    return completed(message) if b"create" in message.payload else []


@asynccontextmanager
async def connected(
    answers: Callable[[Message], list[bytes]] = completed, query: str = "", **staged: Any
) -> AsyncIterator[tuple[ClientWebSocketResponse, Stage, list[Message]]]:
    async with provider(answers) as (url, got), stage(url, **staged) as on, ClientSession() as session:
        address = f"http://127.0.0.1:{on.boundary.port}/r/{on.boundary.token}/up/v1/responses{query}"
        async with session.ws_connect(address, max_msg_size=0) as ws:
            yield ws, on, got


async def send(ws: ClientWebSocketResponse, opcode: int, payload: bytes) -> None:
    """Send any bytes as one message; the client's own methods take only text that is text."""
    await ws._writer.send_frame(payload, WSMsgType(opcode))


@pytest.mark.parametrize(("query", "reached"), [("", 1), ("?x=1", 1), ("?model=o9-pro", 0), ("?mod%65l=O9%2Dpro", 0)])
def test_a_denied_model_in_the_query_of_a_socket_is_refused_whatever_its_messages_name(
    query: str, reached: int
) -> None:
    async def main() -> tuple[int, list[str]]:
        gate = Gate(
            parse('[models]\ndeny = ["o9-*"]\n', "docket.toml"), PriceTable.parse(toy_document(), at="2026-11-30")
        )
        async with connected(query=query, admission=QueuedAdmission(gate, SystemClock())) as (ws, on, got):
            await send(ws, TEXT, CREATE)
            assert (await ws.receive(timeout=10)).type == WSMsgType.TEXT
            await ws.close()
            return len(got), [event.code for event in on.record.of(ModelDenied)]

    assert run(main()) == (reached, [] if reached else ["model_denied"])


@pytest.mark.parametrize("name", UNREADABLE)
def test_under_a_cap_what_cannot_be_read_as_one_known_thing_ends_the_socket(name: str) -> None:
    async def main() -> tuple[list[Message], Record]:
        async with connected(capped=True) as (ws, on, got):
            await send(ws, *UNREADABLE[name])
            closed = await ws.receive(timeout=10)
            assert (closed.type, closed.data) == (WSMsgType.CLOSE, 1008)
            assert "under a cap this message is refused" in str(closed.extra)
            return got, on.record

    got, record = run(main())
    assert got == []
    assert record.requests() == []
    assert [event.code for event in record.of(ModelDenied)] == ["unreadable_message"]


@pytest.mark.parametrize("name", UNREADABLE)
def test_without_a_cap_it_is_passed_on_unchanged_as_an_unknown_call_with_the_usage_of_its_answer(name: str) -> None:
    async def main() -> tuple[list[Message], Record]:
        async with connected() as (ws, on, got):
            await send(ws, *UNREADABLE[name])
            assert (await ws.receive(timeout=10)).data == DONE.decode()
            return got, on.record

    got, record = run(main())
    assert [(message.opcode, message.payload) for message in got] == [UNREADABLE[name]]
    assert [request.model for request in record.requests()] == ["unknown"]
    (end,) = record.of(ModelResponse)
    assert end.usage is not None
    assert {item.kind: item.quantity for item in end.usage.items} == {"input": 100, "output": 20}
    assert record.calls_ended_once()


@pytest.mark.parametrize("capped", [False, True])
def test_a_create_whose_type_is_escaped_is_the_call_that_it_is(capped: bool) -> None:
    async def main() -> Record:
        async with connected(capped=capped) as (ws, on, _):
            await send(ws, TEXT, CREATE.replace(b'"type":"response.create"', rb'"\u0074ype":"response\u002ecreate"'))
            await ws.receive(timeout=10)
            return on.record

    assert [request.model for request in run(main()).requests()] == ["gpt-5"]


def test_known_messages_that_ask_for_nothing_pass_under_a_cap_and_are_no_calls() -> None:
    async def main() -> tuple[int, Record]:
        async with connected(to_create, capped=True) as (
            ws,
            on,
            got,
        ):
            for kind in sorted(SPENDLESS):
                await ws.send_json({"type": kind, "response_id": "r"})
            await send(ws, TEXT, CREATE)
            await ws.receive(timeout=10)
            return len(got), on.record

    count, record = run(main())
    assert (count, len(record.requests())) == (len(SPENDLESS) + 1, 1)


def test_an_unknown_message_without_an_answer_does_not_hold_up_the_next_call() -> None:
    async def main() -> Record:
        async with connected(to_create) as (ws, on, _):
            await send(ws, BINARY, b"\x00")
            await send(ws, BINARY, b"\x01")
            await send(ws, TEXT, CREATE)
            await ws.receive(timeout=10)
            return on.record

    record = run(main())
    assert [event.reason for event in record.of(ModelError)] == ["truncated", "truncated"]
    assert len(record.of(ModelResponse)) == 1
    assert record.calls_ended_once()


def test_an_answer_that_nothing_asked_for_is_a_call_with_its_usage() -> None:
    async def main() -> Record:
        twice = [encode_message(TEXT, DONE)] * 2 + [encode_message(TEXT, b'{"type":"error","code":"x"}')]
        async with connected(lambda _message: twice) as (ws, on, _):
            await send(ws, TEXT, CREATE)
            for _ in range(3):
                await ws.receive(timeout=10)
            return on.record

    record = run(main())
    assert [request.model for request in record.requests()] == ["gpt-5", "unknown"]
    assert [end.usage is not None for end in record.of(ModelResponse)] == [True, True]


BROKEN = {
    "NaN": DONE.replace(b"100", b"NaN"),
    "BOM": b"\xef\xbb\xbf" + DONE,
    "invalid UTF-8": DONE.replace(b'"r"', b'"\xff"'),
    "lone surrogate": DONE.replace(b'"r"', rb'"\ud800"'),
    "array": b"[" + DONE + b"]",
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_an_event_that_cannot_be_read_is_passed_on_and_leaves_no_whole_figure(name: str, opcode: int) -> None:
    """It may have been the last one of its answer: the next call is not held up by it."""
    count = 0

    def answers(_message: Message) -> list[bytes]:
        nonlocal count
        count += 1
        started = DONE.replace(b"response.completed", b"response.created").replace(b'"completed"', b'"in_progress"')
        first = [encode_message(TEXT, started), encode_message(opcode, BROKEN[name])]
        return first if count == 1 else completed(_message)

    async def main() -> Record:
        async with connected(answers) as (ws, on, _):
            await send(ws, TEXT, CREATE)
            await ws.receive(timeout=10)
            await send(ws, TEXT, CREATE)
            await on.record.until(lambda record: len(record.ends()) == 2)
            return on.record

    record = run(main())
    (broken,) = record.of(ModelError)
    assert broken.usage is not None
    assert broken.usage.source == "partial"
    (whole,) = record.of(ModelResponse)
    assert whole.usage is not None
    assert whole.usage.source == "reported"


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_of_which_one_event_could_not_be_read_is_known_in_part(name: str) -> None:
    async def main() -> Record:
        answer = [encode_message(TEXT, BROKEN[name]), encode_message(TEXT, DONE)]
        async with connected(lambda _message: answer) as (ws, on, _):
            await send(ws, TEXT, CREATE)
            await on.record.until(lambda record: record.ends())
            return on.record

    (end,) = run(main()).of(ModelResponse)
    assert end.usage is not None
    assert end.usage.source == "partial"


def test_an_event_with_any_line_ends_between_its_members_is_read_whole() -> None:
    async def main() -> Record:
        spaced = DONE.replace(b",", b",\r\n").replace(b":", b":\r")
        async with connected(lambda _message: [encode_message(TEXT, spaced)]) as (ws, on, _):
            await send(ws, TEXT, CREATE)
            await ws.receive(timeout=10)
            return on.record

    (end,) = run(main()).of(ModelResponse)
    assert end.usage is not None
    assert end.usage.source == "reported"


# Readers that servers may use: each takes what it can, and gives what it takes for the type.
def _first_wins(payload: bytes) -> object:
    return json.loads(payload, object_pairs_hook=lambda pairs: dict(reversed(pairs)))


def _any_case(payload: bytes) -> object:
    return json.loads(payload, object_pairs_hook=lambda pairs: {name.casefold(): value for name, value in pairs})


READERS: tuple[Callable[[bytes], object], ...] = (
    json.loads,
    _first_wins,
    _any_case,
    lambda payload: json.loads(payload.decode("utf-8-sig", "replace")),
)
NAME = st.sampled_from(["type", "Type", "TYPE", "response", "model", "input", "tYpe", "a"])
VALUE = st.sampled_from(["response.create", "response.cancel", "response.processed", "x", None, 1, [], {}])


def written(members: list[tuple[str, object]], escape: bool, spaces: bytes, bom: bytes) -> bytes:
    def text(value: object) -> bytes:
        plain = json.dumps(value)  # noqa: TID251 - a client's spelling
        if escape and isinstance(value, str):
            plain = '"' + "".join(f"\\u{ord(letter):04x}" for letter in value) + '"'
        return plain.encode()

    return bom + b"{" + (b"," + spaces).join(text(name) + b":" + spaces + text(value) for name, value in members) + b"}"


@given(
    st.lists(st.tuples(NAME, VALUE), max_size=4),
    st.booleans(),
    st.sampled_from([b"", b" ", b"\r\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
@example([("type", "response.cancel"), ("Type", "response.create")], False, b"", b"")
def test_no_reader_takes_a_message_for_a_call_that_docket_takes_for_a_free_one(
    members: list[tuple[str, object]], escape: bool, spaces: bytes, bom: bytes
) -> None:
    payload = written(members, escape, spaces, bom)
    kind, why = kind_of(Message(TEXT, payload, b""))
    assert bool(why) == (kind is Kind.UNKNOWN)
    for read in READERS:
        try:
            document = read(payload)
        except ValueError:
            continue
        theirs = document.get("type") if isinstance(document, dict) else None
        if kind is Kind.SPENDLESS:
            assert theirs in SPENDLESS
        elif kind is Kind.CREATE:
            assert theirs == "response.create"


@given(st.binary(max_size=60), st.sampled_from([TEXT, BINARY]))
def test_no_bytes_are_taken_for_a_free_message_unless_they_say_so(payload: bytes, opcode: int) -> None:
    assert kind_of(Message(opcode, payload, b""))[0] is Kind.UNKNOWN
