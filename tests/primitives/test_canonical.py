"""The canonical form against RFC 8785, its corners, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import FormatError
from docket.primitives.canonical import MAX_DEPTH, MAX_INT, decode, decode_object, encode, is_canonical
from kit.strategies import values

CORNERS = json.loads((Path(__file__).parents[1] / "fixtures/json/canonical.json").read_text())["rows"]
IN_SUBSET = {"key order", "negative zero", "no normalisation NFD", "no normalisation NFC", "escapes"}
"""Rows of the case whose value lies in the subset; every other one has to be refused."""


@given(values)
def test_encoding_is_that_of_an_independent_jcs_library(value: Any) -> None:
    assert encode(value) == rfc8785.dumps(value)


@given(values)
def test_decoding_gives_back_what_was_encoded(value: Any) -> None:
    decoded = decode(encode(value))
    assert decoded == value
    assert encode(decoded) == encode(value)


@given(st.binary(max_size=40) | values.map(lambda value: json.dumps(value).encode()))  # noqa: TID251 not canonical
def test_only_canonical_bytes_are_ever_decoded(data: bytes) -> None:
    try:
        value = decode(data)
    except FormatError:
        return
    assert encode(value) == data == rfc8785.dumps(value)


@pytest.mark.parametrize("row", CORNERS, ids=lambda row: row["name"])
def test_corner_is_canonical_or_refused(row: dict[str, Any]) -> None:
    given_bytes = bytes.fromhex(row["input_hex"])
    canonical = row["canonical_hex"] and bytes.fromhex(row["canonical_hex"])
    if row["name"] in IN_SUBSET:
        assert decode(canonical) == json.loads(given_bytes)
        assert encode(json.loads(given_bytes)) == canonical
    for form in {given_bytes, canonical} - {None}:
        if row["name"] not in IN_SUBSET or form != canonical:
            with pytest.raises(FormatError):
                decode(form)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 2_000, 20_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_is_refused_and_ends_nothing(depth: int, opening: bytes, closing: bytes) -> None:
    inner = b"[]" if opening == b"[" else b"{}"
    with pytest.raises(FormatError):
        decode(opening * (depth - 1) + inner + closing * (depth - 1))


def test_the_deepest_allowed_level_is_allowed() -> None:
    line = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert encode(decode(line)) == line


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"1 ",
        b" 1",
        b"1\n",
        b"{}{}",
        b'{"a": 1}',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b"1.0",
        b"1e2",
        b"-0",
        b"NaN",
        b"Infinity",
        str(MAX_INT + 1).encode(),
        str(-MAX_INT - 1).encode(),
        b"18446744073709551616",
        b'"\xff"',
        b'"\\ud800"',
        b'"\\u0041"',
        b'"\xed\xa0\x80"',
        b'{"":1}',
        b'{"\xc3\xa9":1}',
        b'{"\\u007f":1}',
        b'{"' + b"a" * 129 + b'":1}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(FormatError):
        decode(line)


@pytest.mark.parametrize("value", [1.5, float("nan"), 2**53, "\ud800", {"é": 1}, {"": 1}, {1: 1}, (1,), b"x", object()])
def test_value_without_canonical_form_is_refused_by_the_encoder(value: Any) -> None:
    assert not is_canonical(value)
    with pytest.raises(FormatError):
        encode(value)


@pytest.mark.parametrize("name", ["__proto__", "constructor", "1", " ", "~", "a" * 128])
def test_any_printable_ascii_name_is_data(name: str) -> None:
    assert decode_object(encode({name: True})) == {name: True}


def test_a_document_that_is_no_object_is_refused_where_one_belongs() -> None:
    with pytest.raises(FormatError, match="not an object"):
        decode_object(b"[]")


@given(values)
def test_what_can_be_encoded_is_canonical(value: Any) -> None:
    assert is_canonical(value)
