"""Ways past a cap and past ``[models]``, over real sockets: a model that the body does not name, a body that two
servers read differently, a target that is spelt oddly. What docket cannot read is not free.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.pricing.toy import toy_document

from docket.boundary.call.admission import QueuedAdmission
from docket.clock import SystemClock
from docket.control.admission import Gate
from docket.ledger.events import ModelDenied
from docket.policy.parse import parse
from docket.pricing.table import PriceTable
from docket.sim.upstream import ScriptedProvider
from kit.boundary import Answered, run, stage

HERE = Path(__file__).parents[1] / "fixtures" / "bypass"
DENY = '[models]\ndeny = ["acme-blocked-*", "acme-chat-2"]\n'
CAP = "[caps]\nmax_usd = 1\n"
WORST = '[caps]\nmax_usd = 1\nhold = "worst"\n'
CHAT = "/v1/chat/completions"
VERTEX = "/v1/projects/p/locations/l/publishers/anthropic/models/"


def sent(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()  # noqa: TID251 a client's own


def ask(
    policy: str,
    path: str,
    body: object,
    *,
    family: str = "openai",
    method: str = "POST",
    headers: tuple[tuple[str, str], ...] = (),
) -> tuple[Answered, list[str], list[str], list[str]]:
    """The answer, the codes of refusals, the holds in dollars, and what the provider received."""
    table = PriceTable.parse(toy_document().replace(b'"acme"', f'"{family}"'.encode()), at="2026-11-30")
    gate = Gate(parse(policy, "docket.toml"), table)
    found: list[object] = []

    async def play() -> None:
        provider = ScriptedProvider()
        url = await provider.start()
        admission = QueuedAdmission(gate, SystemClock())
        async with stage(url, family=family, admission=admission, usd_cap="max_usd" in policy) as on:  # type: ignore[arg-type]
            answer = await on.call(path, sent(body), method=method, headers=headers)
            denied = [event.code for event in on.record.of(ModelDenied)]
            holds = [str(event.hold.usd) for event in on.record.requests()]
            found.extend((answer, denied, holds, [seen.target for seen in provider.seen]))
        await provider.close()

    run(play())
    return tuple(found)  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["1_last_allowed", "2_first_allowed", "3_escaped_name", "5_stream_twice"])
def test_a_deciding_member_given_twice_is_a_400_and_the_provider_sees_nothing(name: str) -> None:
    answer, denied, _, reached = ask(DENY + WORST, CHAT, (HERE / f"{name}.json").read_bytes())
    assert (answer.status, denied, reached) == (400, ["ambiguous_request"], [])


def test_a_limit_given_twice_never_holds_the_smaller_one() -> None:
    answer, denied, _, reached = ask(WORST, CHAT, (HERE / "4_limit_twice.json").read_bytes())
    assert (answer.status, denied, reached) == (400, ["ambiguous_request"], [])


def test_members_that_decide_nothing_may_repeat() -> None:
    body = (HERE / "6_harmless_inner.json").read_bytes().replace(b"{", b'{"max_tokens":9,', 1)
    answer, denied, _, reached = ask(DENY + WORST, CHAT, body)
    assert (answer.status, denied, reached) == (200, [], [CHAT])


@pytest.mark.parametrize(
    ("family", "path", "body"),
    [
        ("anthropic", VERTEX + "acme-chat-2:rawPredict", {"max_tokens": 64, "messages": []}),
        ("anthropic", VERTEX + "acme-chat-2@20260101:streamRawPredict", {"max_tokens": 64, "messages": []}),
        ("anthropic", VERTEX + "acme%2Dchat%2D2:rawPredict", {"max_tokens": 64, "messages": []}),
        ("anthropic", "/model/acme-chat-2/invoke", {"max_tokens": 64, "messages": []}),
        ("anthropic", "/model/acme-chat-2/invoke-with-response-stream", {"max_tokens": 64, "messages": []}),
        ("anthropic", "/model/acme-chat-2/converse", {"messages": []}),
        ("anthropic", "/model/arn%3Aaws%3Abedrock%3A%3A0%3Ap%2Facme-chat-2/converse-stream", {"messages": []}),
        ("openai", "/openai/deployments/acme-chat-2/chat/completions?api-version=1", {"messages": []}),
        ("openai", "/openai/deployments/blue/chat/completions", {"model": "acme-chat-2", "messages": []}),
        ("gemini", "/v1beta/models/acme-chat-2:generateContent", {"contents": []}),
        ("gemini", "/v1beta/models/acme%2dchat-2%3AstreamGenerateContent", {"contents": []}),
        ("anthropic", "/v1/messages", {"model": "acme-chat-1", "fallbacks": [{"model": "acme-chat-2"}]}),
        (
            "anthropic",
            "/v1/messages",
            {"model": "acme-chat-1", "tools": [{"type": "advisor_1", "model": "acme-chat-2"}]},
        ),
        ("openai", CHAT, {"model": "acme-chat-1", "models": ["x", "acme-chat-2"]}),
        ("openai", CHAT, {"messages": []}),
        ("openai", "/models/acme/acme-blocked-9", {"inputs": "hi"}),
        ("openai", "/v2/models/acme-blocked-9/infer", {}),
        ("openai", CHAT, b"not json"),
        ("openai", CHAT, b'{"model": "acme-chat-1"\xff}'),
    ],
)
def test_a_model_that_is_denied_is_so_wherever_it_is_named(family: str, path: str, body: object) -> None:
    answer, denied, _, reached = ask(DENY, path, body, family=family)
    assert (answer.status, denied, reached) == (400, ["model_denied"], []), answer.body


@pytest.mark.parametrize(
    ("family", "path", "body", "code"),
    [
        ("anthropic", VERTEX + "acme-new-1:rawPredict", {"max_tokens": 64, "messages": []}, "unpriced"),
        ("anthropic", "/model/acme-chat-1/converse", {"messages": []}, "unmetered_endpoint"),
        ("anthropic", "/model/acme-chat-1/invoke-with-response-stream", {"messages": []}, "unmetered_endpoint"),
        ("openai", "/openai/deployments/team-blue/chat/completions", {"messages": []}, "unpriced"),
        ("openai", CHAT, {"model": "acme-chat-1", "models": ["acme-new-1"]}, "unpriced"),
        ("openai", CHAT, b"\xef\xbb\xbf{}", "unreadable_request"),
        ("openai", "/v1/moderations;/x", {"model": "acme-chat-1"}, "unknown_endpoint"),
        ("openai", "/v1/new/thing", {}, "unknown_endpoint"),
    ],
)
def test_what_a_usd_cap_cannot_hold_is_refused_for_its_real_reason(
    family: str, path: str, body: object, code: str
) -> None:
    answer, denied, _, reached = ask(CAP, path, body, family=family)
    assert (answer.status, denied, reached) == (400, [code], []), answer.body
    named = {"unpriced": ("acme-new-1", "team-blue"), "unreadable_request": ("JSON",)}.get(code, ("forward",))
    assert any(word.encode() in answer.body for word in named), answer.body


def test_a_model_in_the_path_is_held_and_metered() -> None:
    _, denied, holds, reached = ask(WORST, VERTEX + "acme-chat-1:rawPredict", {"max_tokens": 64}, family="anthropic")
    assert not denied
    assert len(reached) == 1
    assert holds == ["0.000712"], "18 bytes of input at the dearest kind, 4 dollars, and 64 tokens at 10 dollars"


def test_a_fallback_is_held_beside_the_model_that_may_bill_first() -> None:
    body = b'{"model":"acme-chat-1","max_tokens":100,"messages":[]}'
    _, _, (alone,), _ = ask(WORST, "/v1/messages", body, family="anthropic")
    more = body[:-1] + b',"fallbacks":[{"model":"acme-chat-2"}]}'
    _, _, (both,), _ = ask(WORST, "/v1/messages", more, family="anthropic")
    size = len(more)
    assert float(alone) == pytest.approx((len(body) * 4 + 100 * 10) / 1e6)
    assert float(both) == pytest.approx((size * 4 + 100 * 10 + size * 8 + 100 * 20) / 1e6)


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        ((("Content-Encoding", "rot13"),), b"{}", b"rot13"),
        ((("Content-Encoding", "gzip"),), b"no gzip", b"gzip"),
        ((("Content-Encoding", "gzip"),), gzip.compress(b"[]", mtime=0), b"no JSON object"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_under_a_cap_and_passes_without_one(
    headers: tuple[tuple[str, str], ...], body: bytes, reason: bytes
) -> None:
    answer, denied, _, reached = ask(CAP, CHAT, body, headers=headers)
    assert (answer.status, denied, reached) == (400, ["unreadable_request"], [])
    assert reason in answer.body
    answer, denied, _, reached = ask("", CHAT, body, headers=headers)
    assert (answer.status, denied, len(reached)) == (200, [], 1)


FORM = b"\r\n".join(
    (
        b"--xyz",
        b'Content-Disposition: form-data; name="%b"',
        b"",
        b"%b",
        b"--xyz",
        b'Content-Disposition: form-data; name="file"; filename="a.wav"',
        b"",
        b"RIFF",
        b"--xyz--",
        b"",
    )
)
AS_FORM = (("Content-Type", "multipart/form-data; boundary=xyz"),)
TRANSCRIBE = "/v1/audio/transcriptions"


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        (TRANSCRIBE, AS_FORM, FORM % (b"model", b"acme-chat-2")),
        ("/v1/images/edits", AS_FORM, FORM % (b"model", b"acme-blocked-1")),
        (TRANSCRIBE, AS_FORM, FORM % (b"model", b"acme-chat-1") + FORM % (b"model", b"acme-chat-2")),
        (TRANSCRIBE, AS_FORM, (FORM % (b"model", b"acme-chat-2")).replace(b"\r\n", b"\n")),
        (TRANSCRIBE, (), FORM % (b"model", b"acme-chat-2")),
        (TRANSCRIBE + "?model=acme-chat-2", AS_FORM, FORM % (b"model", b"acme-chat-1")),
        ("/v1/images/generations", (), b'\xef\xbb\xbf{"model": "acme-chat-2"}'),
        ("/v1/new/thing", (("Content-Type", "application/x-www-form-urlencoded"),), b"a=b&mod%65l=acme-chat-2"),
        (CHAT + "?model=acme-chat-2", (), b'{"model": "acme-chat-1", "messages": []}'),
        (CHAT + "?mod%65l=acme%2Dchat-2&model=acme-chat-1", (), b'{"model": "acme-chat-1", "messages": []}'),
    ],
)
def test_a_model_that_is_denied_is_so_in_a_query_and_in_a_form(
    path: str, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    answer, denied, _, reached = ask(DENY, path, body, headers=headers)
    assert (answer.status, denied, reached) == (400, ["model_denied"], []), answer.body


@pytest.mark.parametrize("name", [b"model", b"prompt"])
def test_a_form_that_names_no_denied_model_passes_unchanged_and_counts_as_a_call(name: bytes) -> None:
    answer, denied, holds, reached = ask(DENY, TRANSCRIBE, FORM % (name, b"acme-chat-1"), headers=AS_FORM)
    assert (answer.status, denied, holds, reached) == (200, [], ["None"], [TRANSCRIBE])


def test_a_get_that_names_a_model_in_its_query_is_no_free_one() -> None:
    answer, denied, _, reached = ask(DENY, "/prompt/hi?model=acme-chat-2", b"", method="GET")
    assert (answer.status, denied, reached) == (400, ["model_denied"], [])
    answer, denied, _, reached = ask(CAP, "/prompt/hi?model=acme-chat-1", b"", method="GET")
    assert (answer.status, denied, reached) == (400, ["unknown_endpoint"], [])
    _, denied, holds, reached = ask(WORST + DENY, CHAT + "?model=acme-chat-2&limit=5", b"", method="GET")
    assert (denied, holds, len(reached)) == ([], [], 1), "the provider's own list, filtered by a model"


def test_a_model_in_a_query_is_priced_and_held_beside_that_of_the_body() -> None:
    body = b'{"model":"acme-chat-1","max_tokens":100,"messages":[]}'
    _, _, (alone,), _ = ask(WORST, CHAT, body)
    _, _, (both,), _ = ask(WORST, CHAT + "?model=acme-chat-2", body)
    assert float(both) == pytest.approx(3 * float(alone)), "the other model is twice as dear"
    answer, denied, _, reached = ask(WORST, CHAT + "?model=acme-new-1", body)
    assert (answer.status, denied, reached) == (400, ["unpriced"], [])


@pytest.mark.parametrize("target", [CHAT + "#/v1/moderations", "/v1/moderations#x", CHAT + "?a=b#c"])
def test_a_target_with_a_fragment_is_a_400(target: str) -> None:
    answer, denied, _, reached = ask("", target, {"model": "acme-chat-1"})
    assert (answer.status, denied, reached) == (400, ["malformed_target"], [])
    assert b"fragment" in answer.body


@pytest.mark.parametrize(
    ("method", "headers"),
    [("post", ()), ("PUT", ()), ("QUERY", ()), ("GET", ()), ("GET", (("X-HTTP-Method-Override", "POST"),))],
)
def test_an_unusual_method_on_a_model_path_is_a_model_call(method: str, headers: tuple[tuple[str, str], ...]) -> None:
    _, denied, holds, reached = ask(
        WORST, CHAT, b'{"model":"acme-chat-1","max_tokens":1}', method=method, headers=headers
    )
    assert (denied, len(holds), len(reached)) == ([], 1, 1)
