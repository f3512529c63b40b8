"""A held key goes in for the token alone: whole credential, right field, right origin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.held_keys import HeldKeys
from docket.boundary.http1.body import Shelf, WholeBody
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.wire import Framing, RequestHead
from docket.boundary.routes import Route
from kit.boundary import raw_upstream, read_request, run, stage

TOKEN, KEY, OTHER = "t0ken-of-the-run", "sk-REAL-key-0001", "sk-REAL-key-0002"
OPENAI = Route.of("openai", "https://api.openai.com/v1", family="openai", provider="openai")
ANTHROPIC = Route.of("anthropic", "https://api.anthropic.com", family="anthropic", provider="anthropic")
GEMINI = Route.of("gemini", "https://generativelanguage.googleapis.com", family="gemini", provider="google")
SECOND = Route.of("mirror", "https://mirror.test/v1", family="openai", provider="openai")
ROUTES = (OPENAI, ANTHROPIC, GEMINI, SECOND)


def sent(route: Route, *lines: bytes, target: bytes = b"/v1/x", **keys: str) -> tuple[list[bytes], bytes]:
    """The field lines and the target that leave."""
    held = HeldKeys(TOKEN, ROUTES, keys)
    head = RequestHead(b"POST", target, 1, lines)
    filled = held.fill(Outgoing(route.origin, head, target, WholeBody(Shelf(), Framing("none", 0))))
    return [line for _, line in filled.head.lines], filled.target


def test_the_token_becomes_the_key_whatever_the_field_and_the_scheme() -> None:
    token = TOKEN.encode()
    assert sent(OPENAI, b"authorization: Bearer " + token, OPENAI_API_KEY=KEY)[0] == [
        b"authorization: Bearer sk-REAL-key-0001"
    ]
    assert sent(ANTHROPIC, b"X-Api-Key:" + token, ANTHROPIC_API_KEY=KEY)[0] == [b"X-Api-Key:sk-REAL-key-0001"]
    both = sent(
        ANTHROPIC,
        b"x-api-key: " + token,
        b"authorization: Bearer " + token,
        ANTHROPIC_API_KEY=KEY,
        ANTHROPIC_AUTH_TOKEN=OTHER,
    )
    assert both[0] == [b"x-api-key: sk-REAL-key-0001", b"authorization: Bearer sk-REAL-key-0002"]
    query = sent(GEMINI, target=b"/v1beta/x?alt=sse&key=" + token, GEMINI_API_KEY=KEY)
    assert query[1] == b"/v1beta/x?alt=sse&key=sk-REAL-key-0001"


@given(
    name=st.sampled_from([b"x-organization", b"authorization", b"x-api-key", b"cookie"]),
    before=st.text("abc =-", max_size=4),
    after=st.text("abc", min_size=1, max_size=4),
)
def test_a_key_never_goes_into_a_place_that_a_provider_could_repeat(name: bytes, before: str, after: str) -> None:
    """Neither beside other text, nor in another field, nor in a path or another member of a query."""
    line = name + b": " + f"{before}{TOKEN}{after}".encode()
    target = f"/v1/{TOKEN}?{before.strip()}x={TOKEN}&key={TOKEN}{after}".encode()
    for route in (OPENAI, GEMINI):
        lines, left = sent(route, line, target=target, OPENAI_API_KEY=KEY, GEMINI_API_KEY=OTHER)
        assert KEY.encode() not in b"".join(lines) + left
        assert OTHER.encode() not in b"".join(lines) + left


def test_a_key_goes_to_its_own_origin_only() -> None:
    token = b"authorization: Bearer " + TOKEN.encode()
    assert sent(SECOND, token, OPENAI_API_KEY=KEY)[0] == [token]
    assert sent(ANTHROPIC, token, OPENAI_API_KEY=KEY)[0] == [token]
    held = HeldKeys(TOKEN, ROUTES, {"OPENAI_API_KEY": KEY})
    head = RequestHead(b"POST", b"/", 1, [token])
    assert held.lacks(SECOND, head)
    assert held.lacks(ANTHROPIC, head)
    assert not held.lacks(OPENAI, head)
    assert not held.lacks(SECOND, RequestHead(b"POST", b"/", 1, [b"authorization: Bearer its-own-key"]))
    assert KEY not in repr(vars(held))


def test_a_token_for_which_no_key_is_held_never_leaves() -> None:
    async def scene() -> None:
        heads: list[bytes] = []

        async def provider(reader, writer) -> None:  # type: ignore[no-untyped-def]
            heads.append((await read_request(reader))[0])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

        async with raw_upstream(provider) as url:
            route = Route.of("up", url, family="openai", provider="openai")
            for keys, status in (({"OPENAI_API_KEY": KEY}, 200), ({"GEMINI_API_KEY": KEY}, 400)):
                async with stage(url, held=HeldKeys(TOKEN, (route,), keys)) as up:
                    assert up.boundary.token == TOKEN
                    fields = [("authorization", f"Bearer {TOKEN}")]
                    answer = await up.call("/v1/models", method="GET", headers=fields)
                    assert answer.status == status, answer.body
                    if status == 400:
                        assert b"no_key_held" in answer.body
                        assert b"docs/egress.md" in answer.body
        assert len(heads) == 1
        assert b"Bearer " + KEY.encode() in heads[0]
        assert TOKEN.encode() not in heads[0]

    run(scene())
