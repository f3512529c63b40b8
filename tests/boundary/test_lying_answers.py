"""Answers of providers that contradict themselves, hide something, or are not what they are called, over real sockets.

Each row has its verdict: what the record says of the usage, and what the cap was charged. Invariants: what is not known
is never exact; the cap is charged at least what is known, and the hold where more may have been billed.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections import defaultdict
from typing import Any

import pytest
from tests.pricing.toy import toy_document

from docket.boundary.call.admission import QueuedAdmission
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.ledger.events import ModelError, ModelResponse
from docket.policy.parse import parse
from docket.pricing.table import PriceTable
from kit.boundary import raw_upstream, read_request, run, stage

SSE = b"text/event-stream"
JSON = b"application/json"
MODEL = "acme-chat-1"


def sent(document: object) -> bytes:
    return json.dumps(document).encode()  # noqa: TID251 a provider's own


def answer(body: bytes, media: bytes = JSON, *more: bytes, length: int | None = None) -> bytes:
    size = b"Content-Length: %d" % (len(body) if length is None else length)
    return b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Type: " + media, size, *more, b"", b""]) + body


def used(into: object = 100, out: object = 20, **more: object) -> dict[str, object]:
    total = into + out if isinstance(into, int | float) and isinstance(out, int | float) else 120
    return {"prompt_tokens": into, "completion_tokens": out, "total_tokens": total, **more}


def chat(usage: object, **more: object) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
    return {"id": "c", "model": MODEL, "choices": [choice], "usage": usage, **more}


def events(*found: object, done: bool = True) -> bytes:
    lines = [b"data: %b\n\n" % (each if isinstance(each, bytes) else sent(each)) for each in found]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def delta(text: str | None, **more: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": None if text else "stop"}
    return {"id": "c", "model": MODEL, "choices": [choice], **more}


def last(*usage: int) -> dict[str, Any]:
    return {"id": "c", "model": MODEL, "choices": [], "usage": used(*usage)}


HI, STOP = delta("hi"), delta(None)
WHOLE = sent(chat(used()))
PACKED = gzip.compress(WHOLE, mtime=0)
BOMB = gzip.compress(WHOLE[:-1] + b" " * (40 << 20) + b"}", mtime=0)
GZIP = b"Content-Encoding: gzip"
CHAT = {
    "an honest one": (answer(WHOLE), "reported 100/20 complete, bill"),
    "an honest stream": (answer(events(HI, STOP, last(100, 20)), SSE), "reported 100/20 complete, bill"),
    "a total below the sum": (
        answer(sent(chat(used() | {"total_tokens": 50}))),
        "reported 100/20 contradicts complete, bill",
    ),
    "a total above the sum": (
        answer(sent(chat(used() | {"total_tokens": 500}))),
        "partial 100/20 contradicts unread total_tokens complete, hold",
    ),
    "more from the cache than came in": (
        answer(sent(chat(used(prompt_tokens_details={"cached_tokens": 400})))),
        "reported 0/20 contradicts complete, bill",
    ),
    "content, and zeros": (answer(sent(chat(used(0, 0)))), "partial 0/0 complete, estimate"),
    "content, and no output": (answer(sent(chat(used(100, 0)))), "partial 100/0 complete, estimate"),
    "a count below zero": (answer(sent(chat(used(-100)))), "none contradicts complete, estimate"),
    "a fraction of a token": (answer(sent(chat(used(100.5)))), "none contradicts complete, estimate"),
    "a count as text": (answer(sent(chat(used("100")))), "none contradicts complete, estimate"),
    "a count that is true": (answer(sent(chat(used(True)))), "none contradicts complete, estimate"),
    "a count beyond all measure": (answer(sent(chat(used(10**15)))), "none contradicts complete, estimate"),
    "a count that is infinite": (answer(WHOLE.replace(b": 100,", b": 1e400,")), "none unterminated, estimate"),
    "a count that is not a number": (answer(WHOLE.replace(b": 100,", b": NaN,")), "none unterminated, estimate"),
    "a member that nobody knows": (
        answer(sent(chat(used(oracle_tokens=7)))),
        "partial 100/20 unread oracle_tokens complete, hold",
    ),
    "one inside a breakdown": (
        answer(sent(chat(used(completion_tokens_details={"dream_tokens": 7})))),
        "partial 100/20 unread completion_tokens_details.dream_tokens complete, hold",
    ),
    "one that is zero": (answer(sent(chat(used(oracle_tokens=0)))), "reported 100/20 complete, bill"),
    "no usage": (answer(sent(chat(None))), "none complete, estimate"),
    "a usage that is a list": (answer(sent(chat([used()]))), "none complete, estimate"),
    "two usages, the smaller last": (
        answer(WHOLE[:-1] + b',"usage":%b}' % sent(used(1, 1))),
        "partial 100/20 unread usage complete, hold",
    ),
    "two usages, the larger last": (
        answer(sent(chat(used(1, 1)))[:-1] + b',"usage":%b}' % sent(used())),
        "partial 100/20 unread usage complete, hold",
    ),
    "a count twice": (
        answer(WHOLE.replace(b": 100,", b': 100, "prompt_tokens": 1,')),
        "partial 1/20 contradicts unread total_tokens complete, hold",
    ),
    "a model that has no price": (answer(sent(chat(used(), model="acme-cheap-9"))), "reported 100/20 complete, hold"),
    "an error beside a usage": (
        answer(sent(chat(used(), error={"type": "server_error"}))),
        "partial 100/20 error-event, hold",
    ),
    "an error called 200": (answer(sent({"error": {"type": "server_error"}})), "none error-event, hold"),
    "an array of answers": (answer(b"[" + WHOLE + b"]"), "none unterminated, estimate"),
    "two answers in one body": (answer(WHOLE + WHOLE), "none unterminated, estimate"),
    "a byte order mark": (answer(b"\xef\xbb\xbf" + WHOLE), "none unterminated, estimate"),
    "a depth that no reader takes": (answer(b'{"a":' * 5000 + b"1" + b"}" * 5000), "none unterminated, hold"),
    "a page": (answer(b"<html>hello</html>", b"text/html"), "none unterminated, estimate"),
    "nothing at all": (answer(b""), "none unterminated, estimate"),
    "a stream called JSON": (answer(events(HI, STOP, last(100, 20))), "reported 100/20 complete, bill"),
    "JSON called a stream": (answer(WHOLE, SSE), "none unterminated, estimate"),
    "JSON called an image": (answer(WHOLE, b"image/png"), "reported 100/20 complete, bill"),
    "JSON called gzip": (answer(WHOLE, JSON, GZIP), "none complete, estimate"),
    "gzip called JSON": (answer(PACKED), "none unterminated, estimate"),
    "gzip without its end": (answer(PACKED[:-12], JSON, GZIP), "none unterminated, estimate"),
    "deflate called gzip": (answer(zlib.compress(WHOLE), JSON, GZIP), "none complete, estimate"),
    "a coding that nobody knows": (answer(WHOLE, JSON, b"Content-Encoding: rot13"), "none complete, estimate"),
    "40 MiB in 40 KiB": (answer(BOMB, JSON, GZIP), "none complete, hold"),
    "an answer that breaks off": (answer(WHOLE[:-10], length=len(WHOLE)), "none truncated, hold"),
    "JSON that breaks off in a whole body": (answer(WHOLE[:-10]), "none unterminated, estimate"),
    "a stream that breaks off": (answer(events(HI, done=False), SSE, length=9999), "none truncated, hold"),
    "a stream without an end": (
        answer(events(HI, STOP, last(100, 20), done=False), SSE),
        "reported 100/20 complete, bill",
    ),
    "a stream without usage": (answer(events(HI, STOP), SSE), "none complete, estimate"),
    "a stream whose totals fall": (
        answer(events(delta("hi", usage=used()), STOP, last(10, 2)), SSE),
        "partial 100/20 contradicts complete, estimate",
    ),
    "a stream that ends in zeros": (
        answer(events(delta("hi", usage=used()), STOP, last(0, 0)), SSE),
        "partial 100/20 contradicts complete, estimate",
    ),
    "a stream whose totals grow": (
        answer(events(HI, last(100, 1), STOP, last(100, 20)), SSE),
        "reported 100/20 complete, bill",
    ),
    "usage behind the end of a stream": (
        answer(events(HI, STOP, last(100, 20)) + events(last(900, 20)), SSE),
        "reported 900/20 complete, bill",
    ),
    "a stream whose usage comes before its content": (
        answer(events(last(100, 0), HI, STOP), SSE),
        "partial 100/0 complete, estimate",
    ),
    "an event that breaks off in its usage": (
        answer(events(HI, b'{"usage": {"prompt_tokens": 900,', STOP, last(100, 20)), SSE),
        "partial 100/20 unread usage complete, hold",
    ),
    "an error in the middle of a stream": (
        answer(events(HI, {"error": {"type": "server_error"}}), SSE),
        "none error-event, hold",
    ),
    "interim answers": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 9 + answer(WHOLE), "reported 100/20 complete, bill"),
    "interim answers without end": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 5000 + answer(WHOLE), "none truncated, hold"),
    "another protocol, unasked": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + answer(WHOLE), "none truncated, hold"),
}


def message(usage: object, **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": "hello"}]
    return {
        "type": "message",
        "id": "m",
        "model": MODEL,
        "content": content,
        "stop_reason": "end_turn",
        "usage": usage,
    } | more


def tokens(into: int = 100, out: int = 20, **more: object) -> dict[str, Any]:
    return {"input_tokens": into, "output_tokens": out, **more}


def named(*found: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (each["type"].encode(), sent(each)) for each in found)


START = {"type": "message_start", "message": message(tokens(100, 1), content=[], stop_reason=None)}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}
END = {"type": "message_stop"}


def grown(**usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


MESSAGES = {
    "an honest message": (answer(sent(message(tokens()))), "reported 100/20 complete, bill"),
    "a message of zeros": (answer(sent(message(tokens(0, 0)))), "partial 0/0 complete, estimate"),
    "a tool that nobody knows": (
        answer(sent(message(tokens(server_tool_use={"mind_reads": 3})))),
        "partial 100/20 unread server_tool_use.mind_reads complete, hold",
    ),
    "a tier that nobody knows": (
        answer(sent(message(tokens(service_tier="platinum")))),
        "reported 100/20 complete, hold",
    ),
    "a message with two usages": (
        answer(sent(message(tokens()))[:-1] + b',"usage":%b}' % sent(tokens(1, 1))),
        "partial 100/20 unread usage complete, hold",
    ),
    "output that falls": (answer(named(START, TEXT, grown(output_tokens=20), grown(output_tokens=5), END), SSE),
        "partial 100/20 contradicts complete, estimate"),
    "zeros at the end": (answer(named(START, TEXT, grown(input_tokens=0, output_tokens=0), END), SSE),
        "partial 100/1 contradicts complete, estimate"),
    "two starts": (answer(named(START, START, TEXT, grown(output_tokens=20), END), SSE),
        "partial 100/20 contradicts complete, estimate"),
    "no start": (answer(named(TEXT, grown(output_tokens=20), END), SSE), "partial 0/20 complete, estimate"),
    "an error after content": (answer(named(START, TEXT, {"type": "error", "error": {"type": "overloaded"}}), SSE),
        "partial 100/1 error-event, hold"),
}  # fmt: skip


def response(usage: object, **more: object) -> dict[str, Any]:
    said = {"type": "message", "content": [{"type": "output_text", "text": "hello"}]}
    whole = {"id": "r", "object": "response", "status": "completed", "model": MODEL, "output": [said], "usage": usage}
    return whole | more


def counted(into: int = 100, out: int = 20, **more: object) -> dict[str, Any]:
    return {"input_tokens": into, "output_tokens": out, "total_tokens": into + out, **more}


def completed(usage: object, **more: object) -> dict[str, Any]:
    return {"type": "response.completed", "response": response(usage, **more)}


BEGUN = {"type": "response.created", "response": response(None, status="in_progress", output=[])}
TWICE = sent(completed(counted()))[:-2] + b',"usage":%b}}' % sent(counted(1, 1))
RESPONSES = {
    "an honest response": (answer(sent(response(counted()))), "reported 100/20 complete, bill"),
    "a response of zeros": (answer(sent(response(counted(0, 0)))), "partial 0/0 complete, estimate"),
    "a response whose total holds more": (
        answer(sent(response(counted() | {"total_tokens": 999}))),
        "partial 100/20 contradicts unread total_tokens complete, hold",
    ),
    "a meter beside the usage": (
        answer(sent(response(counted(), tool_usage={"dream": {"minutes": 3}}))),
        "partial 100/20 unread tool_usage.dream.minutes complete, hold",
    ),
    "a response called complete without usage": (answer(named(BEGUN, completed(None)), SSE), "none complete, estimate"),
    "two ends, the smaller last": (
        answer(named(BEGUN, completed(counted()), completed(counted(1, 1))), SSE),
        "partial 100/20 contradicts complete, estimate",
    ),
    "an end that two readers read differently": (
        answer(named(BEGUN) + b"event: response.completed\ndata: %b\n\n" % TWICE, SSE),
        "partial 100/20 unread usage complete, hold",
    ),
}


def candidates(usage: dict[str, Any], finish: str | None = "STOP") -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": "hello"}]}, "finishReason": finish}
    return {"candidates": [candidate], "modelVersion": MODEL, "responseId": "g", "usageMetadata": usage}


def metadata(into: int = 100, out: int = 20, **more: object) -> dict[str, Any]:
    return {"promptTokenCount": into, "candidatesTokenCount": out, "totalTokenCount": into + out, **more}


GEMINI = {
    "an honest candidate": (answer(sent(candidates(metadata()))), "reported 100/20 complete, bill"),
    "a candidate of zeros": (answer(sent(candidates(metadata(0, 0)))), "partial 0/0 complete, estimate"),
    "a candidate whose total holds more": (
        answer(sent(candidates(metadata() | {"totalTokenCount": 999}))),
        "partial 100/20 contradicts unread totalTokenCount complete, hold",
    ),
    "a modality that nobody knows": (
        answer(sent(candidates(metadata(candidatesTokensDetails=[{"modality": "SMELL", "tokenCount": 9}])))),
        "partial 100/20 unread candidatesTokensDetails.SMELL complete, hold",
    ),
    "two candidates' usages": (
        answer(sent(candidates(metadata()))[:-1] + b',"usageMetadata":%b}' % sent(metadata(1, 1))),
        "partial 100/20 unread usage complete, hold",
    ),
    "counts that are no numbers": (
        answer(sent(candidates(metadata() | {"promptTokenCount": [100]}))),
        "none contradicts complete, estimate",
    ),
}


LIES = [
    *[("openai", "/v1/responses", name, *row) for name, row in RESPONSES.items()],
    *[("gemini", f"/v1beta/models/{MODEL}:generateContent", name, *row) for name, row in GEMINI.items()],
    *[("openai", "/v1/chat/completions", name, *row) for name, row in CHAT.items()],
    *[("anthropic", "/v1/messages", name, *row) for name, row in MESSAGES.items()],
]


LIMITS = defaultdict(lambda: "max_tokens", responses="max_output_tokens")
"""The member by which a request to an endpoint, called by the last part of its path, limits its answer."""


def told(raw: bytes, family: str, path: str) -> str:
    """What the record says of the answer ``raw``, and by what the cap was charged."""
    document = toy_document().replace(b'"acme"', f'"{family}"'.encode())
    gate = Gate(parse("[caps]\nmax_usd = 10\n", "docket.toml"), PriceTable.parse(document, at="2026-11-30"))
    body = sent({"model": MODEL, LIMITS[path.rpartition("/")[2]]: 1000})

    async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(raw)
        await writer.drain()
        writer.close()

    async def scene() -> str:
        admission = QueuedAdmission(gate, SystemClock())
        async with raw_upstream(provider) as url, stage(url, family=family, admission=admission, usd_cap=True) as on:  # type: ignore[arg-type]
            await on.call(path, body)
            (end,) = on.record.ends()
            (asked,) = on.record.requests()
        assert isinstance(end, ModelResponse | ModelError)
        assert end.usage is not None
        usage, booked = end.usage, gate.budget.booked_usd
        assert asked.hold.usd is not None
        figures: dict[str, int] = {"input": 0, "output": 0}
        figures |= {item.kind: item.quantity for item in usage.items}
        cost = usage.cost_usd
        assert booked.pico >= (cost.pico if cost is not None else 0), "what is known is charged"
        charged = "hold" if booked == asked.hold.usd else "bill" if usage.source == "reported" else "estimate"
        assert charged != "bill" or booked == cost
        words = [usage.source]
        words += [f"{figures['input']}/{figures['output']}"] if usage.items else []
        words += ["contradicts"] if usage.inconsistent else []
        words += ["unread", *usage.unread] if usage.unread else []
        return " ".join([*words, end.reason]) + f", {charged}"

    return run(scene())


def test_there_are_thirty_lies_and_more() -> None:
    assert len(LIES) >= 60


@pytest.mark.parametrize(("family", "path", "name", "raw", "verdict"), LIES, ids=[lie[2] for lie in LIES])
def test_each_lie_of_a_provider_has_its_verdict(family: str, path: str, name: str, raw: bytes, verdict: str) -> None:
    assert told(raw, family, path) == verdict
