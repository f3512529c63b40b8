"""Failed calls of agents tried again: what passes and nothing else, bounded, and never multiplied; with real SDKs."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import anthropic
import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.client.retry import (
    Allowance,
    Passing,
    Retry,
    aiohttp_middleware,
    failure_of,
    httpx_async_transport,
    httpx_transport,
)

try:
    import httpx2  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # older SDKs of Anthropic are built on httpx
    httpx2 = None

CHAT = b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[]}'
MESSAGE = (
    b'{"id":"1","type":"message","role":"assistant","model":"m","content":[],'
    b'"usage":{"input_tokens":1,"output_tokens":1}}'
)


def at_once(**members: Any) -> Retry:
    """A retry whose waits are no time."""
    return Retry(**{"base": 0.0, "allowance": Allowance(burst=1000), **members})


class Answers:
    """A provider that gives statuses in order, then 200."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                provider.bodies.append(self.rfile.read(int(self.headers.get("content-length", 0))))
                status = provider.statuses.pop(0) if provider.statuses else 200
                body = MESSAGE if self.path.endswith("messages") else CHAT
                if status != 200:
                    body = b'{"error":{"message":"no"}}'
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def provider() -> Iterator[Answers]:
    answers = Answers()
    yield answers
    answers.server.shutdown()
    answers.server.server_close()


def ask_openai(url: str, retry: Retry) -> Any:
    with httpx.Client(transport=httpx_transport(retry)) as client:
        sdk = openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, http_client=client)
        return sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])


def ask_anthropic(url: str, retry: Retry) -> Any:
    library = httpx2 or httpx
    with library.Client(transport=httpx_transport(retry, library=library)) as client:
        sdk = anthropic.Anthropic(api_key="k", base_url=url, max_retries=0, http_client=client)
        return sdk.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("ask", [ask_openai, ask_anthropic])
def test_an_official_sdk_gets_its_answer_after_what_passes(ask: Callable[[str, Retry], Any], provider: Answers):
    provider.statuses = [503, 429, 500]
    assert ask(provider.url, at_once()).model == "m"
    assert len(provider.bodies) == 4
    assert len(set(provider.bodies)) == 1


@pytest.mark.parametrize("ask", [ask_openai, ask_anthropic])
def test_the_last_refusal_is_the_sdks_own_error(ask: Callable[[str, Retry], Any], provider: Answers):
    provider.statuses = [503] * 9
    with pytest.raises((openai.InternalServerError, anthropic.APIStatusError)) as caught:
        ask(provider.url, at_once(attempts=3))
    assert caught.value.status_code == 503
    assert len(provider.bodies) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 422, 501, 504])
def test_what_does_not_pass_is_sent_once(status: int, provider: Answers):
    provider.statuses = [status]
    with pytest.raises(openai.APIStatusError):
        ask_openai(provider.url, at_once())
    assert len(provider.bodies) == 1


def test_the_asynchronous_sdk_and_aiohttp_do_the_same(provider: Answers):
    async def main() -> None:
        provider.statuses = [503]
        async with httpx.AsyncClient(transport=httpx_async_transport(at_once())) as client:
            sdk = openai.AsyncOpenAI(api_key="k", base_url=f"{provider.url}/v1", max_retries=0, http_client=client)
            answer = await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            assert answer.model == "m"
        provider.statuses = [503, 502]
        async with (
            aiohttp.ClientSession(middlewares=(aiohttp_middleware(at_once()),)) as session,
            session.post(f"{provider.url}/v1/x", data=b"body") as response,
        ):
            assert response.status == 200
        provider.statuses = [503] * 9
        async with (
            aiohttp.ClientSession(middlewares=(aiohttp_middleware(at_once(attempts=2)),)) as session,
            session.post(f"{provider.url}/v1/x", data=b"body") as response,
        ):
            assert response.status == 503
            assert b"no" in await response.read()

    asyncio.run(main())
    assert provider.bodies[-1] == b"body"
    assert len(provider.bodies) == 2 + 3 + 2


def test_nobody_at_the_address_is_tried_again():
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        httpx.post("http://127.0.0.1:9/")

    with pytest.raises(httpx.ConnectError):
        at_once(attempts=3).call(call)
    assert len(calls) == 3


def test_what_may_have_been_done_is_sent_again_only_where_that_does_no_harm():
    error = openai.APITimeoutError(request=httpx.Request("POST", "http://x/"))
    error.__cause__ = httpx.ReadTimeout("silence")
    assert failure_of(error) is None
    assert failure_of(error, idempotent=True) == Passing()
    assert failure_of(ValueError("no")) is None
    assert failure_of(ValueError("no"), idempotent=True) is None


def test_a_call_inside_another_is_tried_once():
    inner: list[int] = []
    retry = at_once(attempts=3)

    def down() -> None:
        inner.append(1)
        raise httpx.ConnectError("nobody")

    with pytest.raises(httpx.ConnectError):
        retry.call(lambda: retry.call(lambda: retry.call(down)))
    assert len(inner) == 3


@given(st.lists(st.integers(0, 5), max_size=60))
def test_an_outage_makes_at_most_the_burst_and_a_tenth_more_calls(failures: list[int]):
    allowance = Allowance(burst=10, share=0.1)
    retry, made = at_once(attempts=6, allowance=allowance), 0

    def down() -> None:
        nonlocal made
        made += 1
        raise httpx.ConnectError("nobody")

    for _ in failures:
        with pytest.raises(httpx.ConnectError):
            retry.call(down)
    assert made <= len(failures) + 10 + len(failures) / 10


@given(st.integers(1, 12), st.floats(0, 0.999), st.none() | st.floats(0, 100))
def test_no_wait_is_longer_than_its_bound(number: int, chance: float, asked: float | None):
    retry = Retry(attempts=10, most=30, chance=lambda: chance, allowance=Allowance(burst=100))
    wait = retry.wait(Passing(asked), number, retry.clock.monotonic_us())
    if wait is None:
        assert number >= 10 or (asked or 0) > 30
    else:
        assert (asked or 0) <= wait <= 30


def test_no_attempt_begins_after_the_time_for_all_of_them():
    retry = Retry(total=100, chance=lambda: 0.999, allowance=Allowance())
    assert retry.wait(Passing(), 1, retry.clock.monotonic_us() - 101_000_000) is None


def test_a_date_is_read_against_that_of_the_answer():
    headers = httpx.Headers({"retry-after": "Tue, 01 Dec 2026 12:00:07 GMT", "date": "Tue, 01 Dec 2026 12:00:00 GMT"})
    error = httpx.HTTPStatusError(
        "x", request=httpx.Request("POST", "http://x/"), response=httpx.Response(503, headers=headers)
    )
    assert failure_of(error) == Passing(7.0)


def test_a_cancelled_wait_ends_at_once_and_a_stopped_one_gives_up():
    retry = Retry(base=3600, most=3600, total=1e9, chance=lambda: 0.9, allowance=Allowance())

    async def main() -> None:
        async def down() -> None:
            raise httpx.ConnectError("nobody")

        task = asyncio.ensure_future(retry.call_async(down))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    retry.stop.set()
    with pytest.raises(httpx.ConnectError):
        retry.call(lambda: httpx.post("http://127.0.0.1:9/"))
