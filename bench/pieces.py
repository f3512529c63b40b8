"""What each step of one JSON call costs in CPU time, alone: ``python -m bench.pieces``.

The fastest of several rounds of process time, so that other work on the machine matters little. What is missing from
the sum (sockets, the event loop, the two threads) is the difference to the CPU per call of ``bench.speed``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from bench.subject import PRICES
from docket.boundary.call.credentials import fingerprint
from docket.boundary.call.tee import Tee
from docket.boundary.http1.body import Shelf, WholeBody
from docket.boundary.http1.headers import crossing
from docket.boundary.http1.wire import (
    Framing,
    RequestHead,
    encode_request,
    parse_request,
    parse_response,
    request_framing,
)
from docket.boundary.routes import address
from docket.control.admission import Gate, Proposal
from docket.control.breaker import Ended
from docket.control.decision import Admitted, Settlement
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import CallNumber, Hold, ModelRequest, ModelResponse
from docket.ledger.usage import Usage
from docket.policy.model import Policy
from docket.pricing.table import PriceTable
from docket.primitives.canonical import encode
from docket.primitives.instant import Instant, timestamp
from docket.providers import registry
from docket.providers.call import Observation, Sent

ROUNDS = 7
TIMES = 3000
TOKEN = b"tokentokentokentokentokentoken42"
PATH = "/v1/chat/completions"
BODY = (
    b'{"model":"bench-1","stream":false,"max_tokens":64,"messages":[{"role":"user","content":"' + b"0" * 512 + b'"}]}'
)
REQUEST = (
    b"POST /r/%b/up/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:1234\r\nAuthorization: Bearer sk-bench\r\n"
    b"Content-Type: application/json\r\nAccept: application/json\r\nUser-Agent: OpenAI/Python 3.57.0\r\n"
    b"x-stainless-lang: python\r\nx-stainless-retry-count: 0\r\nAccept-Encoding: gzip, deflate\r\nContent-Length: 700"
) % TOKEN
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req-1\r\nContent-Length: 280"
ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"bench-1","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Hello from the bench."},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}}'
)
SENT = Sent(
    upstream="up",
    provider="openai",
    endpoint=registry.recognise("openai", "POST", PATH),
    path=PATH,
    body=BODY,
    body_bytes=len(BODY),
    retry_count=0,
)
"""The request as the boundary hands it on."""


def cost_us(step: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(TIMES):
            step()
        best = min(best, time.process_time() - began)
    return best / TIMES * 1e6


def steps() -> dict[str, Callable[[], object]]:
    """By name, each step of a call."""
    head, answer = parse_request(REQUEST), parse_response(RESPONSE)
    lines = [line for _, line in head.lines]
    fields = crossing(head, Framing("sized", len(BODY)), host=b"api.test")
    shelf, key = Shelf(), os.urandom(32)
    gate = Gate(Policy(), PriceTable.parse(encode(PRICES), at="2026-11-30"))
    call = registry.call_of(SENT)
    chain, ended = Chain(), Ended(reason="complete", status=200)

    def look() -> object:
        fresh = RequestHead(head.method, head.target, 1, lines)
        return request_framing(fresh), fresh.values(b"host"), fresh.tokens(b"connection"), fresh.tokens(b"expect")

    def held() -> object:
        body = WholeBody(shelf, Framing("sized", len(BODY)))
        body.add(BODY)
        digest = body.sha256
        body.close()
        return digest

    def observe() -> Observation | None:
        tee = Tee(lambda status, media_type: registry.observer_of(call, status=status, media_type=media_type))
        tee.begin(answer)
        tee.feed(ANSWER)
        return tee.finish(clean=True)

    def admit() -> Admitted:
        proposal = gate.ask(call, Instant(5))
        assert isinstance(proposal, Proposal)
        return gate.take(proposal, Instant(5))

    seen = observe()

    def decide() -> Settlement:
        return gate.settle(admit(), call, ended, seen, Instant(9))

    usage = decide().usage
    drafts = [draft(event) for event in _events(usage)]

    def extend() -> None:
        for one in drafts:
            chain.extend(one, ts=timestamp(1), elapsed_us=5, entropy=os.urandom)

    return {
        "parse the request's head": lambda: parse_request(REQUEST),
        "look up framing, Host, Connection, Expect": look,
        "split the address, compare the token": lambda: address(head.target, TOKEN),
        "hold and digest the body": held,
        "read what the body asks for": lambda: registry.call_of(SENT),
        "fingerprint the credential": lambda: fingerprint(head, key),
        "admit and settle": decide,
        "choose and encode the request's fields": lambda: (
            crossing(head, Framing("sized", 700), host=b"x"),
            encode_request(b"POST", b"/v1", fields),
        ),
        "parse the answer's head, choose its fields": lambda: crossing(parse_response(RESPONSE), Framing("sized", 280)),
        "digest and meter the answer": observe,
        "make and encode two events": lambda: [draft(event) for event in _events(usage)],
        "hash and chain two events": extend,
    }


def _events(usage: Usage | None) -> tuple[ModelRequest, ModelResponse]:
    request = ModelRequest(
        call=CallNumber(1),
        upstream="up",
        provider="openai",
        protocol="openai-chat",
        endpoint=PATH,
        model="bench-1",
        stream=False,
        bytes=len(BODY),
        hold=Hold(tokens=300),
        waited_us=0,
        private={"target": PATH, "request_sha256": "a" * 64},
    )
    response = ModelResponse(
        call=CallNumber(1),
        status=200,
        reason="complete",
        provider="openai",
        model="bench-1",
        tier="standard",
        upstream="up",
        finish="stop",
        bytes=len(ANSWER),
        first_byte_us=100,
        duration_us=300,
        usage=usage,
        private={"response_sha256": "b" * 64},
    )
    return request, response


def main() -> None:
    total = 0.0
    for name, step in steps().items():
        took = cost_us(step)
        total += took
        sys.stdout.write(f"| {name} | {took:.1f} |\n")
    sys.stdout.write(f"| together | {total:.1f} |\n")


if __name__ == "__main__":
    main()
