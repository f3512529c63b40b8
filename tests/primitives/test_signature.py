"""Ed25519 as RFC 8032 defines it, read as strictly as the format demands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.primitives.signature import SigningKey, is_sound_point, verify

SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
SIGNATURE = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)
ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19


def test_first_vector_of_rfc_8032() -> None:
    key = SigningKey(SEED)
    assert key.public == PUBLIC
    assert key.sign(b"") == SIGNATURE
    assert verify(PUBLIC, b"", SIGNATURE)


@given(st.binary(max_size=50), st.integers(0, 63), st.integers(1, 255))
def test_any_changed_byte_of_a_signature_fails(message: bytes, place: int, change: int) -> None:
    signature = bytearray(SigningKey(SEED).sign(message))
    assert verify(PUBLIC, message, bytes(signature))
    signature[place] ^= change
    assert not verify(PUBLIC, message, bytes(signature))
    assert not verify(PUBLIC, message + b"x", bytes(SigningKey(SEED).sign(message)))


def test_the_second_spelling_of_a_signature_is_refused() -> None:
    s = int.from_bytes(SIGNATURE[32:], "little") + ORDER
    assert not verify(PUBLIC, b"", SIGNATURE[:32] + s.to_bytes(32, "little"))


@pytest.mark.parametrize(
    "y",
    [
        0,
        1,
        PRIME - 1,
        2707385501144840649318225287225658788936804267575313519463743609750303402022,
        PRIME - 2707385501144840649318225287225658788936804267575313519463743609750303402022,
    ],
)
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_points_of_small_order_are_refused(y: int, sign: int) -> None:
    assert not is_sound_point((y | sign).to_bytes(32, "little"))


@pytest.mark.parametrize("y", [PRIME, PRIME + 1, PRIME + 18])
def test_coordinates_beyond_the_field_are_refused(y: int) -> None:
    assert not is_sound_point(y.to_bytes(32, "little"))


@pytest.mark.parametrize(
    ("public", "signature"), [(PUBLIC[:31], SIGNATURE), (PUBLIC, SIGNATURE[:63]), (b"\x02" + PUBLIC[1:], SIGNATURE)]
)
def test_misshapen_keys_and_signatures_do_not_verify(public: bytes, signature: bytes) -> None:
    assert not verify(public, b"", signature)


def test_a_key_of_small_order_signs_nothing() -> None:
    assert not verify((1).to_bytes(32, "little"), b"", SIGNATURE)
    assert not verify(PUBLIC, b"", (1).to_bytes(32, "little") + SIGNATURE[32:])
