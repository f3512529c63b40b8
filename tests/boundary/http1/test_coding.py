"""Content codings: the same text comes out however the coded bytes are cut, and no bomb is followed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import pairwise

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.http1.coding import BOMB_FLOOR, CodingError, Decoder, decode_whole


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


def gzip(data: bytes) -> bytes:
    return zlib.compress(data, wbits=31)


CODERS: dict[str, tuple[list[bytes], Callable[[bytes], bytes]]] = {
    "gzip": ([b"gzip"], gzip),
    "two gzip members": ([b"x-gzip"], lambda data: gzip(data[:7]) + gzip(data[7:])),
    "deflate": ([b"deflate"], zlib.compress),
    "raw deflate": ([b"deflate"], raw_deflate),
    "br": ([b"br"], lambda data: brotli.compress(data, quality=1)),
    "zstd": ([b"zstd"], zstd.compress),
    "two zstd frames": ([b"zstd"], lambda data: zstd.compress(data[:7]) + zstd.compress(data[7:])),
    "gzip in br in zstd": ([b"gzip", b"br", b"zstd"], lambda data: zstd.compress(brotli.compress(gzip(data)))),
}


def decode(codings: list[bytes], pieces: list[bytes]) -> bytes:
    decoder = Decoder(codings)
    return b"".join(part for piece in pieces for part in decoder.feed(piece))


@pytest.mark.parametrize("name", CODERS)
@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=5))
def test_any_cut_gives_the_same(name: str, data: bytes, cuts: list[int]) -> None:
    codings, code = CODERS[name]
    coded = code(data)
    edges = [0, *sorted(cut for cut in cuts if cut < len(coded)), len(coded)]
    assert decode(codings, [coded[a:b] for a, b in pairwise(edges)]) == data


@pytest.mark.parametrize("name", CODERS)
def test_a_body_larger_than_one_step(name: str) -> None:
    codings, code = CODERS[name]
    data = bytes(range(256)) * 5000
    assert decode(codings, [code(data)]) == data


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_given_up_in_bounded_memory(name: str) -> None:
    codings, code = CODERS[name]
    decoder, longest = Decoder(codings), 0

    def follow() -> None:
        nonlocal longest
        for piece in decoder.feed(code(bytes(BOMB_FLOOR * 3))):
            longest = max(longest, len(piece))

    with pytest.raises(CodingError, match="bomb"):
        follow()
    assert 0 < longest <= 1 << 20


@pytest.mark.parametrize("codings", [[b"rot13"], [b"gzip", b"rot13"], [b"gzip"] * 5])
def test_an_unknown_coding_is_said_so(codings: list[bytes]) -> None:
    with pytest.raises(CodingError, match="coding"):
        Decoder(codings)


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_broken_bytes_are_said_so(name: str) -> None:
    codings, code = CODERS[name]
    coded = code(b"hello " * 100)
    with pytest.raises(CodingError, match="coding"):
        decode(codings, [b"\xff\xff" + coded[2:-9] + b"garbage!!"])


def test_the_whole_of_a_request_has_a_bound() -> None:
    assert decode_whole(gzip(b"x" * 1000), [b"gzip"], 1000) == b"x" * 1000
    with pytest.raises(CodingError, match="bomb"):
        decode_whole(gzip(b"x" * 1001), [b"gzip"], 1000)
