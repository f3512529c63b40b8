from __future__ import annotations

from docket.boundary.call.credentials import fingerprint
from docket.boundary.http1.wire import Head

KEY = bytes(range(32))


def of(*lines: bytes, key: bytes = KEY) -> str | None:
    return fingerprint(Head(1, lines), key)


def test_a_fingerprint_tells_keys_apart_and_does_not_hold_them() -> None:
    one = of(b"Authorization: Bearer sk-1", b"Accept: */*")
    assert one == of(b"authorization: Bearer sk-1"), "header case does not matter"
    assert one is not None
    assert len(one) == 32
    assert "sk-1" not in one
    assert one != of(b"authorization: Bearer sk-2")
    assert one != of(b"x-api-key: Bearer sk-1")
    assert one != of(b"authorization: Bearer sk-1", key=bytes(32)), "another run, another fingerprint"
    assert of(b"accept: */*") is None
