"""The boundary over real sockets: routes, refusals, faults of either side."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest

from docket.boundary.http1.upstream import Limits
from docket.control.decision import Refused
from docket.ledger.events import Forwarded, ModelDenied, Note, Unauthorized
from docket.sim.answers import Step
from docket.sim.upstream import Script, ScriptedProvider
from kit.boundary import OpenAdmission, Record, parse, raw_upstream, read_request, run, stage

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()  # noqa: TID251 (a client's own)
STREAM = json.dumps({"model": "m", "stream": True, "messages": []}).encode()  # noqa: TID251 (a client's own)


def test_a_call_is_carried_metered_and_recorded() -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(text="one two", input_tokens=7, times=0),)))
        url = await provider.start()
        async with stage(url + "/v1") as on:
            answer = await on.call("/v1/chat/completions", CHAT)
            assert answer.status == 200
            assert json.loads(answer.body)["usage"]["prompt_tokens"] == 7
            (end,) = on.record.ends()
            assert end.reason == "complete"
            assert {item.kind: item.quantity for item in end.usage.items} == {"input": 7, "output": 2}
            assert end.bytes == len(answer.body)
        await provider.close()

    run(play())


@pytest.mark.parametrize(
    "target", ["/", "/v1/chat/completions", "/r/wrong/up/v1/models", "/r/", "/r/wrong", "/docket/x"]
)
def test_without_the_token_there_is_a_plain_403(target: str) -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            answer = await on.raw(f"POST {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
            assert on.record.of(Unauthorized)[0].count == 1

    run(play())


def test_repeats_without_the_token_are_summed() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            for _ in range(5):
                await on.raw(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert [event.count for event in on.record.of(Unauthorized)] == [1, 4]

    run(play())


def test_a_websocket_upgrade_gets_426_at_once() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            upgrade = (("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"))
            answer = await on.call("/v1/responses", method="GET", headers=upgrade)
            assert answer.status == 426
            assert json.loads(answer.body)["error"]["docket"]["code"] == "websocket_unsupported"
            assert on.record.of(ModelDenied)[0].code == "websocket_unsupported"

    run(play())


def test_a_final_refusal_says_so_to_programs_and_people() -> None:
    async def play() -> None:
        refused = Refused(code="max_usd", message="docket: cap max_usd reached", limit="1", observed="1.01")
        async with stage("http://127.0.0.1:9", admission=OpenAdmission(lambda _call: refused)) as on:
            answer = await on.call("/v1/chat/completions", CHAT)
            error = json.loads(answer.body)["error"]
            assert (answer.status, answer.header("x-should-retry")) == (400, ["false"])
            assert (error["type"], error["code"]) == ("docket_policy_denied", "max_usd")
            assert error["docket"]["limit"] == "1"

    run(play())


@pytest.mark.parametrize(
    ("fault", "status", "reason"), [("reset", 502, "truncated"), ("close", 502, "truncated"), ("hang", 504, "timeout")]
)
def test_an_upstream_without_a_head_is_told_apart(fault: str, status: int, reason: str) -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(fault=fault, times=0),)))
        url = await provider.start()
        async with stage(url, limits=Limits(silence=0.2)) as on:
            answer = await on.call("/v1/chat/completions", CHAT)
            assert answer.status == status
            assert json.loads(answer.body)["error"]["docket"]["code"] == reason
            assert [end.reason for end in on.record.ends()] == [reason]
        await provider.close()

    run(play())


def test_a_refused_connection_and_an_unknown_name_are_502() -> None:
    async def play() -> None:
        for url in ("http://127.0.0.1:9", "http://nowhere.invalid"):
            async with stage(url) as on:
                assert (await on.call("/v1/chat/completions", CHAT)).status == 502
                assert [end.reason for end in on.record.ends()] == ["connect"]

    run(play())


@pytest.mark.parametrize("body", [CHAT, STREAM])
def test_a_cut_answer_has_no_clean_end(body: bytes) -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(fault="cut", text="a b c d e f g h", times=0),)))
        url = await provider.start()
        async with stage(url) as on:
            reader, writer = await on.connect()
            head = f"POST /r/{on.boundary.token}/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readuntil(b"0\r\n\r\n" if body is STREAM else b"}}}}")
            assert [end.reason for end in on.record.ends()] == ["truncated"]
            writer.close()
        await provider.close()

    run(play())


def test_a_client_that_leaves_closes_the_upstream_at_once() -> None:
    async def play() -> None:
        arrived, closed = asyncio.Event(), asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            arrived.set()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            closed.set()

        async with raw_upstream(slow) as url, stage(url) as on:
            _, writer = await on.connect()
            head = f"POST /r/{on.boundary.token}/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT)
            await arrived.wait()
            writer.close()
            await closed.wait()
            await on.record.until(Record.ends)
            (end,) = on.record.ends()
            assert (end.reason, end.usage.source) == ("client-gone", "none")

    run(play())


def test_what_is_no_model_call_is_forwarded_and_recorded_as_that() -> None:
    async def play() -> None:
        provider = ScriptedProvider()
        url = await provider.start()
        async with stage(url, family="anthropic") as on:
            assert (await on.call("/v1/models?limit=3&key=SENTINEL", method="GET")).status == 200
            counted = await on.call("/v1/messages/count_tokens?beta=true", b'{"model": "m", "messages": []}')
            assert json.loads(counted.body)["input_tokens"] > 0
            assert not on.record.requests()
            events = on.record.of(Forwarded)
            assert [event.endpoint_class for event in events] == ["free", "free"]
            assert events[0].private["target"] == "/v1/models?limit=3&key=[redacted]"
            assert provider.seen[0].target == "/v1/models?limit=3&key=SENTINEL"
        await provider.close()

    run(play())


@pytest.mark.parametrize(
    ("path", "body", "cap", "unmetered", "status", "calls"),
    [
        ("/v1/images/generations", b'{"model": "m"}', True, False, 400, 0),
        ("/v1/images/generations", b'{"model": "m"}', True, True, 200, 1),
        ("/v1/images/generations", b'{"model": "m"}', False, False, 200, 1),
        ("/v1/novelty", b'{"model": "m"}', True, False, 400, 0),
        ("/v1/novelty", b'{"thing": "m"}', True, False, 400, 0),
        ("/v1/novelty", b"not json", True, False, 400, 0),
        ("/v1/novelty", b"not json", True, True, 200, 1),
        ("/v1/novelty", b'{"model": "m"}', False, False, 200, 1),
    ],
)
def test_endpoints_that_cannot_be_metered(
    path: str, body: bytes, cap: bool, unmetered: bool, status: int, calls: int
) -> None:
    async def play() -> None:
        provider = ScriptedProvider()
        url = await provider.start()
        async with stage(url, usd_cap=cap, unmetered=unmetered) as on:
            answer = await on.call(path, body)
            assert answer.status == status
            assert len(on.record.requests()) == calls
            assert [end.usage.source for end in on.record.ends()] == ["none"] * calls
            code = "unknown_endpoint" if "novelty" in path else "unmetered_endpoint"
            assert [event.code for event in on.record.of(ModelDenied)] == [code] * (1 - calls)
            if not calls:
                assert b'unmetered = \\"forward\\"' in answer.body, "the way out"
        await provider.close()

    run(play())


def test_the_agent_can_assert_events() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            said = await on.call("/events", b'{"type": "note", "text": "thinking"}', upstream="docket")
            assert said.status == 200
            (note,) = on.record.of(Note)
            assert (note.by, note.private) == ("agent", {"said": {"text": "thinking"}})
            for wrong in (b"[", b"[]", b'{"type": "model.response"}', b'{"type": ["note"]}', b"x" * 70000):
                assert (await on.call("/events", wrong, upstream="docket")).status == 400
            assert len(on.record.events) == 1

    run(play())


def test_draining_waits_for_a_call_and_closing_ends_the_others() -> None:
    async def play() -> None:
        release = asyncio.Event()

        async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            await release.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await reader.read()

        async with raw_upstream(waits) as url, stage(url) as on:
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(on.call("/v1/chat/completions", CHAT))
                await on.record.until(Record.requests)
                await on.boundary.drain(0.05)
                assert not first.done()
                release.set()
                assert (await first).status == 200
            with pytest.raises(ConnectionError):
                await on.connect()

    run(play())


def test_calls_under_way_when_the_boundary_closes_get_their_end() -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(fault="hang", times=0),)))
        url = await provider.start()
        async with stage(url) as on:
            _, writer = await on.connect()
            head = f"POST /r/{on.boundary.token}/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT)
            await on.record.until(Record.requests)
            await on.boundary.close()
            assert on.record.calls_ended_once()
            writer.close()
        await provider.close()

    run(play())


def test_what_had_arrived_when_the_boundary_closed_is_on_the_record() -> None:
    async def play() -> None:
        async def halting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
            await reader.read()

        writers: list[asyncio.StreamWriter] = []
        async with raw_upstream(halting) as url, stage(url) as on:
            for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models")):
                reader, writer = await on.connect()
                head = f"{method} /r/{on.boundary.token}/up{path} HTTP/1.1\r\nHost: x\r\n"
                writer.write(head.encode() + (b"Content-Length: 2\r\n\r\n{}" if method == "POST" else b"\r\n"))
                await reader.readuntil(b"{")
                writers.append(writer)
            await on.boundary.close()
            for writer in writers:
                writer.close()
            (call,) = on.record.ends()
            assert (call.reason, call.status, call.bytes) == ("client-gone", 200, 1)
            (passed,) = on.record.of(Forwarded)
            assert (passed.reason, passed.status, passed.endpoint_class) == ("client-gone", 200, "free")

    run(play())


def test_a_websocket_after_the_end_of_the_run_is_refused_as_such() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            on.boundary.end_run()
            answered = await on.call("/v1/responses", method="GET", headers=(("Upgrade", "websocket"),))
            assert answered.status == 400
            assert [event.code for event in on.record.of(ModelDenied)] == ["run_ended"]

    run(play())


def test_answers_under_way_can_be_cut_and_are_recorded_as_truncated() -> None:
    async def play() -> None:
        provider = ScriptedProvider(Script((Step(text="a b c d e f", pace_ms=300, times=0),)))
        url = await provider.start()
        async with stage(url) as on:
            reader, writer = await on.connect()
            head = f"POST /r/{on.boundary.token}/up/v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM)
            await reader.readuntil(b"data: ")
            on.under_way.cut("cut by docket: a cap was reached")
            assert not (await reader.read()).endswith(b"0\r\n\r\n")
            (end,) = on.record.ends()
            assert (end.reason, end.private["detail"]) == ("truncated", "cut by docket: a cap was reached")
            writer.close()
        await provider.close()

    run(play())


def test_asserted_events_have_a_pace() -> None:
    async def play() -> None:
        async with stage("http://127.0.0.1:9") as on:
            reader, writer = await on.connect()
            body = b'{"type": "note"}'
            head = f"POST /r/{on.boundary.token}/docket/events HTTP/1.1\r\nHost: x\r\n".encode()
            one = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
            writer.write(one * 260)
            statuses = []
            for _ in range(260):
                answer = await reader.readuntil(b"\r\n\r\n")
                length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                await reader.readexactly(length)
                statuses.append(int(answer.split(b" ")[1]))
            assert statuses[:200] == [200] * 200
            assert 429 in statuses
            assert len(on.record.of(Note)) == statuses.count(200)
            writer.close()

    run(play())


def test_connect_to_the_boundary_itself_leads_back_to_it() -> None:
    async def play() -> None:
        provider = ScriptedProvider()
        url = await provider.start()
        async with stage(url) as on:
            here = b"127.0.0.1:%d" % on.boundary.port
            reader, writer = await on.connect()
            writer.write(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (here, here))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            writer.write(b"GET %b/up/v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % on.prefix)
            assert parse(await reader.read()).status == 200
            writer.close()
            refused = await on.raw(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert refused.startswith(b"HTTP/1.1 403")
        await provider.close()

    run(play())
