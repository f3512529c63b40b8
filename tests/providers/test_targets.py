"""One reading of a target: however a paid path is spelt, it is not free."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.providers.endpoints import TABLE
from docket.providers.registry import recognise
from docket.providers.request import models_of
from docket.providers.targets import models_named, readings

PAID = [row for row in TABLE if row.kind.value != "free" and row.method == "POST"]
FREE = [row for row in TABLE if row.kind.value == "free"]


def path_of(tail: str) -> str:
    return "/v1/" + tail.replace("*", "m-1")


def percent(path: str, at: int) -> str:
    at %= len(path)
    return path[:at] + f"%{ord(path[at]):02x}" + path[at + 1 :]


def slashes(path: str, at: int) -> str:
    cuts = [i for i, character in enumerate(path) if character == "/"]
    if not cuts:
        return path
    at = cuts[at % len(cuts)]
    return path[:at] + "//" + path[at + 1 :]


SPELLINGS = {
    "as it is": lambda path, at: path,
    "one character percent-encoded": percent,
    "encoded twice": lambda path, at: percent(path, at).replace("%", "%25"),
    "a slash encoded": lambda path, at: path[0] + path[1:].replace("/", "%2F"),
    "two slashes": slashes,
    "backslashes": lambda path, at: path.replace("/", "\\"),
    "a dot segment": lambda path, at: path + "/.",
    "there and back": lambda path, at: path + "/x/..",
    "there and back, encoded": lambda path, at: path + "/x/%2e%2e",
    "a parameter": lambda path, at: path + ";a=b",
    "a parameter and more path": lambda path, at: path + ";/v1/moderations",
    "an encoded question mark": lambda path, at: path + "%3f/v1/moderations",
    "an encoded fragment": lambda path, at: path + "%23/v1/moderations",
    "a slash at the end": lambda path, at: path + "/",
    "upper case": lambda path, at: path.upper(),
    "a query": lambda path, at: path + "?/v1/moderations",
    "all of it encoded": lambda path, at: "/" + quote(path[1:], safe=""),
}


@given(
    st.sampled_from(PAID),
    st.lists(st.sampled_from(sorted(SPELLINGS)), max_size=2),
    st.integers(0, 200),
    st.sampled_from(["POST", "post", "Post", "PUT", "PATCH", "QUERY", "X"]),
)
def test_a_paid_path_is_never_free_however_it_is_spelt(row: object, spellings: list[str], at: int, method: str) -> None:
    path = path_of(row.tail)  # type: ignore[attr-defined]
    for name in spellings:
        path = SPELLINGS[name](path, at)
    found = recognise(row.family, method, path)  # type: ignore[attr-defined]
    assert found.kind.value != "free", (path, found)


@given(st.sampled_from(PAID), st.sampled_from(["GET", "HEAD", "DELETE", "OPTIONS", "get"]))
def test_a_method_that_reads_is_free_only_without_a_body(row: object, method: str) -> None:
    path = path_of(row.tail)  # type: ignore[attr-defined]
    assert recognise(row.family, method, path, body=True).kind.value == row.kind.value  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", FREE, ids=lambda row: row.name)
def test_what_is_free_is_so_in_its_plain_spelling_alone(row: object) -> None:
    path = path_of(row.tail)  # type: ignore[attr-defined]
    assert recognise(row.family, "POST", path).kind.value == "free"  # type: ignore[attr-defined]
    for spelling in (path + ";a", path + "/x/..", path.replace("/", "%2f"), path.upper()):
        assert recognise(row.family, "POST", spelling).kind.value != "free", spelling  # type: ignore[attr-defined]


@given(st.text(st.characters(codec="ascii", exclude_characters="%;\\?#\0 \t\n\r\v\f\x1c\x1d\x1e\x1f"), min_size=1))
def test_a_plain_path_has_one_reading(segment: str) -> None:
    path = "/v1/" + segment.strip("/.") + "x"
    if "/../" not in path:
        assert len(readings(path)) == 1


@pytest.mark.parametrize(
    ("path", "models"),
    [
        ("/v1/projects/p/locations/l/publishers/anthropic/models/acme-chat-1:rawPredict", ("acme-chat-1",)),
        ("/v1/models/acme-chat-1@20260101:streamRawPredict", ("acme-chat-1@20260101",)),
        ("/model/acme-chat-1/invoke", ("acme-chat-1",)),
        ("/model/arn%3Aaws%3Abedrock%3A%3A0%3Ap%2Facme-chat-1/converse", ("arn:aws:bedrock::0:p/acme-chat-1",)),
        ("/model/arn:aws:bedrock::0:p/acme-chat-1/invoke", ("arn:aws:bedrock::0:p/acme-chat-1",)),
        ("/openai/deployments/team-blue/chat/completions?api-version=1", ("team-blue",)),
        ("/v1beta/models/%61cme:generateContent", ("acme",)),
        ("/v1beta/tunedModels/mine:generateContent", ("mine",)),
        ("/v1/chat/completions", ()),
        ("/v1/projects/p/locations/l/endpoints/openapi/chat/completions", ()),
        ("/gateway/models/v1/chat/completions", ()),
        ("/deployments/green/v1/chat/completions", ()),
    ],
)
def test_the_models_that_a_path_names(path: str, models: tuple[str, ...]) -> None:
    assert models_named(path) == models


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/models/acme/blocked-9", "acme/blocked-9"),
        ("/v2/models/acme-blocked-9/infer", "acme-blocked-9"),
        ("/v1/models/acme:predict/more", "acme:predict"),
    ],
)
def test_on_a_path_that_is_not_known_whatever_stands_behind_models_may_be_one(path: str, model: str) -> None:
    assert model in models_named(path, known=False)
    assert models_named(path) == ()


def test_a_deployment_and_the_body_name_models_and_both_count() -> None:
    assert models_of({"model": "acme-blocked-9"}, "/openai/deployments/team-blue/chat/completions") == (
        "team-blue",
        "acme-blocked-9",
    )


@pytest.mark.parametrize(
    ("body", "models"),
    [
        ({"model": "a", "fallbacks": [{"model": "b"}, "c"]}, ("a", "b", "c")),
        ({"model": "a", "models": ["b", "a"]}, ("a", "b")),
        ({"model": "a", "fallback_model": "b", "fallback_models": ["c"]}, ("a", "b", "c")),
        ({"model": "a", "tools": [{"type": "advisor_20260301", "model": "b"}, {"type": "function"}]}, ("a", "b")),
        ({"model": "a", "metadata": {"model": "b"}, "messages": [{"model": "c"}]}, ("a",)),
    ],
)
def test_every_model_that_a_request_may_use(body: dict[str, object], models: tuple[str, ...]) -> None:
    found = models_of(body, "/v1/messages")
    assert (found[0], sorted(found)) == (models[0], sorted(models))
