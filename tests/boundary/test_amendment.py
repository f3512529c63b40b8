"""The two amendments over real sockets: a missing version segment, and usage asked for and kept from the client."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.boundary import Answered, Record, run, stage
from tests.kit.calls import call_of
from tests.providers.fixtures import cut

from docket.ledger.events import Forwarded
from docket.providers.amendment import UsageFrameRemover, asking_for_usage
from docket.sim.answers import Step
from docket.sim.upstream import Script, ScriptedProvider

Sent = list[tuple[str, bytes]]
STREAMED = b'{"model": "gpt-4o", "stream": true, "messages": []}'
JSON = (("Content-Type", "application/json"),)


def through(
    family: str,
    calls: Sequence[tuple[str, bytes]],
    *,
    base: str = "",
    steps: Sequence[Step] = (Step(times=0),),
    **settings: object,
) -> tuple[list[Answered], Sent, Record]:
    """Answers of calls through a boundary, what reached the provider, and the record."""

    async def main() -> tuple[list[Answered], Sent, Record]:
        provider = ScriptedProvider(Script(steps))
        url = await provider.start()
        try:
            async with stage(url + base, family=family, **settings) as on:
                answers = [await on.call(path, body, headers=JSON) for path, body in calls]
                return answers, [(seen.target, seen.body) for seen in provider.seen], on.record
        finally:
            await provider.close()

    return run(main())


@pytest.mark.parametrize(
    ("family", "path", "arrives"),
    [
        ("anthropic", "/messages?beta=true", "/v1/messages?beta=true"),
        ("anthropic", "/v1/messages", "/v1/messages"),
        ("anthropic", "/messages/count_tokens", "/v1/messages/count_tokens"),
        ("gemini", "/models/gemini-2.5-pro:generateContent", "/v1beta/models/gemini-2.5-pro:generateContent"),
        ("gemini", "/v1/models/gemini-2.5-pro:generateContent", "/v1/models/gemini-2.5-pro:generateContent"),
        ("gemini", "/models/m%3AgenerateContent?key=k", "/v1beta/models/m%3AgenerateContent?key=k"),
        ("openai", "/chat/completions", "/chat/completions"),
    ],
)
def test_a_missing_version_is_added_where_the_provider_needs_one(family: str, path: str, arrives: str) -> None:
    answers, sent, record = through(family, [(path, b'{"model": "m", "max_tokens": 5, "messages": []}')])
    assert answers[0].status == 200
    assert sent[0][0] == arrives
    private = (record.requests() or record.of(Forwarded))[0].private
    assert ("amended_target" in private) is (arrives != path)
    if record.requests():
        assert record.requests()[0].amended is (True if arrives != path else None)


def test_usage_is_asked_for_and_the_frame_kept_from_a_client_that_did_not_ask() -> None:
    answers, sent, record = through("openai", [("/v1/chat/completions", STREAMED)], request_stream_usage=True)
    assert json.loads(sent[0][1])["stream_options"] == {"include_usage": True}
    assert b'"choices":[]' not in answers[0].body.replace(b" ", b"")
    assert answers[0].body.rstrip().endswith(b"[DONE]")
    end = record.ends()[0]
    assert end.usage is not None
    assert end.usage.source == "reported"
    request = record.requests()[0]
    assert request.amended is True
    assert request.private["request_sha256"] != request.private["amended_sha256"]


@pytest.mark.parametrize("said", [b'"include_usage": false', b'"include_usage": true', b""])
def test_a_request_that_says_anything_about_usage_is_left_alone(said: bytes) -> None:
    body = STREAMED[:-1] + b', "stream_options": {' + said + b"}}"
    answers, sent, record = through("openai", [("/v1/chat/completions", body)], request_stream_usage=True)
    assert sent[0][1] == body
    assert record.requests()[0].amended is None
    assert (b'"choices":[]' in answers[0].body.replace(b" ", b"")) is (b"true" in said)


def test_without_the_key_nothing_is_amended() -> None:
    _, sent, record = through("openai", [("/v1/chat/completions", STREAMED)])
    assert sent[0][1] == STREAMED
    assert record.requests()[0].amended is None


FRAME = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"\\n\\n"}}],"usage":null}\n\n'
AZURE = b'data: {"choices":[],"prompt_filter_results":[],"usage":null}\r\n\r\n'


@given(st.lists(st.sampled_from([CHUNK, AZURE, b": ping\n\n"]), max_size=5), st.data())
def test_exactly_the_usage_frame_goes_however_the_stream_is_cut(before: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(before) + FRAME + b"data: [DONE]\n\n"
    at = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=10)))
    remover = UsageFrameRemover()
    passed = b"".join(map(remover.feed, cut(stream, at))) + remover.rest()
    assert passed == b"".join(before) + b"data: [DONE]\n\n"


def test_a_stream_without_such_a_frame_passes_byte_for_byte() -> None:
    stream = CHUNK + AZURE + b"data: [DONE]"
    remover = UsageFrameRemover()
    assert remover.feed(stream) + remover.rest() == stream


def test_a_call_that_is_no_stream_is_never_amended() -> None:
    from docket.providers import registry

    for path, body in (("/v1/chat/completions", b'{"model": "m"}'), ("/v1/responses", STREAMED)):
        endpoint = registry.recognise("openai", "POST", path)
        call = call_of(endpoint, body, path)
        assert asking_for_usage(call, body) is None
