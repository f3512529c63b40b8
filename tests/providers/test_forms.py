"""Models that stand in a query or in a form: every one that some server could read, or the form is not read at all."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.providers.call import Call, EndpointClass, Sent
from docket.providers.forms import UnreadableFormError, models_in_form, models_in_query
from docket.providers.registry import call_of, recognise

TYPE = "multipart/form-data; boundary=xyz"


def part(*lines: bytes, content: bytes) -> bytes:
    return b"--xyz\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + content + b"\r\n"


def named(name: bytes, content: bytes, *lines: bytes) -> bytes:
    return part(b'Content-Disposition: form-data; name="' + name + b'"', *lines, content=content)


FILE = part(
    b'Content-Disposition: form-data; name="file"; filename="a\\b.wav"',
    b"Content-Type: audio/wav",
    content=b"RIFF\r\n\r\n--xy\0" + bytes(range(256)),
)
END = b"--xyz--\r\n"
MODEL = named(b"model", b"acme-1")


def models(body: bytes, content_type: str = TYPE) -> tuple[str, ...]:
    return models_in_form(content_type, body)[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (MODEL + FILE + END, ("acme-1",)),
        (FILE + MODEL + END, ("acme-1",)),
        (FILE + named(b"prompt", b"") + END, ()),
        (MODEL + named(b"model", b"acme-2") + END, ("acme-1", "acme-2")),
        (named(b"Model", b" acme-1\n") + END, ("acme-1",)),
        (named(b"mod%65l", b"acme-1") + END, ("acme-1",)),
        (named(b"model[]", b"acme-1") + named(b"models[0]", b"acme-2") + END, ("acme-1", "acme-2")),
        (named(b"model", b'"acme-1"') + END, ('"acme-1"', "acme-1")),
        (named(b"fallbacks", b'["a", {"model": "b"}]') + END, ('["a", {"model": "b"}]', "a", "b")),
        (part(b"content-disposition:form-data;name=model", content=b"acme-1") + END, ("acme-1",)),
        (named(b"model", b"acme-1", b"Content-Type: text/plain; charset=utf-8") + END[:-2], ("acme-1",)),
    ],
)
def test_the_models_that_a_form_names(body: bytes, expected: tuple[str, ...]) -> None:
    found = models(body)
    assert set(expected) <= set(found)
    assert {name for name in found if "[" not in name and '"' not in name} == {
        name for name in expected if "[" not in name and '"' not in name
    }


DOUBTS = {
    "something before it": b"x\r\n" + MODEL + END,
    "something behind it": MODEL + END + MODEL + END,
    "no end": MODEL,
    "line feeds alone": (MODEL + END).replace(b"\r\n", b"\n"),
    "a delimiter that some read inside a line": named(b"a", b"x--xyz\r\n") + MODEL + END,
    "a delimiter after a line feed alone": named(
        b"a", b'x\n--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nb'
    )
    + END,
    "a longer delimiter": named(b"a", b"x\r\n--xyzw") + END,
    "white space behind a delimiter": MODEL.replace(b"--xyz\r\n", b"--xyz \r\n") + END,
    "no blank line": b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n--xyz--\r\n',
    "a folded header": part(b"Content-Disposition: form-data;", b' name="model"', content=b"acme-1") + END,
    "two dispositions": named(b"a", b"acme-1", b'content-disposition: form-data; name="model"') + END,
    "two names": part(b'Content-Disposition: form-data; name="a"; name="model"', content=b"b") + END,
    "an extended name": part(b"Content-Disposition: form-data; name*=utf-8''model", content=b"b") + END,
    "a quote in a name": part(b'Content-Disposition: form-data; filename="a\\"; name="model"; x="', content=b"b") + END,
    "an unknown parameter": part(b'Content-Disposition: form-data; name="a"; Name0="model"', content=b"b") + END,
    "no name": part(b"Content-Disposition: form-data", content=b"b") + END,
    "no disposition": part(b"Content-Type: text/plain", content=b"b") + END,
    "a bare return": part(b'Content-Disposition: form-data; name="a"\rX: "', content=b"b") + END,
    "base64": named(b"model", b"YWNtZS0x", b"Content-Transfer-Encoding: base64") + END,
    "nested": named(b"a", b"--i\r\n\r\n--i--", b"Content-Type: multipart/mixed; boundary=i") + END,
    "UTF-16": named(b"model", "acme".encode("utf-16"), b"Content-Type: text/plain; charset=utf-16") + END,
    "no UTF-8": named(b"model", b"\xff") + END,
    "another character set": named(b"_charset_", b"utf-7") + MODEL + END,
    "a long name": named(b"model", b"m" * 2000) + END,
    "JSON that is none": named(b"request", b"{'model': 1}", b"Content-Type: application/json") + END,
    "JSON with a model twice": named(b"request", b'{"model": "a", "model": "b"}') + END,
    "very many fields": MODEL * 2000 + END,
    "nothing": b"",
}


@pytest.mark.parametrize("why", DOUBTS)
def test_a_form_that_two_servers_could_read_differently_is_not_read(why: str) -> None:
    with pytest.raises(UnreadableFormError, match="its form"):
        models(DOUBTS[why])


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=xyz; boundary=abc",
        "multipart/form-data; boundary=xyz, multipart/form-data; boundary=abc",
        "multipart/form-data; boundary*0=xyz",
        'multipart/form-data; boundary="x\\"yz"',
        "multipart/form-data; boundary=xyz; boundary*0=abc",
        "multipart/form-data; boundary=xyz, text/plain",
        "multipart/form-data; boundary=xyz; a",
        "multipart/form-data; boundary=" + "x" * 71,
    ],
)
def test_a_form_whose_delimiter_is_in_doubt_is_not_read(content_type: str) -> None:
    with pytest.raises(UnreadableFormError):
        models(MODEL + END, content_type)


@pytest.mark.parametrize(
    "stated",
    [
        "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
        "multipart/form-data; boundary=----formdata-undici-012345678901",
        "multipart/form-data; boundary=--------------------------123456789012345678901234",
        'multipart/form-data; boundary="=_a b:c/d?e"; charset=utf-8',
        "Multipart/Form-Data;boundary=0b1c2d;charset=UTF-8",
    ],
)
def test_the_delimiters_of_real_clients_are_read(stated: str) -> None:
    """A browser's, Node's fetch, form-data, a mail library's, one without spaces."""
    boundary = stated.partition("boundary=")[2].partition(";")[0].strip('"').encode()
    assert models((MODEL + FILE + END).replace(b"--xyz", b"--" + boundary), stated) == ("acme-1",)


@given(
    st.lists(st.tuples(st.sampled_from(["model", "prompt", "n", "image[]", "größe"]), st.text(max_size=9)), max_size=6),
    st.binary(max_size=400),
    st.text(max_size=12),
)
def test_every_form_that_a_real_client_writes_is_read_as_it_was_meant(
    fields: list[tuple[str, str]], content: bytes, filename: str
) -> None:
    data: dict[str, list[str]] = {}
    for name, text in fields:
        data.setdefault(name, []).append(text)
    request = httpx.Request("POST", "http://h/", data=data, files={"file": (filename or "f", content)})
    try:
        found = models_in_form(request.headers["content-type"], request.read())[0]
    except UnreadableFormError:
        assert "\\" in filename or '"' in filename
        return
    for value in data.get("model", ()):
        plain = value.strip("\0 \t\r\n")
        assert not plain or plain.removeprefix("models/") in found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("model=a", ("a",)),
        ("key=k&model=a", ("a",)),
        ("a;model=b", ("b",)),
        ("model=a&model=b", ("a", "b")),
        ("MODEL=a", ("a",)),
        ("mod%65l=%61", ("%61", "a")),
        ("mod%2565l=a", ("a",)),
        ("model%5B%5D=a", ("a",)),
        ("deployment=a", ("a",)),
        ("model=models/a", ("a",)),
        ("model=a+b", ("a b",)),
        ("model=", ()),
        ("remodel=a&x=model=b&supermodel", ()),
        ("alt=sse&key=model", ()),
    ],
)
def test_the_models_that_a_query_names(query: str, expected: tuple[str, ...]) -> None:
    assert models_in_query(query) == expected


@given(st.text("abcm1-/%+&;=[] \x7f\xff", max_size=40))
def test_a_query_is_read_whatever_it_is_and_a_model_in_it_is_found(text: str) -> None:
    assert isinstance(models_in_query(text), tuple)
    assert "acme-1" in models_in_query(quote(text, safe="") + "=1&model=acme-1")


def sent(path: str, body: bytes, content_type: str, query: str = "") -> Call:
    return call_of(
        Sent(
            upstream="up",
            provider="openai",
            endpoint=recognise("openai", "POST", path),
            path=path,
            body=body,
            body_bytes=len(body),
            in_query=models_in_query(query),
            content_type=content_type,
        )
    )


@pytest.mark.parametrize(
    ("body", "content_type", "query", "expected", "unread"),
    [
        (MODEL + FILE + END, TYPE, "", ("acme-1",), False),
        (MODEL + FILE + END, TYPE, "model=b", ("acme-1", "b"), False),
        (MODEL + FILE + END, "text/plain", "", ("unknown",), False),
        (MODEL + FILE + END, "", "", ("unknown",), True),
        (MODEL + END, TYPE + "w", "", ("unknown",), True),
        (named(b"payload", b'{"model": "a", "fallbacks": ["b"]}') + END, TYPE, "", ("a", "b"), False),
        (b"model=a&model=b", "application/x-www-form-urlencoded", "", ("a", "b"), False),
        (b"m%6fdel=%61", "application/x-www-form-urlencoded;charset=utf-8", "", ("%61", "a"), False),
        (b'{"model": "a"}', "application/json", "model=b", ("a", "b"), False),
        (b'{"model": "a"}', "audio/wav", "", ("a",), False),
        (b'{"model": "a"}', TYPE, "", ("a",), True),
        (b'\xef\xbb\xbf{"model": "a"}', "text/plain", "", ("unknown",), True),
        ('{"model": "a"}'.encode("utf-16"), "audio/wav", "", ("unknown",), True),
        (b"RIFF0000", "audio/wav", "model=b", ("b",), False),
        (b"RIFF0000", "application/json", "model=b", ("b",), True),
        (b"", "", "", ("unknown",), False),
    ],
)
def test_what_a_request_without_a_parser_names(
    body: bytes, content_type: str, query: str, expected: tuple[str, ...], unread: bool
) -> None:
    call = sent("/v1/audio/transcriptions", body, content_type, query)
    assert (call.models, call.unread is not None) == (expected, unread)


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/v1/generate", EndpointClass.UNKNOWN),
        ("GET", "/prompt/hello", EndpointClass.UNKNOWN),
        ("GET", "/v1/images/generations", EndpointClass.UNMETERED),
        ("GET", "/v1/responses", EndpointClass.METERED),
        ("GET", "/v1/chat/completions", EndpointClass.FREE),
        ("GET", "/v1/chat/completions;x", EndpointClass.METERED),
        ("HEAD", "/v1/chat/completions", EndpointClass.METERED),
        ("GET", "/v1/organization/usage/completions", EndpointClass.FREE),
    ],
)
def test_a_get_whose_query_names_a_model_may_cost_something(method: str, path: str, kind: EndpointClass) -> None:
    assert recognise("openai", method, path, names_model=True).kind is kind
    assert recognise("openai", method, path).kind is EndpointClass.FREE
