"""Commitments: withholding changes nothing that is hashed, altering does."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import rfc8785
from hypothesis import given

from docket.errors import FormatError
from docket.primitives.sealed import SALT_BYTES, commitment, disclose, seal
from kit.strategies import privates, public_objects


def constant(count: int) -> bytes:
    return b"\x07" * count


def test_commitment_is_the_hash_the_format_defines() -> None:
    salt = "00" * SALT_BYTES
    expected = hashlib.sha256(b"\x02" + rfc8785.dumps(["argv", salt, ["a"]])).hexdigest()
    assert commitment("argv", salt, ["a"]) == expected


@given(public_objects, privates)
def test_withholding_any_members_leaves_the_sealed_form(document: Any, members: Any) -> None:
    if not members:
        return
    disclosed = disclose(members, constant)
    sealed = seal({**document, "private": disclosed})
    withheld = {name: {"commitment": sealed["private"][name]} for name in members}  # type: ignore[index,call-overload]
    assert seal({**document, "private": withheld}) == sealed
    for name in members:
        partly = {**disclosed, name: withheld[name]}
        assert seal({**document, "private": partly}) == sealed
        salt = disclosed[name]["salt"]  # type: ignore[index,call-overload]
        altered = {**disclosed, name: {"salt": salt, "value": [members[name], "x"]}}
        assert seal({**document, "private": altered}) != sealed


def test_sealing_reaches_every_depth_but_not_into_a_value() -> None:
    inner = disclose({"path": {"private": "mine"}}, constant)
    document: Any = {"list": [{"private": inner}]}
    sealed: Any = seal(document)
    assert sealed["list"][0]["private"]["path"] == commitment("path", "07" * SALT_BYTES, {"private": "mine"})


@pytest.mark.parametrize(
    "private",
    [
        {},
        "text",
        None,
        {"a": "0" * 64},
        {"a": {}},
        {"a": {"salt": "07" * 16}},
        {"a": {"salt": "07" * 15, "value": 1}},
        {"a": {"salt": "0A" * 16, "value": 1}},
        {"a": {"salt": "07" * 16, "value": 1, "more": 1}},
        {"a": {"commitment": "0" * 63}},
        {"a": {"commitment": "G" * 64}},
        {"private": {"salt": "07" * 16, "value": 1}},
    ],
)
def test_any_other_shape_is_refused(private: Any) -> None:
    with pytest.raises(FormatError):
        seal({"private": private})
